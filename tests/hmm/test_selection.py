"""The choice of λ and penalty for chains: the pool is what its members' scores say."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

from crossfade import HiddenMarkovModel
from crossfade.chains.input import read_labels
from crossfade.densities import Gaussian, MultivariateGaussian
from crossfade.errors import DataError
from crossfade.hmm import training
from crossfade.hmm.emissions import emission_for
from crossfade.hmm.objective import labelled_chain
from crossfade.hmm.path import StopRule, path
from crossfade.hmm.selection import ChainSelection, _FoldScores, _SequencesLoss, fit_selected
from crossfade.tradeoff.grid import points
from crossfade.tradeoff.pooling import least_loss
from tests.hmm.cases import labelled

KINDS = ["categorical", "gaussian"]


def read(kind, X, y):
    named = emission_for(kind, 0.1)
    raw, layout = named.read(X, None)
    return named, raw, layout, read_labels(y, layout).codes


def held_out(kind, **settings):
    """Return a loss of the pool, of the fits' own sequences."""
    named, raw, layout, codes = read(kind, *labelled(kind, **settings))
    data = labelled_chain(named, raw, layout, codes, 3, alpha=0.1)
    fits = list(path(data, points(2.0, last=0.01)[::2], StopRule()))
    log_prior = np.log(np.bincount(codes) / codes.size)
    weights = [fit.weights for fit in fits]
    part = _FoldScores.of(weights, data.emission, data.observations, layout, codes)
    return data, fits, part, _SequencesLoss([part, part], log_prior)


def by_hand(part, log_prior, w):
    """Return each path's pooled score, a dictionary a sequence."""
    found = []
    for first, end in itertools.pairwise(part.layout.offsets):
        scores = {}
        for states in itertools.product(range(3), repeat=int(end - first)):
            base = log_prior[list(states)].sum()
            total = base
            for g in range(len(w)):
                s = sum(part.scores[g, first + t, k] for t, k in enumerate(states))
                s += part.start[g, states[0]] + part.stop[g, states[-1]]
                s += sum(part.transitions[g, i, j] for i, j in itertools.pairwise(states))
                total += w[g] * (s - base)
            scores[states] = total
        found.append(scores)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_all_paths(kind):
    data, fits, part, loss = held_out(kind, n_sequences=12, longest=5)
    w = np.random.default_rng(0).dirichlet(np.ones(len(fits))) * 0.8
    total = 0.0
    for scores, (first, end) in zip(
        by_hand(part, loss.log_prior, w), itertools.pairwise(data.layout.offsets), strict=True
    ):
        own = tuple(data.codes[first:end])
        total += logsumexp(list(scores.values())) - scores[own]
    assert loss.mean(w) == pytest.approx(total / data.layout.n_steps, rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_are_the_spread_over_all_paths(kind):
    data, fits, part, loss = held_out(kind, n_sequences=6, longest=5)
    sizes = part.sizes(loss.log_prior)
    for g in range(len(fits)):
        one = np.eye(len(fits))[g]
        spread = 0.0
        for scores, n in zip(
            by_hand(part, loss.log_prior, one), np.diff(data.layout.offsets), strict=True
        ):
            # Scores relative to π, about their mean over paths; k times the mean square of a step.
            relative = [
                value - loss.log_prior[list(states)].sum() for states, value in scores.items()
            ]
            spread += 3.0 * np.var(relative) if n else 0.0
        assert sizes[g] == pytest.approx(spread, rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_hessian_and_minimum(kind):
    _, fits, _, loss = held_out(kind)
    w = np.full(len(fits), 0.15)
    value, seen = loss.evaluate(w)
    gradient, H = loss.model(w, seen)
    rng = np.random.default_rng(0)
    for _ in range(3):
        direction = rng.normal(size=w.size)
        step = 1e-5 * direction
        above, below = loss.evaluate(w + step)[0], loss.evaluate(w - step)[0]
        assert (above - below) / 2e-5 == pytest.approx(gradient @ direction, rel=1e-6, abs=1e-6)
        curved = (above + below - 2.0 * value) / 1e-10
        assert curved == pytest.approx(direction @ H @ direction, rel=2e-2)
    found = least_loss(loss, np.zeros(w.size))
    least = loss.evaluate(found)[0]
    for _ in range(50):
        other = np.maximum(found + 0.02 * rng.normal(size=w.size), 0.0)
        assert loss.evaluate(other)[0] > least
    at, _ = loss.model(found, loss.evaluate(found)[1])
    assert (at > -1e-5 * loss.n_steps).all()
    assert np.abs(at[found > 0]).max() < 1e-5 * loss.n_steps


@pytest.mark.parametrize(
    ("kind", "scale"), [("categorical", 0.5), ("gaussian", 1.0), ("categorical", 1.3)]
)
def test_the_fitted_pool_has_the_posterior_of_its_members(kind, scale):
    data, _, _, _ = held_out(kind, n_sequences=15, longest=5)
    log_prior = np.log(np.bincount(data.codes) / data.codes.size)
    grid = points(2.0, last=0.01)
    shares = np.random.default_rng(1).dirichlet(np.ones(len(grid)))
    chosen = ChainSelection(grid, shares, scale, "", np.zeros(len(grid)), log_prior)
    pool = fit_selected(data, chosen, StopRule())
    fits = list(path(data, grid, StopRule()))
    parts = _FoldScores.of(
        [fit.weights for fit in fits], data.emission, data.observations, data.layout, data.codes
    )
    one = _FoldScores.of([pool.weights], data.emission, data.observations, data.layout, data.codes)
    members = by_hand(parts, log_prior, scale * shares)
    for scores, own in zip(members, by_hand(one, log_prior, np.ones(1)), strict=True):
        together = np.array([[scores[p], own[p]] for p in scores])
        together -= logsumexp(together, axis=0)
        np.testing.assert_allclose(together[:, 0], together[:, 1], atol=1e-8)
    # The density is the mean's: with weights that sum to one its posterior is the pool's.
    assert np.isfinite(pool.parameters.transitions).all()
    np.testing.assert_allclose(pool.parameters.transitions.sum(axis=1), 1.0)
    assert pool.tradeoff == pytest.approx(shares @ [tradeoff for tradeoff, _ in grid])


def mean_length(model):
    """Return the steps of a sequence of the chain with its end, in the mean."""
    at = model.parameters_
    onward = at.transitions * (1.0 - at.stop)[:, None]
    return at.start @ np.linalg.solve(np.eye(len(onward)) - onward, np.ones(len(onward)))


@pytest.mark.parametrize(
    ("emission", "scale"),
    [*(("categorical", scale) for scale in (0.0, 0.4, 1.0, 1.3)), ("gaussian", 0.4), ("full", 1.3)],
)
def test_the_pool_is_a_power_of_a_density_that_skips_what_is_missing(emission, scale, monkeypatch):
    X, y = labelled("categorical" if emission == "categorical" else "gaussian", longest=5)
    grid, pi = points(2.0, last=0.01), np.array([0.5, 0.3, 0.2])
    shares = np.random.default_rng(1).dirichlet(np.ones(len(grid)))
    chosen = ChainSelection(grid, shares, scale, "", np.zeros(len(grid)), np.log(pi))
    monkeypatch.setattr(training, "select_chain", lambda *_, **__: chosen)
    density = MultivariateGaussian("full") if emission == "full" else emission
    model = HiddenMarkovModel(emission=density, tradeoff="auto", alpha=0.1).fit(X, y)
    assert mean_length(model) == pytest.approx(np.mean([len(x) for x in X]), rel=1e-9)
    holes = [x for x in X if len(x) > 2][:5]
    if emission == "categorical":
        holes = [[None, *x[1:-1], None] for x in holes] + [[None], [None, "never seen"]]
    else:
        holes = [np.array(x) for x in holes] + [np.zeros((1, 2))]
        for x in holes:
            x[[0, -1]] = np.nan
            if emission == "gaussian" and len(x) > 1:
                x[1, 0] = np.nan
    for x, posterior in zip(holes, model.predict_proba(holes), strict=True):
        paths = [*itertools.product(range(3), repeat=len(x))]
        joint = model.log_likelihood([x] * len(paths), paths)
        assert logsumexp(joint) == pytest.approx(model.log_likelihood([x])[0], abs=1e-9)
        of_path = scale * joint + (1.0 - scale) * np.log(pi)[np.array(paths)].sum(axis=1)
        expected = np.zeros((len(x), 3))
        for states, share in zip(paths, np.exp(of_path - logsumexp(of_path)), strict=True):
            expected[np.arange(len(x)), states] += share
        np.testing.assert_allclose(posterior, expected, atol=1e-9)


@pytest.mark.usefixtures("whole_choice")
@pytest.mark.parametrize("kind", ["categorical", pytest.param("gaussian", marks=pytest.mark.slow)])
def test_auto_pools_and_best_picks(kind):
    X, y = labelled(kind, n_sequences=12, longest=8, heavy=True)
    settings = {"emission": kind, "random_state": 0, "max_iter": 300}
    model = HiddenMarkovModel(tradeoff="auto", **settings).fit(X, y)
    at = model.tradeoff_path_
    assert [*zip(at["tradeoff"], at["l2"], strict=True)] == points(2.0, last=0.01)
    assert model.posterior_scale_ == pytest.approx(at["weight"].sum(), rel=1e-12)
    assert model.tradeoff_ == pytest.approx(np.average(at["tradeoff"], weights=at["weight"]))
    assert model.selection_.startswith("refits on 5 folds of 12 sequences: pool of 9 points, ")
    assert all(np.isfinite(p).all() for p in model.predict_proba(X))
    assert np.isfinite(model.log_likelihood_history_).all()
    best = HiddenMarkovModel(tradeoff="best", **settings).fit(X, y)
    place = best.tradeoff_path_["log_loss"].argmin()
    np.testing.assert_array_equal(best.tradeoff_path_["log_loss"], at["log_loss"])
    np.testing.assert_array_equal(np.flatnonzero(best.tradeoff_path_["weight"]), [place])
    assert best.tradeoff_ == at["tradeoff"][place]
    named = Gaussian(shrinkage_rows=2.0) if kind == "gaussian" else kind
    given = HiddenMarkovModel(
        tradeoff=float(best.tradeoff_),
        l2=at["l2"][place],
        model_end=True,
        **settings | {"emission": named},
    ).fit(X, y)
    for one, other in zip(best.predict_proba(X), given.predict_proba(X), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    # Nothing of a choice is left by a fit without one, with labels or without.
    for tags in (y, None):
        again = copy.deepcopy(model).set_params(tradeoff=1.0, n_states=3).fit(X, tags)
        for name in ("tradeoff_path_", "posterior_scale_", "selection_"):
            assert not hasattr(again, name)


def test_a_choice_is_the_same_again():
    X, y = labelled("categorical", n_sequences=10, longest=6)
    one, other = (
        HiddenMarkovModel(tradeoff="auto", random_state=0).fit(X, y).tradeoff_path_
        for _ in range(2)
    )
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("settings", [{"tradeoff": "auto"}, {"tradeoff": 0.5}, {"n_states": 2}])
def test_a_fit_that_is_broken_off_leaves_the_one_before(settings, monkeypatch):
    X, y = labelled("categorical")
    model = HiddenMarkovModel(alpha=0.1).fit(X, y)
    before = model.predict_proba(X)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "select_chain", interrupted)
    monkeypatch.setattr(training.path, "follow", interrupted)
    monkeypatch.setattr(training.baum_welch, "expectation_maximisation", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(**settings).fit(
            [["x", "y"]] * 4, None if "n_states" in settings else [["u", "v"]] * 4
        )
    for one, other in zip(model.predict_proba(X), before, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("whole_choice")
@pytest.mark.slow
def test_the_pool_is_no_worse_than_the_best_point_on_new_sequences():
    """Few sequences with heavy tails: the conditional loss on many others, over some draws."""
    gaps = []
    for seed in range(3):
        X, y = labelled("gaussian", seed=seed, n_sequences=150, longest=15, heavy=True)
        pool = HiddenMarkovModel(emission="gaussian", tradeoff="auto", random_state=0)
        at = pool.fit(X[:20], y[:20]).tradeoff_path_
        place = at["log_loss"].argmin()
        best = HiddenMarkovModel(
            emission=Gaussian(shrinkage_rows=2.0),
            tradeoff=float(at["tradeoff"][place]),
            l2=at["l2"][place],
            model_end=True,
        ).fit(X[:20], y[:20])
        losses = []
        for model in (pool, best):
            own = [
                np.log(np.maximum(p[np.arange(len(s)), s], 1e-300)).mean()
                for p, s in zip(model.predict_proba(X[20:]), y[20:], strict=True)
            ]
            losses.append(-np.mean(own))
        gaps.append(losses[0] - losses[1])
    assert np.mean(gaps) < 0.0


def test_a_state_of_one_step_is_never_held_out_and_leaves_a_density():
    X, y = labelled("gaussian", n_sequences=12, longest=9)
    y = [np.minimum(states, 1) for states in y]
    y[np.argmax([len(states) for states in y])][2] = 2
    model = HiddenMarkovModel(emission="gaussian", tradeoff="auto", random_state=0).fit(X, y)
    assert np.isfinite(model.tradeoff_path_["log_loss"]).all()
    assert np.isfinite(model.log_likelihood(X)).all()
    holes = [np.where(np.arange(len(x))[:, None] % 2 == 0, np.nan, x) for x in X]
    for posterior in model.predict_proba(holes):
        np.testing.assert_allclose(posterior.sum(axis=1), 1.0)


def test_states_of_one_sequence_each_leave_nothing_to_score():
    X, y = [["a", "b"], ["c", "d"]], [["u", "v"], ["w", "z"]]
    model = HiddenMarkovModel(tradeoff="auto", random_state=0).fit(X, y)
    assert model.tradeoff_ == 1.0
    assert np.isnan(model.tradeoff_path_["log_loss"]).all()
    assert "unscored" in model.selection_
    assert model.score(X, y) == 1.0


def test_noise_returns_the_shares_of_the_states():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(10, 3)) for _ in range(30)]
    y = [(rng.random(10) < 0.3).astype(int) for _ in range(30)]
    model = HiddenMarkovModel(emission="gaussian", tradeoff="auto", random_state=0).fit(X, y)
    assert model.posterior_scale_ < 0.3
    posterior = np.vstack(model.predict_proba(X))[:, 1]
    assert np.abs(posterior - np.concatenate(y).mean()).mean() < 0.05


def test_where_cells_are_missing_a_point_is_picked():
    X, y = labelled("gaussian", longest=12)
    rng = np.random.default_rng(0)
    X = [np.where(rng.random(x.shape) < 0.2, np.nan, x) for x in X]
    model = HiddenMarkovModel(emission="gaussian", tradeoff="auto", random_state=0).fit(X, y)
    assert "best of 3 points" in model.selection_
    assert (model.tradeoff_path_["weight"] > 0).sum() == 1
    assert model.posterior_scale_ == 1.0


@pytest.mark.usefixtures("whole_choice")
def test_cells_missing_in_the_only_fold_that_is_held_out():
    X = [np.arange(6.0)[:, None], np.array([[0.5], [np.nan], [4.0], [1.0]])]
    y = [[0, 0, 1, 1, 2, 2], [0, 0, 1, 0]]  # state 2 has one sequence, which is never held out
    model = HiddenMarkovModel(emission="gaussian", tradeoff="auto", random_state=0).fit(X, y)
    assert "on 1 folds of 2 sequences: best of 9 points" in model.selection_


def test_what_cannot_be_chosen_is_refused():
    with pytest.raises(DataError, match="held-out folds need at least two sequences"):
        HiddenMarkovModel(tradeoff="auto").fit([["a", "b"]], [["u", "v"]])
    with pytest.raises(DataError, match=r"model_end: expected True or 'auto' for tradeoff=0\.5"):
        HiddenMarkovModel(tradeoff=0.5, model_end=False).fit([["a", "b"]], [["u", "v"]])
    with pytest.raises(DataError, match="tradeoff: expected a number"):
        HiddenMarkovModel(tradeoff="worst").fit([["a", "b"]], [["u", "v"]])
