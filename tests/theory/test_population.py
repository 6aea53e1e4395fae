"""The optimal rule, pairs in the population, Efron's efficiency, and the third criterion."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from crossfade import DataError, GaussianDiscriminant, NaiveBayes
from crossfade.theory import (
    BayesClassifier,
    ZeroOneLinearClassifier,
    population_gap,
    relative_efficiency,
)

# -- Efron -------------------------------------------------------------------------------------


def test_efficiency_as_printed_by_efron():
    found = relative_efficiency([0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4])
    printed = [1.000, 0.995, 0.968, 0.899, 0.786, 0.641, 0.486, 0.343]
    np.testing.assert_allclose(found, printed, atol=5.01e-4)
    assert relative_efficiency(0.0) == pytest.approx(1.0)
    assert isinstance(relative_efficiency(1.0), float)
    assert relative_efficiency(80.0) < 1e-3


def test_efficiency_does_not_depend_on_which_class_is_named_first():
    np.testing.assert_allclose(relative_efficiency(2.0, 0.2), relative_efficiency(2.0, 0.8))


@pytest.mark.slow
def test_efficiency_is_what_simulations_give():
    # Two columns; the exact error of a linear rule is known, so only the fits are random.
    distance, m, runs = 3.0, 400, 200
    rng = np.random.default_rng(0)
    best = stats.norm.cdf(-distance / 2)
    excess = np.zeros((runs, 2))
    models = [
        GaussianDiscriminant("shared", tradeoff=1),
        GaussianDiscriminant("shared", tradeoff=0, l2=0),
    ]
    for run in range(runs):
        labels = (rng.random(m) < 0.5).astype(int)
        X = rng.normal(size=(m, 2))
        X[:, 0] += distance * (labels - 0.5)
        for j, model in enumerate(models):
            fitted = model.fit(X, labels)
            w, b = fitted.coef_[0], fitted.intercept_[0]
            size = np.linalg.norm(w)
            sides = [stats.norm.cdf((s * b - w[0] * distance / 2) / size) for s in (1, -1)]
            excess[run, j] = np.mean(sides) - best
    ratio = excess[:, 0].mean() / excess[:, 1].mean()
    # The standard error of a ratio of paired means.
    spread = (excess[:, 0] - ratio * excess[:, 1]).std() / np.sqrt(runs) / excess[:, 1].mean()
    assert abs(ratio - relative_efficiency(distance)) < 3 * spread + 0.02  # 0.02: m is finite
    assert spread < 0.06


@pytest.mark.parametrize(
    ("arguments", "words"), [((-1.0,), "distance: expected"), ((1.0, 1.0), "prior: expected")]
)
def test_efficiency_of_nonsense_is_refused(arguments, words):
    with pytest.raises(DataError, match=words):
        relative_efficiency(*arguments)


# -- the optimal rule --------------------------------------------------------------------------


def test_posterior_and_error_of_two_gaussians():
    rule = BayesClassifier([0.3, 0.7], [stats.norm(0, 1), stats.norm(2, 1)], ["a", "b"])
    x = np.array([[0.0], [1.0], [3.0]])
    odds = 2 * x[:, 0] - 2 + np.log(0.7 / 0.3)
    np.testing.assert_allclose(rule.predict_proba(x)[:, 1], 1 / (1 + np.exp(-odds)))
    assert rule.predict(x).tolist() == ["a", "b", "b"]
    cut = 1 - np.log(0.7 / 0.3) / 2
    exact = 0.3 * stats.norm.sf(cut) + 0.7 * stats.norm.cdf(cut - 2)
    found = rule.error()
    assert found.method == "quadrature"
    assert found.error == pytest.approx(exact, abs=1e-10)
    simulated = rule.error("simulation", n_samples=200_000)
    assert simulated.low < exact < simulated.high
    assert simulated.high - simulated.low < 0.003


def test_error_where_classes_change_often():
    # The middle class owns an interval; a narrow one sits inside it.
    rule = BayesClassifier(
        [0.4, 0.3, 0.3], [stats.norm(0, 3), stats.norm(0, 1), stats.norm(0.5, 0.05)]
    )
    x = np.linspace(-30, 30, 2_000_001)
    joint = np.exp(rule.joint_log_likelihood(x[:, None]))
    assert rule.error().error == pytest.approx(1 - np.trapezoid(joint.max(axis=1), x), abs=1e-8)


def test_error_of_counts_is_summed():
    rule = BayesClassifier([0.5, 0.5], [stats.poisson(2), stats.poisson(6)])
    k = np.arange(100)
    exact = 1 - 0.5 * np.maximum(stats.poisson.pmf(k, 2), stats.poisson.pmf(k, 6)).sum()
    assert rule.error().error == pytest.approx(exact, abs=1e-12)


def test_many_columns_are_simulated_and_no_rule_is_better():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    shared = root @ root.T + np.eye(3)
    mean = np.array([1.0, 0.5, -1.0])
    rule = BayesClassifier(
        [0.5, 0.5],
        [stats.multivariate_normal(np.zeros(3), shared), stats.multivariate_normal(mean, shared)],
    )
    distance = np.sqrt(mean @ np.linalg.solve(shared, mean))
    found = rule.error(n_samples=100_000)
    assert found.low < stats.norm.cdf(-distance / 2) < found.high
    fitted = NaiveBayes(tradeoff=1).fit(*rule.sample(2_000, 3))
    assert rule.conditional_errors(fitted, 100_000).mean() > found.error
    same = rule.conditional_errors(rule, 100_000).mean()
    assert same == pytest.approx(found.error, abs=1e-12)
    with pytest.raises(DataError, match="expected 'simulation' for rows of more than one column"):
        rule.error("quadrature")


def test_densities_of_a_fitted_model_can_be_the_truth():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    model = NaiveBayes("gaussian", tradeoff=1).fit(rng.normal(size=(200, 2)) + y[:, None], y)
    rule = BayesClassifier(model.class_prior_, list(model.class_densities_.values()))
    X, labels = rule.sample(1000, 1)
    np.testing.assert_allclose(rule.predict_proba(X), model.predict_proba(X))
    assert set(labels.tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([0.5, 0.6], [stats.norm(), stats.norm()]), "class_prior: expected a positive share"),
        (([1.0], [stats.norm()]), "class_prior: expected"),
        (([0.5, 0.5], [stats.norm(), 3]), "densities: expected frozen"),
        (([0.5, 0.5], [stats.norm(), stats.norm()], ["a", "a"]), "classes: expected 2 different"),
    ],
)
def test_distributions_that_are_none_are_refused(arguments, words):
    with pytest.raises(DataError, match=words):
        BayesClassifier(*arguments)


def test_the_gap_of_proposition_1():
    # Right model: no gap. Wrong model (a column twice, nearly): the generative limit is worse.
    shapes = {"right": np.eye(2), "wrong": np.array([[1.0, 0.95], [0.95, 1.0]])}
    gaps = {}
    for name, shape in shapes.items():
        population = BayesClassifier(
            [0.5, 0.5],
            [
                stats.multivariate_normal([0, 0], shape),
                stats.multivariate_normal([1.0, 0.2], shape),
            ],
        )
        gaps[name] = population_gap(
            population,
            NaiveBayes("gaussian", tradeoff=1, shared_variance=True),
            NaiveBayes("gaussian", tradeoff=0, shared_variance=True, l2=0),
            n_fit=50_000,
            n_samples=50_000,
        )
    assert abs(gaps["right"].gap) < 1e-3
    assert gaps["wrong"].gap_low > 0.02
    for gap in gaps.values():
        assert gap.best.error <= gap.discriminative.error + 1e-12
        assert gap.gap == pytest.approx(gap.generative.error - gap.discriminative.error)


# -- least training error ----------------------------------------------------------------------


def blobs(seed: int, n: int, d: int, apart: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.normal(size=(n, d)) + apart * (y[:, None] - 0.5), y


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_separable_rows_are_separated(seed, scale):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 4))
    direction = rng.normal(size=4)
    margin = X @ direction
    X += np.sign(margin)[:, None] * 0.01 * direction / np.linalg.norm(direction)
    model = ZeroOneLinearClassifier().fit(scale * X + scale, margin > 0)
    assert model.training_error_ == 0.0
    assert model.score(scale * X + scale, margin > 0) == 1.0


@pytest.mark.parametrize("seed", range(8))
def test_it_never_ends_worse_than_it_starts(seed):
    X, y = blobs(seed, 60, 3, 0.8)
    X[:4] *= 20.0  # stray rows that pull the logistic solution
    model = ZeroOneLinearClassifier(random_state=seed).fit(X, y)
    assert model.training_error_ <= model.start_error_
    assert model.training_error_ == pytest.approx(1 - model.score(X, y), abs=1e-12)
    unpenalised = LogisticRegression(C=np.inf, max_iter=10_000, tol=1e-8).fit(X, y)
    assert model.start_error_ == pytest.approx(1 - unpenalised.score(X, y), abs=1e-12)


tables = st.tuples(st.integers(4, 30), st.integers(1, 5), st.integers(0, 2**32 - 1))


@settings(max_examples=25)
@given(tables, st.sampled_from([1e-6, 1.0, 1e6]), st.booleans(), st.booleans())
def test_whatever_the_rows_it_is_no_worse_than_its_start(table, scale, whole, separable):
    n, d, seed = table
    rng = np.random.default_rng(seed)
    # Whole numbers of a small range: rows that repeat, ties, columns that do not vary.
    X = scale * (
        rng.integers(0, 3, size=(n, d)).astype(float) if whole else rng.normal(size=(n, d))
    )
    cut = X @ rng.normal(size=d)
    y = cut > np.median(cut) if separable else rng.random(n) < 0.5
    if y.all() or not y.any():
        y[0] = not y[0]
        separable = False
    model = ZeroOneLinearClassifier(n_restarts=1).fit(X, y)
    assert model.training_error_ == np.mean(model.predict(X) != y)
    assert model.training_error_ <= model.start_error_
    assert model.training_error_ <= min(y.mean(), 1 - y.mean())  # a plane far away guesses one
    if separable:
        assert model.training_error_ == 0.0


@pytest.mark.parametrize("columns", [2, 40])
def test_of_separating_planes_one_that_predicts_is_taken(columns):
    # As many columns as rows: most planes that separate them say nothing of other rows.
    rng = np.random.default_rng(0)
    y = np.arange(1040) % 2
    X = rng.normal(size=(1040, columns))
    X[:, 0] += 4.0 * (y - 0.5)
    errors, logistic = [], []
    for start in range(0, 400, 40):
        rows = slice(start, start + 40)
        model = ZeroOneLinearClassifier().fit(X[rows], y[rows])
        errors.append(1.0 - model.score(X[400:], y[400:]))
        penalised = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[rows], y[rows])
        logistic.append(1.0 - penalised.score(X[400:], y[400:]))
    assert np.mean(errors) < np.mean(logistic) + 0.05


def fewest_errors(X: np.ndarray, y: np.ndarray) -> int:
    """Return the least number of errors of any line through the plane, by trying all of them."""
    least = len(y)
    for i, j in itertools.combinations(range(len(y)), 2):
        normal = np.array([X[i, 1] - X[j, 1], X[j, 0] - X[i, 0]])
        # Lines next to the one through both rows: each of the two on either side.
        for a, b in itertools.product([-1e-7, 1e-7], repeat=2):
            ends = np.array([X[i] + a * normal, X[j] + b * normal])
            w = np.array([ends[0, 1] - ends[1, 1], ends[1, 0] - ends[0, 0]])
            wrong = int(np.sum((X @ w > ends[0] @ w) != y))
            least = min(least, wrong, len(y) - wrong)
    return least


@pytest.mark.parametrize("seed", range(6))
def test_in_the_plane_it_finds_the_least_number_of_errors(seed):
    X, y = blobs(seed, 30, 2, 1.0)
    model = ZeroOneLinearClassifier(n_restarts=30).fit(X, y)
    assert round(30 * model.training_error_) == fewest_errors(X, y.astype(bool))


def test_it_can_beat_logistic_regression_where_rows_lie_far_out():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [60.0]])
    y = np.array(["n", "n", "p", "p", "n"])
    model = ZeroOneLinearClassifier().fit(X, y)
    assert model.start_error_ > 0.3
    assert model.training_error_ == pytest.approx(0.2)
    assert model.predict([[0.5], [2.5]]).tolist() == ["n", "p"]


def test_the_same_seed_gives_the_same_weights_and_nothing_is_changed(unchanged):
    X, y = unchanged(*blobs(0, 60, 3, 0.5))
    one, other = (ZeroOneLinearClassifier(random_state=3).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_three_classes_are_refused():
    with pytest.raises(DataError, match="y: expected two classes, got 3"):
        ZeroOneLinearClassifier().fit(np.zeros((6, 1)), [0, 0, 1, 1, 2, 2])


@parametrize_with_checks([ZeroOneLinearClassifier(n_restarts=1)])
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)
