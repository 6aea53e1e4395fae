"""Posteriors of labelled rows by fits that did not see them: what calibration starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from crossfade._typing import Floats, Integers

#: Rows that are kept with a model: enough for quantiles, little in a file.
_MOST_ROWS = 5_000


class Moved(NamedTuple):
    """How far fits to all rows and without a fold are apart, in the mean posterior of any rows.

    `mean` (n_classes,): By how much more the fit to all rows gives each class.
    `covariance` (n_classes, n_classes): Bounds what errors of the folds' mean posteriors share.
    """

    mean: Floats
    covariance: Floats

    @classmethod
    def of(cls, whole: Floats, without: Floats, weights: Floats) -> Self:
        """Return it from mean posteriors of the rows of each fold.

        All rows are in: those that a fit has seen draw it towards themselves by so much less where
        it has all, as those that it has not seen do not at all. Errors of the folds j and k, each
        fitted to the other's rows, have the covariance of h_jk and h_kj, h_jk being what j moves
        the rows of k by more than others. It is no more than the mean of their variances.

        Shapes: whole (n_folds, n_classes); without (n_folds, n_folds, n_classes), first the fold
        that was left out; weights (n_folds,), of the folds' rows.
        """
        share = weights / weights.sum()
        moved = whole - without
        covariance = np.zeros((whole.shape[1],) * 2)
        for j, own in enumerate(moved):
            others = np.arange(share.size) != j
            rest = share[others]
            away = own[others] - rest @ own[others] / max(rest.sum(), 1e-300)
            covariance += share[j] * (away.T * rest) @ away
        return cls(share @ (share @ moved), covariance)


@dataclass(frozen=True)
class HeldOut:
    """Log-posteriors out of fold, and the classes that the rows turned out to have.

    Attributes
    ----------
    log_posterior : ndarray of shape (n_rows, n_classes)
        For the class shares of the rows of fit.
    codes : ndarray of shape (n_rows,), int
        Of the classes.
    weights : ndarray of shape (n_rows,)
    ratio : ndarray of shape (n_classes,) or None
        How many times as large the shares are where the model is used.
    class_factors : ndarray of shape (n_classes,) or None
        The part of the weights that is not how often a row occurs, but how much its class counts.
    moved : Moved or None
        How far the mean posterior of the rows is from what the fit to all of them would have.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade import NaiveBayes
    >>> y = np.repeat([0, 1], 200)
    >>> X = np.random.default_rng(0).normal(size=(400, 1)) + 2 * y[:, None]
    >>> held_out = NaiveBayes(tradeoff=1).fit(X, y).rows_left_out()
    >>> round(float((held_out.log_posterior.argmax(axis=1) == held_out.codes).mean()), 2)
    0.83
    """

    log_posterior: Floats
    codes: Integers
    weights: Floats
    ratio: Floats | None = None
    class_factors: Floats | None = None
    moved: Moved | None = None

    @classmethod
    def of(
        cls,
        scores: Floats,
        codes: Integers,
        weights: Floats | None,
        ratio: Floats | None = None,
        class_factors: Floats | None = None,
        moved: Moved | None = None,
    ) -> Self:
        """Return the record of scores that are log-posteriors up to a term common to the classes.

        Of many rows an evenly spread part is kept. `ratio` is in the scores already.
        """
        n = len(codes)
        weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
        kept = np.linspace(0, n - 1, min(n, _MOST_ROWS)).round().astype(np.int64)
        some = scores[kept]
        if ratio is not None:
            some = some - np.log(ratio)
        return cls(normalised(some), codes[kept], weights[kept], ratio, class_factors, moved)

    def for_shares(self, ratio: Floats) -> Self:
        """Return the same where the classes' shares are so many times as large, (n_classes,)."""
        return replace(self, ratio=ratio if self.ratio is None else self.ratio * ratio)

    def in_use(self) -> tuple[Floats, Floats]:
        """Return log-posteriors and weights of rows for the shares where the model is used."""
        if self.ratio is None:
            return self.log_posterior, self.weights
        with np.errstate(divide="ignore"):
            scores = self.log_posterior + np.log(self.ratio)
        return normalised(scores), self.weights * self.ratio[self.codes]

    def as_rows_come(self) -> tuple[Floats, Floats]:
        """Return the same, but for weights that count rows where no other shares were given."""
        log_posterior, weights = self.in_use()
        if self.ratio is None and self.class_factors is not None:
            weights = weights / self.class_factors[self.codes]
        return log_posterior, weights


def normalised(scores: Floats) -> Floats:
    """Return log-posteriors from scores up to a term common to the classes."""
    with np.errstate(invalid="ignore"):
        log_posterior: Floats = scores - np.logaddexp.reduce(scores, axis=1)[:, None]
    return log_posterior
