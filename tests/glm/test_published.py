"""Classical data sets: published tables to every printed digit, and statsmodels' values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from crossfade.glm import BinomialRegression, PoissonRegression
from crossfade.glm.formulas import read_formula
from tests.glm.make_reference_fits import FITS, columns
from tests.glm.published import TABLES

pd = pytest.importorskip("pandas")
pytest.importorskip("formulaic")
STORED = json.loads((Path(__file__).parent / "reference_fits.json").read_text(encoding="utf-8"))


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
        arguments = () if model.trials is None else (model.trials,)
        fit = kind(table.link).fit(model.matrix, model.response, *arguments)
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


@pytest.mark.parametrize("name", FITS)
def test_stored_fits_of_statsmodels(name, shared_data):
    file, family, link, formula, exposure = FITS[name]
    frame = pd.read_csv(shared_data / "glm" / file)
    if exposure is not None:
        frame = frame[frame[exposure] > 0].reset_index(drop=True)
    stored = STORED[name]
    matrix = columns(formula, frame)
    assert list(matrix.columns) == stored["terms"]
    if family == "binomial":
        fit = BinomialRegression(link, tol_digits=11)
        fit.fit(matrix.drop(columns="Intercept"), frame["target"], trials=frame["trials"])
    else:
        given = None if exposure is None else frame[exposure]
        fit = PoissonRegression(link, tol_digits=11)
        fit.fit(matrix.drop(columns="Intercept"), frame["target"], exposure=given)
    beta = np.concatenate([[fit.intercept_], fit.coef_])
    np.testing.assert_allclose(beta, stored["estimates"], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(fit.standard_errors_, stored["standard_errors"], rtol=1e-6)
    np.testing.assert_allclose(fit.deviance_, stored["deviance"], rtol=1e-8)
    np.testing.assert_allclose(fit.log_likelihood_, stored["log_likelihood"], rtol=1e-8)
    assert fit.df_residual_ == stored["df_residual"]


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
