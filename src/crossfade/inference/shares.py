"""Class shares where a model is used, from rows without labels.

If only the shares differ, and not what a class looks like, P'(y|x) ∝ P(y|x) π'_y/π_y, and the
shares π' that make the new rows likeliest are found by EM (Saerens, Latinne & Decaestecker 2002).
The model's own errors would enter them: its log-posteriors are first drawn to the truth of the rows
it was not fitted to, by a slope and a shift per class (Alexandari, Kundaje & Shrikumar 2020).

That nothing shifted is tested without that map, whose own error a little table's rows cannot tell:
by whether posteriors have the same mean over new rows as over those left out (Hotelling 1931).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import chi2, f, norm

from crossfade._checks import counted
from crossfade._typing import Floats, Integers
from crossfade.errors import DataError
from crossfade.inference.held_out import HeldOut, normalised

_MOST_STEPS = 5_000


@dataclass(frozen=True)
class ClassShares:
    """Class shares of new rows, estimated without their labels.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
    fitted : ndarray of shape (n_classes,)
        Shares of the rows that the model was fitted to; a given `class_prior` where it has no
        rows left out.
    likeliest : ndarray of shape (n_classes,)
        Shares that make the new rows likeliest.
    shares : ndarray of shape (n_classes,)
        Estimated shares of the new rows: the likeliest given that shares move as much as the test
        of no shift tells, which draws them back to `fitted`.
    interval : ndarray of shape (2, n_classes)
        For each share. It holds the noise of the new rows and, where the model has rows that it
        was not fitted to, of those too.
    coverage : float
        Of the interval.
    p_value : float
        Of the hypothesis that nothing shifted.
    n_rows : int
        New rows that were read.
    calibrated : bool
        Whether there were rows that the model was not fitted to.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade import NaiveBayes
    >>> y = np.repeat([0, 1], 200)
    >>> X = np.random.default_rng(0).normal(size=(400, 1)) + 2 * y[:, None]
    >>> found = NaiveBayes(tradeoff=1).fit(X, y).adapt(X[100:]).class_shares_
    >>> found.fitted, found.shares.round(2)
    (array([0.5, 0.5]), array([0.36, 0.64]))
    """

    classes: NDArray[Any]
    fitted: Floats
    likeliest: Floats
    shares: Floats
    interval: Floats
    coverage: float
    p_value: float
    n_rows: int
    calibrated: bool

    def __str__(self) -> str:
        names = [str(label) for label in self.classes.tolist()]
        width = max(5, *map(len, names))
        lines = [f"{'class':{width}}  fitted  new rows"]
        rows = zip(names, self.fitted, self.shares, *self.interval, strict=True)
        lines += [f"{c:{width}}  {f:6.3f}  {s:8.3f} ({a:.3f} to {b:.3f})" for c, f, s, a, b in rows]
        lines.append(
            f"{counted(self.n_rows, 'row')}, {100 * self.coverage:g} % intervals; "
            f"test that nothing shifted: p = {self.p_value:.2g}"
        )
        if not self.calibrated:
            lines.append(
                "without rows that the model was not fitted to: intervals and test take its "
                "probabilities for true"
            )
        return "\n".join(lines)


def estimate_shares(
    log_posterior: Floats,
    classes: NDArray[Any],
    fitted: Floats,
    held_out: HeldOut | None = None,
    *,
    coverage: float = 0.95,
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

    Returns
    -------
    ClassShares

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade.inference import estimate_shares
    >>> posterior = np.repeat([[0.9, 0.1], [0.1, 0.9]], [300, 100], axis=0)
    >>> found = estimate_shares(np.log(posterior), np.array(["no", "yes"]), np.array([0.5, 0.5]))
    >>> found.likeliest.round(4), found.shares.round(4)
    (array([0.8125, 0.1875]), array([0.8103, 0.1897]))
    """
    log_posterior = np.asarray(log_posterior, dtype=np.float64)
    _check_posteriors(log_posterior, len(classes))
    ratio = None if held_out is None else held_out.ratio
    if ratio is not None:  # back to the shares of fit, whatever the model was adapted to since
        log_posterior = normalised(log_posterior - np.log(ratio))
        fitted = fitted / ratio / (fitted / ratio).sum()
    n, k = log_posterior.shape
    if held_out is None:
        at_rest = fitted
        likeliest = _mixture(log_posterior, at_rest)
        spread, test = _likelihood_spread(np.exp(log_posterior), fitted, likeliest)
    else:
        test = _against_rows_left_out(log_posterior, fitted, held_out)
        map_ = _calibration(held_out)
        log_posterior = _calibrated(log_posterior, map_)
        own = np.exp(_calibrated(held_out.log_posterior, map_))
        # The penalty leaves the map a little off: rows like those of fit have this mean, and of a
        # model that tells no row from another, every row has.
        at_rest = held_out.weights @ own / held_out.weights.sum()
        likeliest = _mixture(log_posterior, at_rest)
        spread = _left_out_spread(fitted, likeliest, own, held_out, n)
    shares = fitted
    if test.moved > 0.0:
        pseudo_rows = max(1.0 / test.moved - 1.0, 0.0) * n / test.n_worth
        shares = _mixture(log_posterior, at_rest, pseudo_rows * fitted)
    # Rows that are all of one class leave the shares of others unsure by about one row.
    at_least = (n * likeliest + 1.0) / (n + k)
    spread = np.maximum(spread, np.sqrt(at_least * (1.0 - at_least) / n))
    width = norm.ppf(0.5 + coverage / 2) * spread
    interval = np.clip([likeliest - width, likeliest + width], 0.0, 1.0)
    return ClassShares(
        classes,
        fitted,
        likeliest,
        shares,
        interval,
        coverage,
        test.p_value,
        n,
        held_out is not None,
    )


def _check_posteriors(log_posterior: Floats, n_classes: int) -> None:
    shape = log_posterior.shape
    if log_posterior.ndim != 2 or shape[1] != n_classes or not len(log_posterior):
        raise DataError(
            f"log_posterior: expected shape (n_rows, {n_classes}) with at least one row, got "
            f"{shape}; give what predict_log_proba returns"
        )
    sums = np.exp(log_posterior).sum(axis=1)
    if not (np.abs(sums - 1.0) < 1e-6).all():
        row = int(np.argmax(~(np.abs(sums - 1.0) < 1e-6)))
        raise DataError(
            f"log_posterior: expected logarithms of probabilities that sum to 1, got a sum of "
            f"{sums[row]:g} in row {row}; give what predict_log_proba returns"
        )


class _Test(NamedTuple):
    """That nothing shifted, and by how much more than chance the statistic says it did.

    `moved`: 1/(a + 1), if shares were drawn around those of fit by Dirichlet's law with a rows:
        that the statistic has the expectation that it has come to.
    `n_worth`: How many new rows of a model without errors would say as much.
    """

    p_value: float
    moved: float
    n_worth: float


def _moved(statistic: float, expected: float, df: int) -> float:
    """Return 1/(a + 1) from a statistic, and by how much it is expected to exceed df at a = 0.

    Linear in what it exceeds df by, which has a variance of 2 df, and of least mean squared error
    if every 1/(a + 1) from 0 to 1 is as likely: what says nothing of shares moves none.
    """
    return min(max(statistic - df, 0.0) * expected / (expected**2 + 6.0 * df), 1.0)


def _multinomial(shares: Floats) -> Floats:
    return (np.diag(shares) - np.outer(shares, shares))[:-1, :-1]


def _likelihood_spread(
    posterior: Floats, fitted: Floats, likeliest: Floats
) -> tuple[Floats, _Test]:
    """Return standard errors and the test of no shift from the rows' own likelihood."""
    used = fitted > 0.0
    density = np.divide(posterior, fitted, out=np.zeros_like(posterior), where=used)
    best, at_rest = density @ likeliest, density @ fitted

    def information(evidence: Floats) -> Floats:
        slopes = density / evidence[:, None]
        slopes = slopes[:, :-1] - slopes[:, -1:]
        return np.asarray(slopes.T @ slopes)

    with np.errstate(divide="ignore"):
        statistic = max(2.0 * float((np.log(best) - np.log(at_rest)).sum()), 0.0)
    df = len(fitted) - 1
    expected = float(np.trace(information(at_rest) @ _multinomial(fitted)))
    test = _Test(float(chi2.sf(statistic, df)), _moved(statistic, expected, df), len(posterior))
    return _spread(_inverse(information(best))), test


def _confusion(
    own: Floats, held_out: HeldOut, classes: Integers, otherwise: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """Return each class's rows' mean posterior M, covariance and weight, of rows left out.

    M is a confusion matrix without decisions (Lipton, Wang & Smola 2018); `otherwise` for a class
    without rows.
    """
    k = own.shape[1]
    means, inner, counts = np.zeros((k, k)), np.zeros((k, k, k)), np.zeros(k)
    for place, code in enumerate(classes):
        weights = held_out.weights * (held_out.codes == code)
        counts[place] = weights.sum()
        if counts[place] > 0.0:
            means[place] = weights @ own / counts[place]
            away = own - means[place]
            inner[place] = (weights[:, None] * away).T @ away / counts[place]
        else:
            assert otherwise is not None
            means[place] = otherwise
    return means, inner, counts


def _mixed(shares: Floats, means: Floats, inner: Floats, counts: Floats) -> tuple[Floats, ...]:
    """Return the covariance of rows of these shares between classes and within, and that of πM."""
    noise = np.divide(1.0, counts, out=np.zeros_like(counts), where=counts > 0.0)
    away = means - shares @ means
    between = (shares[:, None] * away).T @ away
    within = np.einsum("c,cij->ij", shares, inner)
    return between, within, np.einsum("c,cij->ij", shares**2 * noise, inner)


def _against_rows_left_out(log_posterior: Floats, fitted: Floats, held_out: HeldOut) -> _Test:
    """Return the test that new rows' mean posterior is that of rows left out, fM.

    Of the classes of these rows: one of a single row is in every fold's fit, and counts for more.
    """
    seen = np.flatnonzero(np.bincount(held_out.codes, held_out.weights, len(fitted)))
    posterior = np.exp(normalised(log_posterior[:, seen]))
    own = np.exp(normalised(held_out.log_posterior[:, seen]))
    fitted = fitted[seen] / fitted[seen].sum()
    n, k = posterior.shape
    if k == 1:
        return _Test(1.0, 0.0, n)
    means, inner, counts = _confusion(own, held_out, seen)
    between, within, left_out = _mixed(fitted, means, inner, counts)
    m = float(counts.sum())
    # The shares of fit, too, are those of rows that were drawn. What classes count for is no row.
    noise = float(np.trace(left_out + between / m))
    worth = float(np.trace(between + within)) / noise if noise > 0.0 else m
    mean = posterior.mean(axis=0)
    squares = m * (between + within) + (posterior - mean).T @ (posterior - mean)
    # Equal posteriors differ by rounding.
    pooled = squares / max(m + n - 2.0, 1.0) + 1e-15 * np.eye(k)
    gap, covariance = mean - fitted @ means, pooled * (1.0 / n + 1.0 / worth)
    if held_out.moved is not None:
        gap = gap - held_out.moved.mean[seen]
        covariance = covariance + held_out.moved.covariance[np.ix_(seen, seen)]
    gap, information = gap[:-1], _inverse(covariance[:-1, :-1])
    left = max(m + n - k, 1.0)
    statistic = float(gap @ information @ gap) * left / max(m + n - 2.0, 1.0)
    # The means of classes that are alike differ, too, by what the rows left out do.
    noise_of_means = (k - 1) * within[:-1, :-1] / worth
    expected = float(np.trace(information @ (between[:-1, :-1] - noise_of_means)))
    moved = _moved(statistic, max(expected, 0.0), k - 1)
    p_value = float(f.sf(statistic / (k - 1), k - 1, left))
    return _Test(p_value, moved, n * worth / (n + worth))


def _left_out_spread(
    fitted: Floats, likeliest: Floats, own: Floats, held_out: HeldOut, n_new: int
) -> Floats:
    """Return standard errors of shares whose rows have the mean posterior πM.

    Its noise is that of the new rows and, through M, that of the rows left out.
    """
    means, inner, counts = _confusion(own, held_out, np.arange(len(fitted)), fitted)
    between, within, left_out = _mixed(likeliest, means, inner, counts)
    slopes = (means[:-1] - means[-1])[:, :-1].T
    # Classes that the model cannot tell apart leave their shares open.
    if np.linalg.svd(slopes, compute_uv=False).min(initial=1.0) < 1e-3:
        return np.ones(len(fitted))
    back = _inverse(slopes.T @ slopes) @ slopes.T
    return _spread(back @ ((between + within) / n_new + left_out)[:-1, :-1] @ back.T)


def _inverse(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.pinv(matrix, rcond=1e-9, hermitian=True), dtype=np.float64)


def _spread(covariance: Floats) -> Floats:
    """Return the standard errors of all shares from the covariance of all but the last."""
    variances = np.append(np.diagonal(covariance), covariance.sum())
    found: Floats = np.sqrt(np.maximum(variances, 0.0))
    return found


def _mixture(log_posterior: Floats, prior: Floats, pseudo_rows: Floats | float = 0.0) -> Floats:
    """Return the shares that make the rows likeliest, by EM; with so many rows known of a class."""
    used = prior > 0.0
    likelihood = np.exp(log_posterior - log_posterior.max(axis=1, keepdims=True))
    likelihood = np.divide(likelihood, prior, out=np.zeros_like(likelihood), where=used)
    shares = np.where(used, prior, 0.0)
    for _ in range(_MOST_STEPS):
        evidence = likelihood @ shares
        new = shares * ((1.0 / evidence) @ likelihood) + pseudo_rows
        new /= new.sum()
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


def _calibration(held_out: HeldOut) -> Floats:
    """Return the slope and the shifts of least log-loss on rows held out, (1 + n_classes,).

    Also where they could be chance: a model's own shift, however small, moves the shares of rows
    that it hardly tells apart by more than the shift's noise does. With a pseudo-row's penalty, so
    that rows that are told apart without an error leave them finite.
    """
    n, k = held_out.log_posterior.shape
    rows, codes = np.maximum(held_out.log_posterior, -700.0), held_out.codes
    own, weights = np.arange(n), held_out.weights
    total, nothing = weights.sum(), np.append(1.0, np.zeros(k))

    def loss(at: Floats) -> tuple[float, Floats]:
        log_p = _calibrated(rows, at)
        away = at - nothing
        error = np.exp(log_p)
        error[own, codes] -= 1.0
        error *= weights[:, None]
        gradient = np.append((error * rows).sum(), error.sum(axis=0)) + away
        value = float(weights @ -log_p[own, codes] + 0.5 * away @ away)
        return value / total, gradient / total

    free = [(None, None)] * k
    found = minimize(loss, nothing, jac=True, method="L-BFGS-B", bounds=[(1e-3, None), *free])
    return np.asarray(found.x)
