"""Class shares where a model is used, from rows without labels.

If only the shares differ, and not what a class looks like, P'(y|x) ∝ P(y|x) π'_y/π_y, and the
shares π' that make the new rows likeliest are found by EM (Saerens, Latinne & Decaestecker 2002).
The model's own errors would enter them: its log-posteriors are first drawn to the truth of the rows
it was not fitted to, by a slope and a shift per class (Alexandari, Kundaje & Shrikumar 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import chi2

from crossfade._typing import Floats
from crossfade.inference.held_out import HeldOut

__all__ = ["ClassShares", "estimate_shares"]

_MOST_STEPS = 5_000

#: Most new rows that each bootstrap sample reads; its spread is scaled to that of all.
_BOOTSTRAP_ROWS = 20_000


@dataclass(frozen=True)
class ClassShares:
    """Class shares of new rows, estimated without their labels.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    fitted : ndarray of shape (n_classes,)
        Shares of the rows that the model was fitted to.
    shares : ndarray of shape (n_classes,)
        Estimated shares of the new rows.
    interval : ndarray of shape (2, n_classes)
        Bootstrap interval: new rows are drawn again, and, where the model has rows that it was not
        fitted to, those too.
    coverage : float
        Of the interval.
    p_value : float
        Of the hypothesis that nothing shifted (a Wald test with the bootstrap's covariance).
    n_rows : int
        New rows that were read.
    calibrated : bool
        Whether rows that the model was not fitted to corrected it first.
    """

    classes: NDArray[Any]
    fitted: Floats
    shares: Floats
    interval: Floats
    coverage: float
    p_value: float
    n_rows: int
    calibrated: bool

    def __str__(self) -> str:
        lines = ["class  fitted  new rows"]
        rows = zip(self.classes.tolist(), self.fitted, self.shares, *self.interval, strict=True)
        lines += [f"{c!s:5}  {f:6.3f}  {s:8.3f} ({a:.3f} to {b:.3f})" for c, f, s, a, b in rows]
        lines.append(
            f"{self.n_rows:,} rows, {100 * self.coverage:g} % intervals; "
            f"p = {self.p_value:.2g} that nothing shifted"
        )
        return "\n".join(lines)


def estimate_shares(
    log_posterior: Floats,
    classes: NDArray[Any],
    fitted: Floats,
    held_out: HeldOut | None = None,
    *,
    coverage: float = 0.95,
    n_bootstrap: int = 200,
    seed: int = 0,
) -> ClassShares:
    """Estimate class shares from log-posteriors of rows without labels.

    Parameters
    ----------
    log_posterior : ndarray of shape (n_rows, n_classes)
        By a model fitted where the shares were `fitted`.
    classes : ndarray of shape (n_classes,)
    fitted : ndarray of shape (n_classes,)
    held_out : HeldOut, optional
        Of the same model; without it the model's probabilities are taken for true.
    coverage : float, default=0.95
    n_bootstrap : int, default=200
    seed : int, default=0

    Returns
    -------
    ClassShares

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.inference import estimate_shares
    >>> posterior = np.repeat([[0.9, 0.1], [0.1, 0.9]], [300, 100], axis=0)
    >>> found = estimate_shares(np.log(posterior), np.array(["no", "yes"]), np.array([0.5, 0.5]))
    >>> found.shares.round(4)
    array([0.8125, 0.1875])
    """
    rng = np.random.default_rng(seed)
    n = len(log_posterior)

    def found(rows: Floats, weights: Floats, source: Floats | None, start: Any) -> Any:
        if held_out is None or source is None:
            return rows, fitted, _mixture(rows, fitted, weights, fitted), None
        map_ = _calibration(held_out, source, start)
        rows = _calibrated(rows, map_)
        own = np.exp(_calibrated(held_out.log_posterior, map_))
        prior = np.average(own, axis=0, weights=source)
        return rows, prior, _mixture(rows, prior, weights, prior), map_

    source = None if held_out is None else held_out.weights
    *_, shares, start = found(log_posterior, np.ones(n), source, None)
    some, factor = log_posterior, 1.0
    if n > _BOOTSTRAP_ROWS:
        some = log_posterior[np.sort(rng.choice(n, _BOOTSTRAP_ROWS, replace=False))]
        factor = np.sqrt(_BOOTSTRAP_ROWS / n)
    drawn = np.empty((n_bootstrap, len(fitted)))
    for b in range(n_bootstrap):
        weights = rng.multinomial(len(some), np.full(len(some), 1.0 / len(some))).astype(float)
        again = None if source is None else source * _drawn(held_out, rng)
        drawn[b] = found(some, weights, again, start)[2]
    edges = [0.5 - coverage / 2, 0.5 + coverage / 2]
    interval = shares + factor * (np.quantile(drawn, edges, axis=0) - shares)
    interval = np.clip(interval, 0.0, 1.0)
    covariance = factor**2 * np.cov(drawn[:, :-1], rowvar=False).reshape(2 * [len(fitted) - 1])
    gap = (shares - fitted)[:-1]
    wald = float(gap @ np.linalg.pinv(covariance, rcond=1e-10, hermitian=True) @ gap)
    return ClassShares(
        classes,
        fitted,
        shares,
        interval,
        coverage,
        float(chi2.sf(wald, len(gap))),
        n,
        held_out is not None,
    )


def _drawn(held_out: HeldOut | None, rng: np.random.Generator) -> Floats:
    """Return how often each held-out row is drawn, within its class."""
    assert held_out is not None
    times = np.zeros(len(held_out.codes))
    for code in np.unique(held_out.codes):
        own = np.flatnonzero(held_out.codes == code)
        times[own] = rng.multinomial(own.size, np.full(own.size, 1.0 / own.size))
    return times


def _mixture(log_posterior: Floats, prior: Floats, weights: Floats, start: Floats) -> Floats:
    """Return the shares that make the rows likeliest, by EM."""
    used = prior > 0.0
    with np.errstate(divide="ignore"):
        likelihood = np.exp(log_posterior - log_posterior.max(axis=1, keepdims=True))
    likelihood = np.divide(likelihood, prior, out=np.zeros_like(likelihood), where=used)
    shares, total = np.where(used, start, 0.0), weights.sum()
    for _ in range(_MOST_STEPS):
        evidence = likelihood @ shares
        new = shares * ((weights / evidence) @ likelihood) / total
        moved = float(np.abs(new - shares).max())
        shares = new
        if moved < 1e-8:
            break
    return shares / shares.sum()


def _calibrated(log_posterior: Floats, slope_and_shifts: Floats) -> Floats:
    """Return log-posteriors with this slope, and these shifts of the classes."""
    scores = slope_and_shifts[0] * np.maximum(log_posterior, -700.0) + slope_and_shifts[1:]
    normalised: Floats = scores - np.logaddexp.reduce(scores, axis=1)[:, None]
    return normalised


def _calibration(held_out: HeldOut, weights: Floats, start: Floats | None) -> Floats:
    """Return the slope and the shifts of least log-loss on rows held out, (1 + n_classes,).

    With a pseudo-row's penalty, so that rows that are told apart without an error leave it finite.
    """
    n, k = held_out.log_posterior.shape
    rows, codes = np.maximum(held_out.log_posterior, -700.0), held_out.codes
    own, total = np.arange(n), weights.sum()
    first = np.append(1.0, np.zeros(k)) if start is None else start

    def loss(at: Floats) -> tuple[float, Floats]:
        log_p = _calibrated(rows, at)
        away = at - np.append(1.0, np.zeros(k))
        error = np.exp(log_p)
        error[own, codes] -= 1.0
        error *= weights[:, None]
        gradient = np.append((error * rows).sum(), error.sum(axis=0)) + away
        value = float(weights @ -log_p[own, codes] + 0.5 * away @ away)
        return value / total, gradient / total

    found = minimize(
        loss, first, jac=True, method="L-BFGS-B", bounds=[(1e-3, None), *k * [(None, None)]]
    )
    return np.asarray(found.x, dtype=np.float64)
