"""Inference from a fitted likelihood: covariances, tests, intervals.

Functions of a :class:`~crossfade.glm.fit.Fit`; they know nothing of estimators. Sources:
McCullagh & Nelder (1989), chapters 2, 4 and 12; White (1982), MacKinnon & White (1985) and Liang &
Zeger (1986) for covariances that do not trust the model; Heinze & Schemper (2002) for profiles of
the penalised likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.stats
from numpy.typing import NDArray

from crossfade._typing import Floats
from crossfade.blocks import block_sum
from crossfade.errors import DataError
from crossfade.glm.data import Data
from crossfade.glm.design import measure
from crossfade.glm.fit import Fit
from crossfade.glm.inverses import root_of_inverse
from crossfade.glm.irls import GlmProblem
from crossfade.glm.likelihood import Likelihood, RowParts
from crossfade.glm.restricted import Restricted
from crossfade.glm.separation import positive_predictors
from crossfade.optim.newton import Dense, sample_rows
from crossfade.optim.solver import descend

#: By which power of one less its leverage a row's gradient is divided.
_POWERS = {"HC2": 0.5, "HC3": 1.0}

#: Leverage beyond which one step no longer tells what a fit without the row would be.
_LARGEST = 0.99

#: What twice the fall of a likelihood counts as where there is none (outside the domain).
_FAR = 1e9


@dataclass(frozen=True)
class TestResult:
    """A test of a hypothesis about coefficients.

    Attributes
    ----------
    name : str
    hypothesis : str
        What is tested, in words.
    statistic : float
        Compared with χ² on `df` degrees of freedom.
    df : int
    p_value : float
    """

    __test__ = False  # it is no test of this project, whatever pytest makes of its name

    name: str
    hypothesis: str
    statistic: float
    df: int
    p_value: float

    def __str__(self) -> str:
        return (
            f"{self.name} test, {self.hypothesis}: "
            f"χ²({self.df}) = {self.statistic:.4f}, p = {self.p_value:.4g}"
        )


def chi_squared(name: str, hypothesis: str, statistic: float, df: int) -> TestResult:
    """Return a test whose statistic is χ² on `df` degrees of freedom."""
    statistic = max(float(statistic), 0.0)
    return TestResult(name, hypothesis, statistic, df, float(scipy.stats.chi2.sf(statistic, df)))


def sandwich(
    fit: Fit, n_observations: float, kind: str, groups: NDArray[np.int64] | None = None
) -> Floats:
    """Return a covariance of β that does not trust the model: H⁻¹ (Σ ψψᵀ) H⁻¹."""
    problem, theta, weights = fit.problem, fit.theta, fit.problem.data.weights
    n_rows, root, power = problem.data.n_rows, _root_of_bread(fit), _POWERS.get(kind, 0.0)

    def of_part(data: Data) -> Floats:
        part = problem.over(data)

        def outer(rows: slice) -> Floats:
            # Of nearly collinear columns the scores' own products would lose all digits.
            scores = _scores(part.row_parts(rows, theta, root), power)
            if data.weights is not None:
                scores = scores * np.sqrt(data.weights[rows])[:, None]
            return scores.T @ scores

        return block_sum(outer, data.n_rows)

    factor = 1.0
    if kind == "cluster":
        assert groups is not None
        total = np.zeros((int(groups.max()) + 1, root.shape[1]))
        inside = groups if fit.rows is None else groups[fit.rows]
        for start in range(0, n_rows, 4096):
            rows = slice(start, min(start + 4096, n_rows))
            scores = _scores(problem.row_parts(rows, theta, root))
            if weights is not None:
                scores = scores * weights[rows][:, None]
            np.add.at(total, inside[rows], scores)
        meat = total.T @ total
        number = len(total)
        factor = number / (number - 1.0) * (n_observations - 1.0) / (n_observations - fit.rank)
    else:
        meat = problem.data.total(of_part)
        if kind == "HC1":
            factor = n_observations / (n_observations - fit.rank)
    half = fit.transform @ root
    covariance = factor * (half @ meat @ half.T)
    # What cannot be estimated has no covariance in any version.
    return np.where(np.isfinite(fit.covariance), covariance, fit.covariance)


def _root_of_bread(fit: Fit) -> Floats:
    """Return R with R Rᵀ = H⁻¹, H the objective's own second derivative, where it can be told."""
    problem, theta, root = fit.problem, fit.theta, fit.root
    if not isinstance(problem, GlmProblem) or problem.family.canonical or not root.shape[1]:
        return root

    def of_part(data: Data) -> Floats:
        part = problem.over(data)

        def products(rows: slice) -> Floats:
            along = part.design.standard(rows) @ root
            return (along * part.own_curvature(rows, theta)[:, None]).T @ along

        return block_sum(products, data.n_rows)

    own = problem.data.total(of_part) + root.T @ (problem.penalty[:, None] * root)
    return root @ root_of_inverse(own)


def _scores(parts: RowParts, power: float = 0.0) -> Floats:
    """Return rows' gradients times (I - D)⁻ᵖ, D a row's part of the curvature, H = I."""
    along, slopes, factor = parts
    scores = np.einsum("nkr,nk->nr", along, slopes)
    if not power:
        return scores
    half = np.einsum("nkj,nkr->njr", factor, along)
    across = np.einsum("njr,nir->nji", half, half)
    pulled = np.einsum("njr,nr->nj", half, scores)
    # f(D) = I + halfᵀ g(across) half with g(h) = (f(h) - 1) / h.
    if across.shape[1] == 1:
        moved = pulled * _by_leverage(across[:, 0], power)
    else:
        leverages, axes = np.linalg.eigh(across)
        turned = np.einsum("nji,nj->ni", axes, pulled) * _by_leverage(leverages, power)
        moved = np.einsum("nji,ni->nj", axes, turned)
    return scores + np.einsum("njr,nj->nr", half, moved)


def _by_leverage(leverages: Floats, power: float) -> Floats:
    """Return ((1 - h)⁻ᵖ - 1) / h."""
    h = np.clip(leverages, 1e-300, _LARGEST)
    return np.expm1(-power * np.log1p(-h)) / h


def wald(
    beta: Floats, matrix: Floats, values: Floats, covariance: Floats, hypothesis: str
) -> TestResult:
    """Test matrix @ β = values from the estimate and its covariance."""
    used = matrix.any(axis=0)
    if not np.isfinite(np.diagonal(covariance)[used]).all():
        raise DataError(
            f"columns: expected estimable coefficients, got {hypothesis} with an infinite or "
            "missing standard error; use likelihood_ratio_test, or method='firth'"
        )
    beta = np.where(used, beta, 0.0)
    cleaned = np.where(np.outer(used, used), covariance, 0.0)
    distance = matrix @ beta - values
    spread = matrix @ cleaned @ matrix.T
    statistic = float(distance @ scipy.linalg.lstsq(spread, distance)[0])
    return chi_squared("Wald", hypothesis, statistic, int(np.linalg.matrix_rank(spread)))


def _constrained(problem: Likelihood, fit: Fit, matrix: Floats) -> tuple[float, Floats]:
    """Return the objective and θ at the optimum under matrix @ β = 0."""
    directions = np.atleast_2d(matrix @ problem.matrix())
    basis = np.asarray(scipy.linalg.null_space(directions), dtype=np.float64)
    base = problem.start()
    if not np.allclose(directions @ base, 0.0):
        legal = _legal(problem, basis @ (basis.T @ fit.theta), basis)
        if legal is None:
            raise DataError(
                "columns: expected a hypothesis that allows positive means in every row, got one "
                "that does not; test with link='log', or keep the intercept"
            )
        base = legal
    if not basis.shape[1]:
        return problem.value(base), base
    restricted = Restricted(problem, base, basis)
    solution = descend(restricted, restricted.start(), Dense(), tol=1e-13, max_iter=200)
    return solution.value, restricted.expand(solution.theta)


def _legal(problem: Likelihood, base: Floats, basis: Floats) -> Floats | None:
    """Return a θ in base + span(basis) inside the link's domain, None where there is none."""
    if not isinstance(problem, GlmProblem) or np.isfinite(problem.value(base)):
        return base
    Z = problem.design.standard(slice(0, problem.data.n_rows))
    offset = 0.0 if problem.data.offset is None else problem.data.offset
    found = positive_predictors(Z @ basis, Z @ base + offset, float(np.abs(Z @ base).mean()))
    return None if found is None else base + basis @ found


def constrained_value(fit: Fit, matrix: Floats) -> float:
    """Return the objective at the optimum under matrix @ β = 0."""
    return _constrained(fit.whole, fit, matrix)[0]


def likelihood_ratio(fit: Fit, matrix: Floats, hypothesis: str) -> TestResult:
    """Test matrix @ β = 0 by refitting under it (with the same penalty, if there is one)."""
    statistic = 2.0 * (constrained_value(fit, matrix) - fit.value)
    return chi_squared("Likelihood-ratio", hypothesis, statistic, len(np.atleast_2d(matrix)))


def score(fit: Fit, matrix: Floats, hypothesis: str) -> TestResult:
    """Test matrix @ β = 0 by the slope of the likelihood at the restricted estimate (Rao)."""
    _, theta = _constrained(fit.whole, fit, matrix)
    _, gradient = fit.whole.value_and_gradient(theta)
    solved = scipy.linalg.lstsq(fit.whole.information(theta)[0], gradient)[0]
    return chi_squared("Score", hypothesis, float(gradient @ solved), len(np.atleast_2d(matrix)))


def score_of_added(fit: Fit, added: Floats, names: list[str]) -> TestResult:
    """Test whether further columns would matter, without fitting them."""
    problem = fit.whole
    assert isinstance(problem, GlmProblem)
    X = np.column_stack([problem.data.X, added])
    design = measure(
        X, problem.design.intercept, [*map(str, range(problem.data.X.shape[1])), *names]
    )
    larger = GlmProblem(design, replace(problem.data, X=X), problem.family)
    theta = design.coordinates(np.concatenate([fit.beta, np.zeros(added.shape[1])]))
    _, gradient = larger.value_and_gradient(theta)
    information, _ = larger.information(theta)
    statistic = float(gradient @ scipy.linalg.lstsq(information, gradient)[0])
    df = design.n_parameters - fit.rank
    if df < 1:
        raise DataError(
            f"added: expected columns that the model does not have yet, got {', '.join(names)}, "
            "which its columns determine; add others"
        )
    return chi_squared("Score", f"no effect of {', '.join(names)}", statistic, df)


def profile_interval(fit: Fit, index: int, level: float) -> tuple[float, float]:
    """Return the values of β[index] that a likelihood-ratio test at 1 - level does not reject.

    A side on which the likelihood never falls far enough is infinite.
    """
    problem = fit.whole
    direction = problem.matrix()[index]
    if fit.aliased[index]:
        return np.nan, np.nan
    limit = float(scipy.stats.chi2.ppf(level, 1))
    length = float(direction @ direction)
    basis = np.asarray(scipy.linalg.null_space(direction[None]), dtype=np.float64)
    with np.errstate(invalid="ignore"):
        error = float(np.sqrt(fit.covariance[index, index]))
    finite = np.isfinite(error)
    # Moving one coefficient, the others follow first along the estimate's own covariance.
    follow = fit.root @ (fit.root.T @ direction) / error**2 if finite else direction / length
    middle = float(fit.beta[index]) if finite else 0.0
    unit = error if finite else 1.0 / np.sqrt(length)
    warm = fit.theta if finite else fit.theta - direction * float(direction @ fit.theta) / length

    def excess(value: float) -> float:
        base = _legal(problem, warm + (value - middle) * follow, basis)
        if base is None:
            return _FAR
        if not basis.shape[1]:
            return min(2.0 * (problem.value(base) - fit.value) - limit, _FAR)
        restricted = Restricted(problem, base, basis)
        solution = descend(restricted, restricted.start(), Dense(), tol=1e-11, max_iter=60)
        return min(2.0 * (solution.value - fit.value) - limit, _FAR)

    if finite:
        return _cross(excess, middle, -unit), _cross(excess, middle, unit)
    assert fit.direction is not None
    towards = float(np.sign(fit.direction[index]))
    if towards == 0.0:
        return -np.inf, np.inf
    # One side only ends; it lies before `middle`, or, where that is itself rejected, beyond it.
    side = towards if excess(middle) > 0.0 else -towards
    near = _cross(excess, middle, side * unit)
    return (near, np.inf) if towards > 0.0 else (-np.inf, near)


def _cross(excess: Callable[[float], float], start: float, step: float) -> float:
    """Return where `excess` changes sign, going from `start` by growing steps."""
    above = excess(start) > 0.0
    inside = start
    for _ in range(60):
        outside = inside + step
        if (excess(outside) > 0.0) != above:
            low, high = sorted((inside, outside))
            return float(scipy.optimize.brentq(excess, low, high, xtol=1e-12, rtol=1e-12))
        inside, step = outside, 1.6 * step
    return float(np.sign(step) * np.inf)


def spans(large: Floats, small: Floats, large_constant: bool, small_constant: bool) -> bool:
    """Return whether the columns of `large` (and its constant) determine those of `small`.

    Judged on at most some thousand rows, which no nested pair can fail.
    """
    rows = sample_rows(len(large), min(1.0, 5000.0 / max(len(large), 1)))
    parts = [large[rows], small[rows]]
    if small_constant and not large_constant:
        parts.append(np.ones((len(rows), 1)))
    both = np.column_stack(parts).astype(np.float64)
    names = [str(i) for i in range(both.shape[1])]
    alone = measure(large[rows].astype(np.float64), large_constant, names[: large.shape[1]])
    return measure(both, large_constant, names).n_parameters == alone.n_parameters
