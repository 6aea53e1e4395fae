"""What is said of held-out rows comes from other rows, the densities of the columns too."""

from __future__ import annotations

import numpy as np
import pytest

from crossfade import GaussianDiscriminant, NaiveBayes
from crossfade.densities import Gaussian, Poisson, Product
from crossfade.optim.solver import Solution
from crossfade.tradeoff.fitting import FitOptions, bound_rows
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.out_of_fold import Member, _counterparts
from crossfade.tradeoff.path import PathPoint
from crossfade.tradeoff.scoring import held_out_scores
from tests.tradeoff import cases


def grades(n=240, seed=0):
    """Return grades, a column with a tail, one that hardly varies and a plain one, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    grade = rng.integers(1, 5, size=n) + (y & (rng.random(n) < 0.3))
    rare = np.where(rng.random(n) < 0.1, rng.integers(1, 4, size=n), 0)
    X = np.column_stack([grade, rng.standard_t(2, size=n) + y, rare, rng.normal(size=n) + y])
    return X.astype(float), y


def test_a_fold_s_densities_are_those_of_its_training_rows_alone():
    X, y = grades()
    fold = np.arange(240) % 3
    model = NaiveBayes()
    rows, _, _, _, by_fold = model._read(X, y, None)
    differ = set()
    for number in range(3):
        train = np.flatnonzero(fold != number)
        coded, densities = by_fold(train)
        alone = NaiveBayes().fit(X[train], y[train])
        reported = [each["density"] for each in alone.density_report_]
        names = {"gaussian": "Gaussian", "johnson_su": "JohnsonSU"}
        found = [""] * 4
        for part, columns in densities[0].parts:
            for j in columns:
                found[j] = type(part).__name__
        assert found == [names.get(name, name.capitalize()) for name in reported]
        # Codes and numbers tell the same values apart, whatever the fold chose.
        for j in range(4):
            assert np.array_equal(
                np.unique(coded.X[:, j], return_inverse=True)[1],
                np.unique(X[:, j], return_inverse=True)[1],
            )
        differ.add(tuple(reported))
    assert "categorical" in {name for report in differ for name in report}
    assert rows.n_samples == 240


@pytest.mark.usefixtures("whole_choice")
@pytest.mark.parametrize("tradeoff", ["best", "auto"])
def test_held_out_posteriors_are_of_fits_without_the_fold(tradeoff):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=150)
    X = rng.normal(size=(150, 3)) + y[:, None] * [1.0, 0.5, 0.0]
    if tradeoff == "auto":  # counted twice where λ is 1: some points are clearly worse
        X[:, 2] = X[:, 0] + 0.3 * X[:, 2]
    settings = {"density": "gaussian", "shared_variance": True}
    fold = folds(LabelledRows(X, y, None, 3), 5)
    model = NaiveBayes(tradeoff=tradeoff, **settings)
    found = np.exp(model.fit_out_of_fold(X, y, None, None, fold))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    path = model.tradeoff_path_
    points = list(zip(path["tradeoff"], path["l2"], strict=True))
    alone = np.empty((len(points), 150, 3))
    for number in range(5):
        train, held = fold != number, fold == number
        for g, (tradeoff_, l2) in enumerate(points):
            one = NaiveBayes(tradeoff=tradeoff_, l2=l2, **settings).fit(X[train], y[train])
            alone[g, held] = one.predict_proba(X[held])
    loss = -np.log(alone[:, np.arange(150), y])
    np.testing.assert_allclose(path["log_loss"], loss.mean(axis=1), rtol=1e-4)
    if tradeoff == "best":
        for number in range(5):
            held = fold == number
            best = loss[:, ~held].mean(axis=1).argmin()
            np.testing.assert_allclose(found[held], alone[best, held], atol=1e-4)
    else:
        own = -np.log(found[np.arange(150), y]).mean()
        # Weights of other folds cannot fit these rows, but they are no worse than the worst point.
        assert loss.mean(axis=1).min() * 0.97 < own < loss.mean(axis=1).max()


@pytest.mark.usefixtures("whole_choice")
def test_the_fit_itself_is_the_one_of_its_own_folds():
    X, y = grades()
    fold = folds(LabelledRows(X, y, None, 2), 5)
    one, other = NaiveBayes(), NaiveBayes()
    one.fit_out_of_fold(X, y, None, None, fold)
    other.fit(X, y)
    assert "refits on 5 folds" in other.selection_
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-3)


def test_without_a_choice_there_is_nothing_to_hold_out():
    X, y = grades()
    assert NaiveBayes(tradeoff=1).fit_out_of_fold(X, y, None, None, np.arange(240) % 5) is None
    assert GaussianDiscriminant().fit_out_of_fold(X, y, None, None, np.arange(240) % 5) is not None


@pytest.mark.usefixtures("whole_choice")
@pytest.mark.slow
def test_the_reported_loss_is_honest_where_columns_choose_their_densities():
    # Grades of which single values look telling in few rows: all are noise but one.
    reported, fresh = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        y = rng.integers(2, size=3000)
        X = rng.integers(0, 8, size=(3000, 12)).astype(float)
        X[:, 0] += y
        model = NaiveBayes().fit(X[:200], y[:200])
        assert "refits on" in model.selection_
        reported.append(float(model.selection_.split("log-loss ")[1].split(";")[0]))
        posterior = model.predict_proba(X[200:])
        fresh.append(-np.log(posterior[np.arange(2800), y[200:]]).mean())
    assert np.mean(reported) / np.mean(fresh) == pytest.approx(1.0, abs=0.03)


def test_parameters_of_columns_are_carried_to_other_densities():
    rng = np.random.default_rng(3)
    X = rng.poisson(3.0, size=(90, 3)).astype(float)
    y = np.arange(90) % 3
    rows = LabelledRows(X, y, None, 3)

    def objective(density):
        return FitOptions().objective(*bound_rows(rows, density)[:2]).with_tradeoff(0.5)

    def product(*columns):
        return Product([(density(), [j]) for j, density in enumerate(columns)])

    whole = objective(product(Gaussian, Gaussian, Poisson))
    theta = rng.normal(size=whole.n_parameters)
    member = Member(0, whole, PathPoint(0.5, 1.0, Solution(theta, 0.0, 0.0, 0, True, "")))
    for columns in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):  # whatever the order of the parts
        kinds = (Gaussian, Gaussian, Poisson)
        part = objective(Product([(kinds[j](), [j]) for j in columns]))
        found = _counterparts(part, whole)(member)
        same = np.hstack([whole.split(theta)[0][:, [[0, 1], [2, 3], [4]][j]] for j in columns])
        np.testing.assert_array_equal(part.split(found)[0], same)
        np.testing.assert_array_equal(part.split(found)[1], whole.split(theta)[1])
    # A Poisson's one statistic is none of a Gaussian's two.
    part = objective(product(Gaussian, Poisson, Gaussian))
    found = part.split(_counterparts(part, whole)(member))[0]
    np.testing.assert_array_equal(found[:, :2], whole.split(theta)[0][:, :2])
    assert np.isnan(found[:, 2:]).all()


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing"])
@pytest.mark.parametrize("name", cases.DENSITIES)
def test_scores_of_several_fits_are_each_fit_s_own(name, missing):
    if missing and name.startswith("multivariate"):
        pytest.skip("a joint Gaussian's cells are filled in before")
    objective = cases.make(name, k=3, missing=missing)
    fits = []
    for seed, tradeoff in enumerate((1.0, 0.5, 0.0)):
        at = objective.with_tradeoff(tradeoff)
        theta = cases.start(at, seed)
        fits += [(at, theta), (at, -theta)]  # which mostly is no density
    rows, density = objective.rows, objective.density
    gone = density.missing_factors(rows.X)
    gone = np.zeros((90, density.n_factors)) if gone is None else gone * 1.0
    for (at, theta), found in zip(fits, held_out_scores(fits, rows), strict=True):
        one = at.parameters(theta)
        absent = density.log_partition(one.natural) if one.absent is None else one.absent
        if not np.isfinite(absent).all():
            absent = np.zeros_like(absent)
        scores = density.sufficient_statistics(rows.X) @ one.natural.T + one.offset
        scores += gone @ absent.T
        gap = found - scores
        size = 1.0 + np.abs(scores).max(axis=1, keepdims=True)
        np.testing.assert_allclose((gap - gap[:, :1]) / size, 0.0, atol=1e-9)
