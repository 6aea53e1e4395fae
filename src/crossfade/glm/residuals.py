"""Residuals, influence and dispersion of a fitted binomial or Poisson model.

Sources: McCullagh & Nelder (1989), sections 2.4 and 12; Dean (1992), Testing for overdispersion in
Poisson and binomial regression models, J. Amer. Statist. Assoc. 87:451; Cameron & Trivedi (1990)
for the regression that tells the two kinds of overdispersion apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.stats

from crossfade._checks import check_choice
from crossfade._typing import Floats
from crossfade.blocks import for_each_block
from crossfade.errors import DataError
from crossfade.glm.data import Data
from crossfade.glm.fit import Fit
from crossfade.glm.irls import GlmProblem
from crossfade.glm.likelihood import Likelihood

#: Kinds of residual.
RESIDUALS = (
    "response",
    "pearson",
    "deviance",
    "working",
    "standardized_pearson",
    "standardized_deviance",
    "likelihood",
)


@dataclass(frozen=True)
class Influence:
    """How much each row moves the fit.

    Attributes
    ----------
    leverage : ndarray of shape (n_rows,)
        Diagonal of the hat matrix √W X (XᵀWX)⁻¹ Xᵀ √W, of one observation of the row.
    cooks_distance : ndarray of shape (n_rows,)
        r_P² h / (p φ (1-h)²).
    standardized_pearson, standardized_deviance : ndarray of shape (n_rows,)
        Residuals divided by √(φ (1-h)).
    """

    leverage: Floats
    cooks_distance: Floats
    standardized_pearson: Floats
    standardized_deviance: Floats


@dataclass(frozen=True)
class DispersionTest:
    """Whether the responses vary more than the family allows.

    Attributes
    ----------
    dispersion : float
        Pearson's X² / (n - p).
    statistic : float
        Dean's score statistic, standard normal without overdispersion.
    p_value : float
        One-sided, for more variance than the family's.
    suggestion : str
        What to do about it.
    """

    dispersion: float
    statistic: float
    p_value: float
    suggestion: str

    def __str__(self) -> str:
        return (
            f"dispersion {self.dispersion:.3f}, overdispersion test z = {self.statistic:.3f}, "
            f"p = {self.p_value:.4g}: {self.suggestion}"
        )


def _rowwise(problem: Likelihood, theta: Floats) -> tuple[GlmProblem, Floats]:
    assert isinstance(problem, GlmProblem)
    eta = np.empty(problem.data.n_rows)

    def work(rows: slice) -> None:
        eta[rows] = problem.predictor(rows, theta)

    for_each_block(work, len(eta))
    return problem, eta


def _whole(fit: Fit, values: Floats, n_rows: int) -> Floats:
    """Put values of the limiting model's rows where they belong; rows fitted exactly have 0."""
    if fit.rows is None:
        return values
    everything = np.zeros(n_rows)
    everything[fit.rows] = values
    return everything


def leverage(fit: Fit) -> Floats:
    """Return the leverage of one observation of each row in the limiting model."""
    problem, eta = _rowwise(fit.problem, fit.theta)
    values = np.empty(len(eta))

    def work(rows: slice) -> None:
        Z = problem.design.standard(rows)
        W = problem.family.information(eta[rows], problem.data.size[rows])
        values[rows] = W * np.square(Z @ fit.root).sum(axis=1)

    for_each_block(work, len(eta))
    return values


def residuals(fit: Fit, kind: str, dispersion: float = 1.0) -> Floats:
    """Return one residual per row of the data that the model was fitted to."""
    check_choice("kind", kind, RESIDUALS)
    problem, eta = _rowwise(fit.problem, fit.theta)
    data, family = problem.data, problem.family
    mean = family.mean(eta, data.size)
    response = data.y - mean
    n_rows = fit.whole.data.n_rows
    if kind == "response":
        return _whole(fit, response, n_rows)
    if kind == "working":
        slope = data.size * family.link.derivative(eta)
        return _whole(fit, _divided(response, slope), n_rows)
    pearson = _divided(response, np.sqrt(family.variance(mean, data.size)))
    if kind == "pearson":
        return _whole(fit, pearson, n_rows)
    deviance = np.sign(response) * np.sqrt(family.deviance(eta, data.y, data.size))
    if kind == "deviance":
        return _whole(fit, deviance, n_rows)
    h = np.minimum(leverage(fit), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shrink = np.sqrt(dispersion * (1.0 - h))
        if kind == "standardized_pearson":
            values = pearson / shrink
        elif kind == "standardized_deviance":
            values = deviance / shrink
        else:
            squares = np.square(deviance) + np.square(pearson) * h / (1.0 - h)
            values = np.sign(response) * np.sqrt(squares / dispersion)
    return _whole(fit, values, n_rows)


def _divided(values: Floats, by: Floats) -> Floats:
    """Return values / by, 0 where both are: as means go to 0, so do residuals of no counts."""
    return np.divide(values, by, out=np.zeros_like(values), where=values != 0.0)


def influence(fit: Fit, dispersion: float = 1.0) -> Influence:
    """Return leverage, Cook's distances and standardised residuals of all rows."""
    n_rows = fit.whole.data.n_rows
    h = _whole(fit, leverage(fit), n_rows)
    pearson = residuals(fit, "pearson")
    with np.errstate(divide="ignore", invalid="ignore"):
        cooks = np.square(pearson) * h / (fit.rank * dispersion * np.square(1.0 - h))
    return Influence(
        h,
        cooks,
        residuals(fit, "standardized_pearson", dispersion),
        residuals(fit, "standardized_deviance", dispersion),
    )


def pearson_statistic(fit: Fit) -> float:
    """Return Pearson's X², rows counted by their weights."""
    whole = fit.problem
    assert isinstance(whole, GlmProblem)

    def of_part(data: Data) -> float:
        problem, eta = _rowwise(whole.over(data), fit.theta)
        mean = problem.family.mean(eta, data.size)
        squares = _divided(np.square(data.y - mean), problem.family.variance(mean, data.size))
        return float(squares.sum() if data.weights is None else data.weights @ squares)

    return whole.data.total(of_part)


def dispersion_test(fit: Fit, df_residual: float) -> DispersionTest:
    """Test for more variance than the family's, and say what would describe it."""
    problem, eta = _rowwise(fit.problem, fit.theta)
    data, family = problem.data, problem.family
    if family.size_is_trials and not (data.size > 1.0).any():
        raise DataError(
            "y: expected grouped trials (some row with more than one), got single trials, whose "
            "variance their mean determines; group the rows by collapse first"
        )
    if df_residual <= 0:
        raise DataError(
            f"X: expected fewer coefficients than observations, got {df_residual:g} degrees of "
            "freedom, too few for a dispersion; fit fewer columns"
        )
    weights = np.ones(len(eta)) if data.weights is None else data.weights
    mean = family.mean(eta, data.size)
    dispersion = pearson_statistic(fit) / df_residual
    statistic, remedy = family.excess_variance(data.y, mean, data.size, weights)
    p_value = float(scipy.stats.norm.sf(statistic))
    suggestion = "no sign of overdispersion" if p_value > 0.05 else remedy
    return DispersionTest(float(dispersion), float(statistic), p_value, suggestion)
