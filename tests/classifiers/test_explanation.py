"""What columns add to log-odds: exact sums, known from densities written by others."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crossfade import EntropicNaiveBayes, GaussianDiscriminant, NaiveBayes, explain
from crossfade.densities import Gaussian, MultivariateGaussian
from crossfade.densities.base import Density
from crossfade.errors import DataError
from crossfade.table.preparation import Preparation
from tests.io.tables import mixed_table, numbers

COVARIANCES = ["shared", "full", "diagonal", "shared_diagonal", "spherical", "shared_spherical"]


def check_sums(model, X, names=None):
    """Check that the parts sum to the log-odds of every pair of classes; return them."""
    explanation = explain(model, X)
    log_posterior = model.predict_log_proba(X)
    labels = model.classes_.tolist()
    for first in labels:
        for second in labels:
            baseline, contributions = explanation.log_odds(first, second)
            pair = log_posterior[:, [labels.index(first), labels.index(second)]]
            total = baseline + contributions.sum(axis=1)
            np.testing.assert_allclose(total, pair[:, 0] - pair[:, 1], rtol=1e-9, atol=1e-9)
    if names is not None:
        assert explanation.columns == tuple(names)
    return explanation


@pytest.mark.filterwarnings("ignore::crossfade.errors.TradeoffWarning")
@pytest.mark.parametrize("tradeoff", [1, 0.5, 0, "auto"])
def test_naive_bayes_with_columns_of_every_kind_and_missing_cells(tradeoff, unchanged):
    table, y = mixed_table()
    model = NaiveBayes(tradeoff=tradeoff).fit(table, y)
    explanation = check_sums(model, unchanged(table), table.columns)
    missing = np.array([table[name].is_null().to_numpy() for name in table.columns]).T
    assert missing.any(axis=0).all()
    assert not explanation.contributions[missing].any()
    of_none = model.predict_log_proba(table[:1].clear(n=1))
    if tradeoff not in (0, "auto"):  # λ = 0 counts the mean, so do its members of a pool
        np.testing.assert_allclose(of_none[0], np.log(model.class_prior_), rtol=1e-9)
    np.testing.assert_allclose(explanation.baseline, np.tile(of_none, (len(table), 1)), rtol=1e-9)


def test_a_column_adds_the_log_ratio_of_its_densities():
    X, y = numbers(n_classes=3)
    model = NaiveBayes(tradeoff=1, var_smoothing=0).fit(X, y)
    other = GaussianNB(var_smoothing=0).fit(X, y)
    logs = stats.norm.logpdf(X[:, None], other.theta_, np.sqrt(other.var_))  # (n, K, d)
    contributions = explain(model, X).log_odds(2, 0)[1]
    np.testing.assert_allclose(contributions, logs[:, 2] - logs[:, 0], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize(
    "options", [{"tradeoff": 0}, {"tradeoff": 1}, {"tradeoff": 1, "components": 2}]
)
def test_gaussians_of_every_kind(covariance, options):
    X, y = numbers(n_classes=3)
    check_sums(GaussianDiscriminant(covariance, **options).fit(X, y), X, ("x0", "x1", "x2"))


def test_a_linear_discriminant_adds_coefficient_times_distance_from_the_mean():
    X, y = numbers()
    model = GaussianDiscriminant("shared", tradeoff=0.5).fit(X, y)
    contributions = explain(model, X).log_odds(1)[1]
    expected = (X - X.mean(axis=0)) * model.coef_[0]
    np.testing.assert_allclose(contributions, expected, rtol=1e-8, atol=1e-10)


def test_a_quadratic_discriminant_splits_products_evenly():
    X, y = numbers()
    model = GaussianDiscriminant("full", tradeoff=1).fit(X, y)
    contributions = explain(model, X).log_odds(1)[1]
    # With u = x - mean: log N(x; m, C) = -u·P u/2 + u·P (m - mean) + …, P the precision.
    centre = X.mean(axis=0)
    u = X - centre
    expected = np.zeros_like(u)
    for sign, mean, covariance in zip((-1, 1), model.means_, model.covariances_, strict=True):
        precision = np.linalg.inv(covariance)
        expected += sign * u * (precision @ (mean - centre) - u @ precision / 2)
    np.testing.assert_allclose(contributions, expected, rtol=1e-6, atol=1e-8)


def test_a_column_at_its_mean_adds_nothing_to_a_quadratic_discriminant():
    X, y = numbers()
    model = GaussianDiscriminant("full", tradeoff=0.5).fit(X, y)
    row = X[:1].copy()
    row[0, 1] = X[:, 1].mean()
    assert abs(explain(model, row).log_odds(1)[1][0, 1]) < 1e-9


def test_prepared_columns_are_summed_for_their_own(unchanged):
    table, y = mixed_table()
    model = make_pipeline(Preparation(drop_first=True), GaussianDiscriminant("full", tradeoff=0.5))
    model.fit(table, y)
    explanation = check_sums(model, unchanged(table), table.columns)
    inner = explain(model[-1], model[0].transform(table))
    np.testing.assert_allclose(
        explanation.contributions[:, 3], inner.contributions[:, 3:].sum(axis=1), rtol=1e-12
    )


def test_products_of_posteriors_add_their_log_ratio_to_the_prior():
    X, y = numbers(n_classes=3)
    X = X.copy()
    X[::7, 1] = np.nan
    single = make_pipeline(StandardScaler(), LogisticRegression())
    model = EntropicNaiveBayes(single).fit(X, y)
    explanation = check_sums(model, X)
    assert not explanation.contributions[::7, 1].any()
    first, _ = model.column_classifiers_[0]
    expected = first.predict_log_proba(X[:, [0]]) - np.log(model.class_prior_)
    np.testing.assert_allclose(explanation.contributions[:, 0], expected, rtol=1e-9)
    pairs = EntropicNaiveBayes([(single, [0, 1]), (single, [2])]).fit(X, y)
    halves = check_sums(pairs, X).contributions
    np.testing.assert_array_equal(halves[:, 0], halves[:, 1])


@pytest.mark.parametrize("tradeoff", [1, 0.5])
def test_shares_of_columns_are_those_of_columns_alone(tradeoff):
    # The families' own formulas against the definition: all other cells missing.
    table, y = mixed_table()
    model = NaiveBayes(tradeoff=tradeoff).fit(table, y)
    matrix = model.schema_.encode(table)
    density, natural = model.density_, model.parameters_.natural
    np.testing.assert_allclose(
        density.scores_by_column(matrix, natural),
        Density.scores_by_column(density, matrix, natural),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        density.scores_by_column(matrix, natural).sum(axis=1),
        density.scores(matrix, natural),
        rtol=1e-12,
    )


def test_labels_that_are_not_there_are_refused():
    table, y = mixed_table()
    explanation = explain(NaiveBayes(tradeoff=1).fit(table, y), table[:2])
    with pytest.raises(DataError, match="label: expected one of the classes 'no', 'yes', got 'x'"):
        explanation.log_odds("x")
    X, y = numbers(n_classes=3)
    explanation = explain(NaiveBayes(tradeoff=1).fit(X, y), X[:2])
    with pytest.raises(DataError, match="against: expected one of the 3 classes, got None"):
        explanation.log_odds(1)
    with pytest.raises(DataError, match="against: expected one of the classes 0, 1, 2, got 7"):
        explanation.log_odds(1, 7)


def test_an_explanation_shows_itself_in_a_line():
    X, y = numbers()
    shown = repr(explain(NaiveBayes(tradeoff=1).fit(X, y), X[:1]))
    assert shown.startswith(f"<Explanation: 1 row, {X.shape[1]} columns, {len(set(y))} classes.")


def test_other_models_are_refused():
    X, y = numbers()
    with pytest.raises(DataError, match="expected a classifier of Crossfade's, or a pipeline"):
        explain(GaussianNB().fit(X, y), X)
    with pytest.raises(DataError, match="got one of StandardScaler, NaiveBayes"):
        explain(make_pipeline(StandardScaler(), NaiveBayes(tradeoff=1)).fit(X, y), X)


def test_input_is_refused_as_in_predict_proba():
    X, y = numbers()
    model = NaiveBayes(MultivariateGaussian(), tradeoff=1).fit(X, y)
    bad = X.copy()
    bad[0, 0] = np.nan
    with pytest.raises(DataError, match="expected no missing cells"):
        explain(model, bad)
    with pytest.raises(DataError, match="expected finite numbers"):
        explain(NaiveBayes(Gaussian(), tradeoff=1).fit(X, y), np.where(np.isnan(bad), np.inf, bad))


def test_a_new_category_adds_nothing():
    table, y = mixed_table()
    model = NaiveBayes(tradeoff=1).fit(table, y)
    row = table[:1].with_columns(pl.lit("Paris").alias("town"))
    assert explain(model, row).contributions[0, 3].tolist() == [0.0, 0.0]


@pytest.mark.usefixtures("whole_choice")
@pytest.mark.parametrize("class_prior", ["empirical", "uniform"])
def test_a_pool_s_baseline_is_the_prior_and_its_power_is_the_columns(class_prior):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3 // 2  # two of three rows are of the first class
    X = np.exp(rng.normal(size=(60, 2)) + 0.5 * y[:, None])
    model = NaiveBayes(class_prior=class_prior).fit(X, y)
    assert abs(model.posterior_scale_ - 1.0) > 0.01
    baseline, contributions = check_sums(model, X).log_odds(1, 0)
    np.testing.assert_allclose(baseline, np.log(model.class_prior_[1] / model.class_prior_[0]))
    densities = model.class_densities_
    ratio = densities[1].log_density(X) - densities[0].log_density(X)
    np.testing.assert_allclose(contributions.sum(axis=1), model.posterior_scale_ * ratio, atol=1e-9)
