"""Classical data sets: published tables to every printed digit, statsmodels' and R's values."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from crossfade.glm import BinomialRegression, PoissonRegression
from crossfade.glm.formulas import read_formula
from tests.glm.make_reference_fits import FITS, columns
from tests.glm.published import TABLES

pd = pytest.importorskip("pandas")
pytest.importorskip("formulaic")
HERE = Path(__file__).parent
STORED = json.loads((HERE / "reference_fits.json").read_text(encoding="utf-8"))
BY_R = json.loads((HERE / "r_fits.json").read_text(encoding="utf-8"))


def agrees(value, printed):
    """Return whether a value rounds to what was printed."""
    digits = len(printed.partition(".")[2])
    return abs(value - float(printed)) <= 0.5 * 10.0**-digits * (1.0 + 1e-9)


def polynomial(frame):
    """R's contrasts of ordered factors, by which MASS fits the insurance data."""
    orders = {"group": ["<1l", "1-1.5l", "1.5-2l", ">2l"], "age": ["<25", "25-29", "30-35", ">35"]}
    made = pd.get_dummies(frame["district"].astype(str), prefix="d", dtype=float).iloc[:, 1:]
    made.columns = [f"C(district)[T.{k}]" for k in (2, 3, 4)]
    scores = np.arange(4.0)
    basis, _ = np.linalg.qr(np.vander(scores, 4, increasing=True))
    basis = basis * np.sign(basis[-1])
    for column, order in orders.items():
        codes = frame[column].map(order.index).to_numpy()
        for power, name in enumerate("LQC", start=1):
            made[f"{column}.{name}"] = basis[codes, power]
    return made


@pytest.mark.parametrize("name", TABLES)
def test_published_table(name, shared_data):
    table = TABLES[name]
    frame = pd.read_csv(shared_data / "glm" / table.file)
    if "insurance" in name:
        fit = PoissonRegression().fit(polynomial(frame), frame["target"], exposure=frame["holders"])
    else:
        model = read_formula(table.formula, frame)
        kind = BinomialRegression if table.family == "binomial" else PoissonRegression
        size = {} if model.trials is None else {"trials": model.trials}
        fit = kind(table.link).fit(model.matrix, model.response, **size)
    found = fit.summary().frame()
    assert set(table.rows) == set(found["term"])
    for term, estimate, error in found.select("term", "estimate", "standard_error").iter_rows():
        printed, printed_error = table.rows[term]
        assert agrees(estimate, printed), (term, estimate, printed)
        assert printed_error is None or agrees(error, printed_error), (term, error, printed_error)
    assert agrees(fit.deviance_, table.deviance)
    assert fit.df_residual_ == table.df
    assert agrees(fit.null_deviance_, table.null_deviance)
    assert agrees(fit.aic_, table.aic)


def fit_of(name, shared_data):
    """Fit one of the stored models; return the fit and the terms, the constant first."""
    file, family, link, formula, exposure = FITS[name]
    frame = pd.read_csv(shared_data / "glm" / file)
    if exposure is not None:
        frame = frame[frame[exposure] > 0].reset_index(drop=True)
    matrix = columns(formula, frame)
    X = matrix.drop(columns="Intercept")
    if family == "binomial":
        fit = BinomialRegression(link, tol_digits=11).fit(
            X, frame["target"], trials=frame["trials"]
        )
    else:
        given = None if exposure is None else frame[exposure]
        fit = PoissonRegression(link, tol_digits=11).fit(X, frame["target"], exposure=given)
    return fit, list(matrix.columns)


@pytest.mark.parametrize("name", FITS)
def test_stored_fits_of_statsmodels(name, shared_data):
    stored = STORED[name]
    fit, terms = fit_of(name, shared_data)
    assert terms == stored["terms"]
    beta = np.concatenate([[fit.intercept_], fit.coef_])
    np.testing.assert_allclose(beta, stored["estimates"], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(fit.standard_errors_, stored["standard_errors"], rtol=1e-6)
    np.testing.assert_allclose(fit.deviance_, stored["deviance"], rtol=1e-8)
    np.testing.assert_allclose(fit.log_likelihood_, stored["log_likelihood"], rtol=1e-8)
    assert fit.df_residual_ == stored["df_residual"]


def as_r_names(terms):
    """Return R's names of the terms: C(wool)[T.B]:x is woolB:x there."""
    names = [re.sub(r"C\((\w+)\)\[T\.([^\]]*)\]", r"\1\2", term) for term in terms]
    return ["(Intercept)", *(re.sub(r"(\w+)\[T\.([^\]]*)\]", r"\1\2", name) for name in names[1:])]


@pytest.mark.parametrize("name", FITS)
def test_stored_fits_of_r(name, shared_data):
    stored = BY_R[name]
    fit, terms = fit_of(name, shared_data)
    assert as_r_names(terms) == stored["terms"]
    beta = np.concatenate([[fit.intercept_], fit.coef_])
    # R stops where the deviance no longer changes: with a link that is not canonical, that leaves
    # half of the digits.
    canonical = FITS[name][2] in ("logit", "log")
    np.testing.assert_allclose(beta, stored["estimates"], rtol=1e-8 if canonical else 1e-6)
    np.testing.assert_allclose(fit.standard_errors_, stored["standard_errors"], rtol=1e-6)
    for what in ("deviance", "null_deviance", "log_likelihood", "aic"):
        np.testing.assert_allclose(getattr(fit, f"{what}_"), stored[what], rtol=1e-8)
    assert fit.df_residual_ == stored["df_residual"]
    for kind in ("hc0", "hc1"):
        found = fit.robust_covariance(kind.upper())
        if not canonical:  # R's bread is the expected information, ours the objective's curvature
            inner = fit._training.fit
            own = inner.transform @ inner.root
            along, _, factor = inner.problem.row_parts(slice(None), inner.theta, inner.root)
            half = np.einsum("nkj,nkr->njr", factor, along)
            between = own @ np.einsum("njr,njs->rs", half, half) @ np.linalg.pinv(own)
            found = between @ found @ between.T
        np.testing.assert_allclose(np.sqrt(np.diagonal(found)), stored[kind], rtol=1e-6)
    influence = fit.influence()
    found = {
        "deviance_residuals": fit.residuals("deviance"),
        "pearson_residuals": fit.residuals("pearson"),
        "leverages": influence.leverage,
        "cooks_distances": influence.cooks_distance,
    }
    for what, values in found.items():
        largest = np.sort(values)[::-1][:3]
        np.testing.assert_allclose(largest, stored[what], rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in FITS if "profile_intervals" in BY_R[name]])
def test_profile_intervals_of_r(name, shared_data):
    fit, _ = fit_of(name, shared_data)
    # MASS interpolates the profile between a few points.
    np.testing.assert_allclose(
        fit.confidence_intervals(kind="profile"), BY_R[name]["profile_intervals"], rtol=2e-3
    )


def test_quasi_fit_of_r(shared_data):
    fit, _ = fit_of("quine", shared_data)
    stored = BY_R["quine"]
    np.testing.assert_allclose(fit.pearson_dispersion_, stored["dispersion"], rtol=1e-8)
    errors = fit.summary(dispersion="pearson").frame()["standard_error"]
    np.testing.assert_allclose(errors, stored["quasi_standard_errors"], rtol=1e-6)


def test_offset_of_the_logarithm_is_exposure(shared_data):
    frame = pd.read_csv(shared_data / "glm" / "insurance.csv")
    X = polynomial(frame)
    one = PoissonRegression().fit(X, frame["target"], exposure=frame["holders"])
    two = PoissonRegression().fit(X, frame["target"], offset=np.log(frame["holders"]))
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.log_likelihood_, two.log_likelihood_, rtol=1e-12)


def test_quine_is_overdispersed(shared_data):
    frame = pd.read_csv(shared_data / "glm" / "quine.csv")
    model = read_formula("target ~ eth + sex + age + lrn", frame)
    test = PoissonRegression().fit(model.matrix, model.response).dispersion_test()
    assert test.p_value < 1e-6
    assert test.dispersion > 10
    assert "quasi-Poisson" in test.suggestion
