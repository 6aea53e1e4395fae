"""Rows without a label in fit: against EM and likelihoods written out here, and equalities."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crossfade import (
    DataError,
    EntropicNaiveBayes,
    GaussianDiscriminant,
    NaiveBayes,
    PooledClassifier,
    compare,
    learning_curve,
)
from crossfade.crf import MaximumEntropyClassifier
from crossfade.densities import Gaussian, MultivariateGaussian, Product
from crossfade.densities.categorical import Categorical
from crossfade.glm import BinomialRegression, MultinomialRegression
from crossfade.io import load_model, save_model, scan
from crossfade.tradeoff import selection
from crossfade.tradeoff.binding import bind
from crossfade.tradeoff.labelled_rows import LabelledRows, OtherRows
from crossfade.tradeoff.objective import TradeoffObjective
from crossfade.tradeoff.out_of_fold import out_of_fold
from crossfade.tradeoff.path import cold_start, minimise
from crossfade.tradeoff.pooling import LogarithmicLoss
from crossfade.tradeoff.unlabelled import Unlabelled
from tests.classifiers.models import continuous, mixed


def half_labelled(n=90, n_labelled=30, k=2, d=2, seed=0):
    """Return rows of which the first alone have labels, and the labels, None for none."""
    X, y = continuous(n, k, d, seed)
    labels = y.astype(object)
    labels[n_labelled:] = None
    return X, labels


# -- the objective -----------------------------------------------------------------------------


def case(density, missing=False):
    """Return an objective with unlabelled rows of which each counts .7, and all of these rows."""
    rng = np.random.default_rng(3)
    if isinstance(density, Product):
        X, y = mixed(60, 3)
        X = X[:, [0, 2]]
    else:
        X, y = continuous(60, 3, 2, 3)
    if missing:
        X[rng.random(X.shape) < 0.15] = np.nan
    weights = rng.uniform(0.5, 2.0, 60)
    others = OtherRows(X[40:], weights[40:])
    rows = LabelledRows(X[:40], y[:40], weights[:40], 3, missing, unlabelled=others)
    objective = TradeoffObjective.of(rows, bind(density, rows), 1.0, 1.3)
    return objective.with_unlabelled(Unlabelled.of(rows, 0.7, None)), X, weights


DENSITIES = {
    "gaussian": Gaussian(False),
    "shared variance": Gaussian(True),
    "full": MultivariateGaussian("full"),
    "mixed": Product([(Gaussian(False), [0]), (Categorical([4]), [1])]),
}


def whole_value(objective, X, weights, theta):
    """Return Φ_λ with the unlabelled rows' term, which the density's own log-density gives."""
    natural = objective.parameters(theta).natural
    shares = objective.rows.class_weights / objective.rows.class_weights.sum()
    joint = np.log(shares) + objective.density.log_density(X[40:], natural)
    base = objective.density.log_base_measure(X[40:]).sum(axis=1)
    likelihood = 0.7 * weights[40:] @ (logsumexp(joint, axis=1) - base)
    return objective.value(theta) - objective.tradeoff * likelihood


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", DENSITIES)
@pytest.mark.parametrize("tradeoff", [1.0, 0.4])
def test_the_completed_objective_touches_the_whole_one(name, tradeoff, missing):
    if missing and name == "full":
        pytest.skip("cells of a joint Gaussian are filled in")
    objective, X, weights = case(DENSITIES[name], missing)
    objective = objective.with_tradeoff(tradeoff)
    theta = cold_start(objective)
    completed, added = objective.completed(theta)
    assert np.isclose(
        objective.value(theta) + added, whole_value(objective, X, weights, theta), rtol=1e-12
    )
    gradient = completed.value_and_gradient(theta)[1]
    rng = np.random.default_rng(0)
    for _ in range(5):
        direction = rng.normal(size=theta.size)
        step = 1e-6 * direction
        ahead, behind = (whole_value(objective, X, weights, theta + s) for s in (step, -step))
        assert np.isclose((ahead - behind) / 2e-6, gradient @ direction, rtol=1e-5, atol=1e-5)
        # Elsewhere it lies above, by Jensen's inequality.
        away = theta + 0.05 * direction
        if np.isfinite(completed.value(away)):
            rise = completed.value(away) - completed.value(theta)
            own = whole_value(objective, X, weights, away)
            assert rise >= own - whole_value(objective, X, weights, theta) - 1e-9


@pytest.mark.parametrize("name", DENSITIES)
@pytest.mark.parametrize("tradeoff", [1.0, 0.4])
def test_rounds_never_raise_the_objective_and_end_where_it_is_flat(name, tradeoff, monkeypatch):
    objective, X, weights = case(DENSITIES[name])
    objective = objective.with_tradeoff(tradeoff)
    start = cold_start(objective.with_unlabelled(None))
    values = []
    for rounds in (0, 1, 2, 3, 5, 8, 200):
        monkeypatch.setattr("crossfade.tradeoff.path._EM_STEPS", rounds)
        solution = minimise(objective, start)
        values.append(solution.value)
        assert np.isclose(
            solution.value, whole_value(objective, X, weights, solution.theta), rtol=1e-12
        )
    assert (np.diff(values) <= 1e-9).all()
    assert values[0] - values[-1] > 1e-3
    assert solution.gradient_norm < 1e-3


# -- λ = 1 is EM ------------------------------------------------------------------------------


def em(X, codes, k, weight, estimate, log_density, rounds=400):
    """Return log f_k of rows after EM in which known labels stay and class shares are given."""
    n = codes.size
    shares = np.log(np.bincount(codes, minlength=k) / n)
    r = np.vstack([np.eye(k)[codes], np.zeros((len(X) - n, k))])
    for _ in range(rounds):
        parameters = estimate(X, r)
        joint = shares + log_density(X, parameters)
        r[n:] = weight * np.exp(joint - logsumexp(joint, axis=1)[:, None])[n:]
    return shares + log_density(X, estimate(X, r))


def test_at_the_generative_end_it_is_em_of_gaussians():
    X, labels = half_labelled(200, 40, 3)
    codes = labels[:40].astype(int)

    def estimate(X, r):
        mean = r.T @ X / r.sum(axis=0)[:, None]
        return mean, np.sqrt(r.T @ X**2 / r.sum(axis=0)[:, None] - mean**2)

    def log_density(X, parameters):
        return norm.logpdf(X[:, None], *parameters).sum(axis=2)

    expected = em(X, codes, 3, 0.5, estimate, log_density)
    model = NaiveBayes(
        "gaussian", tradeoff=1, unlabelled="missing", unlabelled_weight=0.5, var_smoothing=0.0
    ).fit(X, labels)
    np.testing.assert_allclose(model.joint_log_likelihood(X), expected, atol=2e-3)
    assert model.unlabelled_weight_ == 0.5
    assert model.n_unlabelled_ == 160


def test_at_the_generative_end_it_is_em_of_categories_and_the_smoothing_stays():
    rng = np.random.default_rng(5)
    y = rng.integers(2, size=300)
    X = (rng.random((300, 4)) < np.where(y[:, None], 0.7, 0.3)).astype(int)
    X += (rng.random((300, 4)) < 0.2).astype(int)
    labels = y.astype(object)
    labels[60:] = None

    def estimate(X, r):
        counts = np.stack([r.T @ (level == X) for level in range(3)]) + 1.0
        return np.log(counts / counts.sum(axis=0))

    def log_density(X, parameters):
        return sum(parameters[X[:, j], :, j] for j in range(4))

    expected = em(X, y[:60], 2, 1.0, estimate, log_density)
    model = NaiveBayes("categorical", tradeoff=1, unlabelled="missing", unlabelled_weight=1).fit(
        X.astype(str), labels
    )
    np.testing.assert_allclose(model.joint_log_likelihood(X.astype(str)), expected, atol=2e-3)


def test_unlabelled_documents_lend_their_words():
    texts = ["good fine film", "bad poor film", "good fine plot", "bad poor plot"] * 2
    more = ["good splendid scene here", "bad dreadful scene here"] * 20
    frame = pd.DataFrame({"text": [*texts, *more]})
    labels = ["up", "down"] * 4 + [None] * 40
    plain, model = (
        NaiveBayes({"text": "text"}, tradeoff=1, unlabelled="missing", unlabelled_weight=w).fit(
            frame, labels
        )
        for w in (0, 1)
    )
    new = pd.DataFrame({"text": ["splendid scene", "dreadful scene"]})
    assert np.abs(plain.predict_proba(new)[:, 1] - 0.5).max() < 0.2
    assert model.predict(new).tolist() == ["up", "down"]
    assert model.predict_proba(new).max(axis=1).min() > 0.9


@pytest.mark.parametrize("others", [False, True])
def test_out_of_fold_words_that_only_documents_held_out_have_say_nothing(monkeypatch, others):
    # Those of new documents say nothing; they must not count for the class of fewer words.
    rng = np.random.default_rng(0)
    y = (np.arange(60) % 6 == 0).astype(int)
    shares = np.where(y[:, None] & (np.arange(30) < 5), 7.0, 1.0)
    shares /= shares.sum(axis=1, keepdims=True)
    texts = [" ".join(rng.choice([f"w{j}" for j in range(30)], 8, p=p)) for p in shares]
    longer = [f"{text} {' '.join(f'own{i}x{j}' for j in range(5))}" for i, text in enumerate(texts)]
    fold, seen = np.arange(60) // 6 % 3, []

    def spied(*arguments):
        seen.append(out_of_fold(*arguments))
        return seen[-1]

    monkeypatch.setattr(selection, "out_of_fold", spied)
    for held in (texts, longer):
        told = [(held if k == 0 else longer)[i] for i, k in enumerate(fold)]
        labels = [*y.tolist(), *[None] * (10 * others)]
        frame = pd.DataFrame({"text": told + longer[1:30:3] * others})
        model = NaiveBayes({"text": "text"}, unlabelled="missing" if others else None)
        model._fit(frame, labels, None, None, fold)
    one, other = (np.array(found.scores)[:, np.isin(found.index, np.flatnonzero(fold == 0))]
                  for found in seen)  # fmt: skip
    np.testing.assert_allclose(one, other, atol=1e-3)


# -- equalities -------------------------------------------------------------------------------

#: One of each solver: closed form, Newton, a joint Gaussian, a choice.
MODELS = {
    "generative": NaiveBayes(tradeoff=1, unlabelled_weight=0.5),
    "between": NaiveBayes(tradeoff=0.5, unlabelled_weight=0.5),
    "full": GaussianDiscriminant("full", tradeoff=0.5, unlabelled_weight=0.5),
    "chosen": NaiveBayes(tradeoff=0.5),
    "pool": NaiveBayes(),
}


@pytest.fixture(scope="module")
def fits():
    X, labels = half_labelled()
    return {name: fitted(model, X, labels) for name, model in MODELS.items()}, X, labels


def fitted(model, X, labels, **more):
    return clone(model).set_params(unlabelled="missing").fit(X, labels, **more)


@pytest.mark.parametrize("name", MODELS)
def test_the_order_of_rows_and_the_names_of_labels_do_not_matter(name, fits):
    models, X, labels = fits
    expected = models[name].predict_proba(X)
    order = np.random.default_rng(1).permutation(len(X))
    other = fitted(MODELS[name], X[order], labels[order])
    np.testing.assert_allclose(other.predict_proba(X), expected, atol=1e-6)
    renamed = [None if label is None else "ba"[label] for label in labels]
    other = fitted(MODELS[name], X, renamed)
    np.testing.assert_allclose(other.predict_proba(X)[:, ::-1], expected, atol=1e-6)
    assert np.isclose(other.unlabelled_weight_, models[name].unlabelled_weight_, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_weights_are_repetition_with_and_without_a_label(name, fits):
    _, X, labels = fits
    times = 1 + np.arange(len(X)) % 3
    times[-1] = 0
    weighted = fitted(MODELS[name], X, labels, sample_weight=times)
    repeated = fitted(MODELS[name], np.repeat(X, times, axis=0), np.repeat(labels, times))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0, "auto"])
@pytest.mark.parametrize("of", [NaiveBayes, GaussianDiscriminant])
def test_without_weight_they_have_no_part(of, tradeoff):
    X, labels = half_labelled()
    plain = of(tradeoff=tradeoff).fit(X[:30], labels[:30].astype(int))
    without = fitted(of(tradeoff=tradeoff, unlabelled_weight=0), X, labels)
    np.testing.assert_allclose(without.predict_proba(X), plain.predict_proba(X), atol=1e-12)
    assert without.unlabelled_weight_ == 0.0
    assert without.selection_.startswith(plain.selection_)
    full = fitted(of(tradeoff=tradeoff), X[:30], labels[:30])
    np.testing.assert_array_equal(full.predict_proba(X), plain.predict_proba(X))
    assert full.n_unlabelled_ == 0


@pytest.mark.parametrize("tradeoff", [1, 0.5, 0, "auto"])
@pytest.mark.parametrize("beside", [False, True])
def test_words_that_only_they_have_change_nothing_without_weight(tradeoff, beside):
    # Documents would lose length to them, and classes shares of all that they say.
    rng = np.random.default_rng(0)
    cells = [" ".join(f"w{j}" for j in rng.zipf(1.5, size=9) % 60) for _ in range(60)]
    frame = pd.DataFrame({"text": cells} | ({"x": rng.normal(size=60)} if beside else {}))
    frame.loc[20:, "text"] += [f" only{i} here{i}" for i in range(40)]
    labels = (np.arange(60) % 2).astype(object)
    kinds = {"text": "text"} | ({"x": "gaussian"} if beside else {})
    plain = NaiveBayes(kinds, tradeoff=tradeoff).fit(frame[:20], labels[:20].astype(int))
    labels[20:] = None
    without = fitted(NaiveBayes(kinds, tradeoff=tradeoff, unlabelled_weight=0), frame, labels)
    np.testing.assert_allclose(
        without.predict_proba(frame), plain.predict_proba(frame), rtol=1e-6, atol=1e-9
    )


def test_the_conditional_likelihood_has_no_part_of_them():
    X, labels = half_labelled()
    plain = NaiveBayes(tradeoff=0).fit(X[:30], labels[:30].astype(int))
    model = fitted(NaiveBayes(tradeoff=0, unlabelled_weight=1), X, labels)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize(
    "marked",
    [
        lambda y: [None if label == 9 else int(label) for label in y],
        lambda y: np.where(y == 9, np.nan, y),
        lambda y: pd.array(np.where(y == 9, None, y), dtype="Int64"),
        lambda y: pd.Series(np.where(y == 9, None, y), dtype="Int64"),
        lambda y: pl.Series(y.tolist()).replace(9, None),
        lambda y: np.ma.masked_equal(y, 9),
        lambda y: pd.Categorical(np.where(y == 9, None, y)),
    ],
    ids=["list", "nan", "array", "pandas", "polars", "masked", "categorical"],
)
def test_missing_labels_of_all_kinds(marked):
    X, labels = half_labelled()
    y = np.array([9 if label is None else label for label in labels])
    expected = fitted(MODELS["generative"], X, labels)
    model = fitted(MODELS["generative"], X, marked(y))
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-12)
    assert model.classes_.tolist() == [0, 1]
    by_value = clone(MODELS["generative"]).set_params(unlabelled=9).fit(X, y)
    np.testing.assert_allclose(by_value.predict_proba(X), expected.predict_proba(X), atol=1e-12)


# -- tables of all kinds ----------------------------------------------------------------------


def test_categories_and_cells_that_only_unlabelled_rows_have_or_lack():
    rng = np.random.default_rng(2)
    y = rng.integers(2, size=120)
    X = pd.DataFrame({"x": y + rng.normal(size=120), "colour": np.where(y == 1, "red", "blue")})
    X.loc[60:80, "colour"] = "green"
    X.loc[100:, "x"] = np.nan
    labels = [int(label) if i < 40 else None for i, label in enumerate(y)]
    for tradeoff in (1, 0.5, "auto"):
        for of in (NaiveBayes, GaussianDiscriminant):
            model = of(tradeoff=tradeoff, unlabelled="missing", unlabelled_weight=1)
            posterior = model.fit(X, labels).predict_proba(X)
            assert np.isfinite(posterior).all()
            assert "green" in model.schema_.categories[1]


@pytest.mark.parametrize("marker", ["missing", -1])
def test_labels_that_all_or_no_rows_lack(marker):
    X, labels = half_labelled()
    none = [None if marker == "missing" else marker] * len(X)
    with pytest.raises(DataError, match=r"^y: expected labels .*, got 90 rows without a label"):
        NaiveBayes(unlabelled=marker).fit(X, none)
    every = NaiveBayes(tradeoff=1, unlabelled=marker).fit(X[:30], labels[:30])
    assert f"0 rows without a label to learn from (unlabelled={marker!r})" in every.selection_


@pytest.mark.parametrize("tradeoff", [1, 0.5, "auto"])
@pytest.mark.parametrize(
    "of", [NaiveBayes, GaussianDiscriminant], ids=["naive Bayes", "discriminant"]
)
def test_rows_without_a_label_and_without_a_cell_have_no_part(of, tradeoff):
    X, labels = half_labelled()
    X[5, 0] = X[40, 1] = np.nan
    order = np.random.default_rng(0).permutation(len(X) + 50)
    longer = np.vstack([X, np.full((50, 2), np.nan)])[order]
    model = of(tradeoff=tradeoff)
    expected = fitted(model, X, labels)
    found = fitted(model, longer, np.append(labels, [None] * 50)[order])
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-6)
    assert np.isclose(found.unlabelled_weight_, expected.unlabelled_weight_, atol=1e-6)
    assert found.n_unlabelled_ == expected.n_unlabelled_ == 60
    alone = fitted(model, np.vstack([X[:30], np.full((9, 2), np.nan)]), labels[:39])
    assert alone.n_unlabelled_ == 0


def test_all_rows_of_one_class_lack_a_label():
    X, labels = half_labelled()
    labels[labels == 1] = None
    with pytest.raises(DataError, match="expected at least 2 classes, got 1 class"):
        fitted(NaiveBayes(), X, labels)


def test_unlabelled_rows_of_one_class_move_its_density_alone():
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(size=(20, 1)), 20 + rng.normal(size=(20, 1))])
    more = 21 + rng.normal(size=(200, 1))
    labels = [*[0] * 20, *[1] * 20, *[None] * 200]
    before = NaiveBayes("gaussian", tradeoff=1).fit(X, labels[:40])
    model = fitted(NaiveBayes("gaussian", tradeoff=1, unlabelled_weight=1), [*X, *more], labels)
    own = np.array([-1.0, 0.5])[:, None]
    np.testing.assert_allclose(
        model.joint_log_likelihood(own)[:, 0], before.joint_log_likelihood(own)[:, 0], atol=1e-6
    )
    every = np.concatenate([X[20:], more])
    expected = np.log(0.5) + norm.logpdf(own[:, 0] + 20, every.mean(), every.std())
    np.testing.assert_allclose(model.joint_log_likelihood(own + 20)[:, 1], expected, rtol=1e-6)


def test_class_shares_are_those_of_labelled_rows_or_those_given():
    X, labels = half_labelled()
    shares = np.bincount(labels[:30].astype(int)) / 30
    model = fitted(NaiveBayes(tradeoff=1, unlabelled_weight=1), X, labels)
    np.testing.assert_allclose(model.class_prior_, shares, atol=1e-12)
    np.testing.assert_allclose(model.class_count_, 30 * shares)
    given = fitted(NaiveBayes(tradeoff=1, unlabelled_weight=1, class_prior=[0.9, 0.1]), X, labels)
    np.testing.assert_allclose(given.class_prior_, [0.9, 0.1], atol=1e-12)
    # How much a class is to count is no frequency: densities stay where they were.
    weighted = fitted(
        NaiveBayes("gaussian", tradeoff=1, unlabelled_weight=1, var_smoothing=0), X, labels
    )
    again = fitted(
        NaiveBayes(
            "gaussian",
            tradeoff=1,
            unlabelled_weight=1,
            var_smoothing=0,
            class_weight={0: 1.0, 1: 1.0},
        ),
        X,
        labels,
    )
    np.testing.assert_allclose(again.predict_proba(X), weighted.predict_proba(X), atol=1e-12)


# -- choosing ---------------------------------------------------------------------------------


def test_they_are_used_where_held_out_labels_say_so():
    rng = np.random.default_rng(6)
    y = rng.integers(2, size=600)
    X = rng.normal(size=(600, 6)) + 1.2 * y[:, None]
    labels = y.astype(object)
    labels[12:] = None
    helped = fitted(NaiveBayes("gaussian", tradeoff=1), X[:400], labels[:400])
    assert helped.unlabelled_weight_ > 0
    assert "388 rows without a label" in helped.selection_
    plain = NaiveBayes("gaussian", tradeoff=1).fit(X[:12], y[:12])
    losses = [
        -np.log(model.predict_proba(X[400:])[np.arange(200), y[400:]]).mean()
        for model in (helped, plain)
    ]
    assert losses[0] < 0.9 * losses[1]


def test_they_are_left_out_where_they_mislead():
    # Rows of neither class, wherever they lie.
    rng = np.random.default_rng(7)
    y = rng.integers(2, size=300)
    X = 1.5 * y[:, None] + rng.normal(size=(300, 2))
    X[60:] = rng.uniform(-30, 30, size=(240, 2))
    labels = y.astype(object)
    labels[60:] = None
    model = fitted(NaiveBayes("gaussian", tradeoff=1), X, labels)
    assert model.unlabelled_weight_ == 0.0
    assert "have no part" in model.selection_


def test_rows_that_have_no_part_leave_the_fit_as_it_is_without_them():
    # What all rows together would have chosen of columns is not taken from them, either.
    rng = np.random.default_rng(5)
    labels = np.arange(24) % 2
    counts = rng.poisson(1.0 + labels[:, None], size=(24, 4)).astype(float)
    strange = 40.0 * rng.standard_t(1, size=(300, 4))
    X = np.vstack([counts, strange])
    y = np.append(labels.astype(object), [None] * 300)
    plain = NaiveBayes(tradeoff=1).fit(counts, labels)
    model = fitted(NaiveBayes(tradeoff=1), X, y)
    assert model.unlabelled_weight_ == 0.0
    assert model.n_unlabelled_ == 300
    assert "300 rows without a label have no part" in model.selection_
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    order = rng.permutation(324)
    again = fitted(NaiveBayes(tradeoff=1), X[order], y[order])
    np.testing.assert_allclose(again.predict_proba(X), plain.predict_proba(X), atol=1e-12)


def test_rows_of_the_same_population_help_one_fit_of_many_columns():
    gains = []
    for seed in range(6):
        rng = np.random.default_rng([12, seed])
        y = np.append([0, 1], rng.integers(2, size=828))
        X = 0.7 * y[:, None] + rng.normal(size=(830, 12))
        labels = np.append(y[:24].astype(object), [None] * 400)
        plain = GaussianDiscriminant(tradeoff=1).fit(X[:24], y[:24])
        model = fitted(GaussianDiscriminant(tradeoff=1), X[:424], labels)
        losses = [
            -np.log(one.predict_proba(X[424:])[np.arange(406), y[424:]]).mean()
            for one in (plain, model)
        ]
        gains.append(losses)
    plain, beside = np.mean(gains, axis=0)
    assert beside < 0.9 * plain


def blended(X, labels, monkeypatch, groups=None, of_group=1):
    """Return a pool, and its shares by the rule written out: how probable rows make either."""
    seen = {}

    def spied(members, *more):
        seen["members"], seen["found"] = members, out_of_fold(members, *more)
        return seen["found"]

    monkeypatch.setattr(selection, "out_of_fold", spied)
    model = fitted(NaiveBayes("gaussian"), X, labels, groups=groups)
    found, codes = seen["found"], seen["found"].rows.codes
    log_prior = np.log(np.bincount(codes) / codes.size)
    every = np.arange(len(seen["members"]))
    alone = np.array([one.objective.unlabelled is None for one in seen["members"]])
    total = {}
    for name, among in (("with", every), ("without", every[alone])):
        scores, losses = found.scores[among], np.empty(codes.size)
        for number in np.unique(found.fold):
            held, rest = found.fold == number, found.fold != number
            shares = LogarithmicLoss(scores[:, rest], codes[rest], None, log_prior).least()
            joint = log_prior + np.tensordot(shares, scores[:, held] - log_prior, axes=1)
            losses[held] = logsumexp(joint, axis=1) - joint[np.arange(held.sum()), codes[held]]
        total[name] = losses.sum()
        shares = np.zeros(every.size)
        shares[among] = LogarithmicLoss(scores, codes, None, log_prior).least()
        total[name, "shares"] = shares
    trust = 1.0 / (1.0 + np.exp((total["with"] - total["without"]) / of_group))
    shares = trust * total["with", "shares"] + (1.0 - trust) * total["without", "shares"]
    return model, trust, np.where(shares < 1e-3 * shares.sum(), 0.0, shares), alone


@pytest.mark.parametrize("of_group", [1, 3])
def test_a_pool_takes_them_as_far_as_held_out_labels_make_them_probable(of_group, monkeypatch):
    # Rows of a group say together what one row says.
    X, labels = half_labelled(d=3)
    groups = None if of_group == 1 else np.arange(len(X)) // of_group
    model, trust, shares, alone = blended(X, labels, monkeypatch, groups, of_group)
    assert 0.05 < trust < 0.95
    np.testing.assert_allclose(model.tradeoff_path_["weight"], shares, atol=1e-9)
    rows = model.tradeoff_path_["unlabelled_weight"]
    np.testing.assert_array_equal(rows > 0.0, ~alone)
    assert model.unlabelled_weight_ == pytest.approx(shares @ rows / shares.sum())


def test_rows_that_mislead_hardly_change_a_pool(monkeypatch):
    # They part along another direction than the classes do.
    rng = np.random.default_rng(8)
    y = rng.integers(2, size=1200)
    X = y[:, None] + rng.normal(size=(1200, 2))
    labels = y.astype(object)
    labels[100:] = None
    others = rng.normal(size=(1100, 2)) + rng.choice([-6.0, 6.0], (1100, 1)) * [1.0, -1.0]
    plain = NaiveBayes("gaussian").fit(X[:100], y[:100])
    model = fitted(NaiveBayes("gaussian"), np.vstack([X[:100], others]), labels)
    losses = [
        -np.log(one.predict_proba(X[100:])[np.arange(1100), y[100:]]).mean()
        for one in (plain, model)
    ]
    assert losses[1] < 1.01 * losses[0]
    # What is left of a pool that is not to be trusted at all is the pool without them.
    monkeypatch.setattr(selection, "LEAST_SHARE", 1.0)
    model = fitted(NaiveBayes("gaussian"), np.vstack([X[:100], others]), labels)
    assert model.unlabelled_weight_ == 0.0
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-9)
    assert model.summary().estimates.size


def test_groups_files_copies(tmp_path, fits):
    models, X, labels = fits
    model = models["pool"]
    save_model(model, tmp_path / "model.skops")
    for other in (
        load_model(tmp_path / "model.skops").estimator,
        pickle.loads(pickle.dumps(model)),
    ):
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
        assert other.unlabelled_weight_ == model.unlabelled_weight_
    groups = np.arange(len(X)) // 3
    grouped = fitted(NaiveBayes(), X, labels, groups=groups)
    assert "of 10 groups" in grouped.selection_
    assert np.isfinite(model.outlier_p_value(X)).all()


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            NaiveBayes(),
            "y: expected a label in every row, got 60 missing labels in 90 rows (Input y contains "
            "NaN.); drop those rows from X and y, or learn from them with unlabelled='missing' of "
            "NaiveBayes, GaussianDiscriminant and PooledClassifier",
        ),
        (
            NaiveBayes(unlabelled="missing", unlabelled_weight=-1),
            "unlabelled_weight: expected a finite number of at least 0, got -1; 'auto' lets "
            "held-out labels choose, 1 counts such a row as a labelled one",
        ),
        (
            NaiveBayes(unlabelled="missing", unlabelled_weight="some"),
            "unlabelled_weight: expected 'auto' or a number of at least 0, got 'some'; 'auto' lets "
            "held-out labels choose, 1 counts such a row as a labelled one",
        ),
        (
            NaiveBayes(unlabelled="missing", interactions=2),
            "interactions: expected None with unlabelled='missing', got 2; give one of the two",
        ),
        *(
            (
                NaiveBayes(unlabelled=marker),
                f"unlabelled: expected None, 'missing' or a label, got {marker!r}; 'missing' "
                "treats None, NaN and NA as no label",
            )
            for marker in (np.nan, pd.NA, pd.NaT, [-1], {})
        ),
    ],
)
def test_refusals(model, message):
    X, labels = half_labelled()
    with pytest.raises(DataError) as error:
        model.fit(X, labels)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("labels", "marker", "meant"),
    [(["a", "b", -1], -1, "-1"), (["a", "b", -1.0], -1, "-1.0"), ([0, 1, 2], "2", 2)],
)
@pytest.mark.parametrize("of", [np.array, pd.Series])
def test_a_number_is_not_taken_for_its_text_and_no_class_is_made_of_it(of, labels, marker, meant):
    y = of(np.tile(np.array(labels), 10))  # NumPy makes texts of a mixed list
    X = np.arange(30.0)[:, None]
    message = f"{marker!r}, and y has {meant!r}; give unlabelled={meant!r}"
    with pytest.raises(DataError, match=f"^unlabelled: expected a value of the type .*{message}"):
        NaiveBayes(unlabelled=marker).fit(X, y)
    assert NaiveBayes(unlabelled=meant).fit(X, y).classes_.size == 2


@pytest.mark.parametrize("tradeoff", [1, 0.5, "auto"])
@pytest.mark.parametrize("of", [NaiveBayes, GaussianDiscriminant])
@pytest.mark.parametrize("bad", [np.inf, 1e200])
def test_cells_that_no_row_may_have_are_refused_here_too(of, tradeoff, bad):
    X, labels = half_labelled()
    X[70, 1] = bad
    with pytest.raises(DataError, match=r"^X: .*(inf|1e\+200)"):
        fitted(of(tradeoff=tradeoff), X, labels)


@pytest.mark.parametrize(
    ("model", "got"),
    [
        (NaiveBayes(unlabelled="missing"), "unlabelled='missing'"),
        (GaussianDiscriminant(unlabelled=1), "unlabelled=1"),
        (make_pipeline(StandardScaler(), NaiveBayes(unlabelled=1)), "naivebayes__unlabelled=1"),
        (CalibratedClassifierCV(NaiveBayes(unlabelled=1)), "estimator__unlabelled=1"),
    ],
    ids=["naive Bayes", "discriminant", "pipeline", "calibrated"],
)
def test_what_fits_models_to_labelled_rows_alone_says_so(model, got):
    X, labels = half_labelled()
    y = labels[:30].astype(int)
    models = {"plain": NaiveBayes(tradeoff=1), "other": model}
    calls = {
        "models": [
            lambda: compare(X[:30], y, models=models, n_splits=2, evidence=False),
            lambda: learning_curve(X[:30], y, models=models, n_splits=2),
        ],
        "estimators": [lambda: PooledClassifier([*models.items()]).fit(X[:30], y)],
    }
    remedies = {"models": "fit such a model by itself", "estimators": "give it to the pool"}
    for parameter, functions in calls.items():
        for function in functions:
            with pytest.raises(DataError) as error:
                function()
            assert str(error.value) == (
                f"{parameter}: expected models that learn from labelled rows alone, got {got} of "
                f"'other'; leave it None, and {remedies[parameter]}"
            )


def test_classifiers_of_columns_are_fitted_to_labelled_rows_alone():
    X, labels = half_labelled()
    model = EntropicNaiveBayes(NaiveBayes(unlabelled=-1))
    with pytest.raises(DataError, match=r"^column_classifiers: .* got unlabelled=-1 of 'NaiveBay"):
        model.fit(X[:30], labels[:30].astype(int))


def test_a_pool_weighs_what_was_fitted_with_unlabelled_rows(fits):
    models, X, labels = fits
    members = [
        ("nb", FrozenEstimator(models["generative"])),
        ("of", FrozenEstimator(models["full"])),
    ]
    pool = PooledClassifier(members, cv="prefit").fit(X[:30], labels[:30].astype(int))
    assert np.isclose(sum(pool.predict_proba(X[:3]).ravel()), 3.0)


@pytest.mark.parametrize("marker", [None, "missing", 0, -1])
def test_scores_are_of_rows_with_a_label(marker):
    X, labels = half_labelled()
    y = labels[:30].astype(int) + 1
    absent = None if marker in (None, "missing") else marker
    model = NaiveBayes(tradeoff=1, unlabelled=marker).fit(X[:30], y)
    weights = np.arange(30.0)
    assert model.score(X[:30], y) == (model.predict(X[:30]) == y).mean()
    right = (model.predict(X[:30]) == y) @ weights / weights.sum()
    assert np.isclose(model.score(X[:30], y, weights), right)
    every = np.append(y.astype(object), [absent] * 60)
    with pytest.raises(DataError) as error:
        model.score(X, every)
    what = f" (unlabelled={marker!r})" if absent is not None else ""
    assert str(error.value) == (
        "y: expected a label in every row that is scored, got 60 of 90 rows without one"
        f"{what}; leave out rows without a label"
    )
    if marker is not None:
        with pytest.raises(DataError, match=r"^y: expected a label in every row that is scored"):
            cross_val_score(
                model, X, every, cv=ShuffleSplit(2, random_state=0), error_score="raise"
            )


@pytest.mark.parametrize(
    "model",
    [
        PooledClassifier([("nb", NaiveBayes(tradeoff=1))]),
        EntropicNaiveBayes(NaiveBayes(tradeoff=1)),
        BinomialRegression(),
        MultinomialRegression(),
        MaximumEntropyClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("absent", [None, np.nan, pd.NA])
def test_every_classifier_s_score_asks_for_labels(model, absent):
    X, labels = half_labelled()
    y = labels[:30].astype(int)
    model = clone(model).fit(X[:30], y)
    assert np.isclose(model.score(X[:30], y), (model.predict(X[:30]) == y).mean())
    with pytest.raises(DataError, match=r"^y: expected .* scored, got 60 of 90 rows without one;"):
        model.score(X, np.append(y.astype(object), [absent] * 60))


def test_batches_and_files_are_refused(tmp_path):
    X, labels = half_labelled()
    with pytest.raises(DataError, match=r"^unlabelled: expected None with partial_fit"):
        NaiveBayes(tradeoff=1, unlabelled="missing").partial_fit(X, labels)
    path = tmp_path / "rows.csv"
    pd.DataFrame(X, columns=["a", "b"]).assign(y=labels).to_csv(path, index=False)
    with pytest.raises(DataError, match=r"^unlabelled: expected None for rows that are read in"):
        NaiveBayes(unlabelled="missing").fit(scan(path), "y")
