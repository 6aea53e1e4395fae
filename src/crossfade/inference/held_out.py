"""Posteriors of labelled rows by fits that did not see them: what calibration starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from crossfade._typing import Floats, Integers

__all__ = ["HeldOut"]

#: Rows that are kept with a model: enough for quantiles, little in a file.
_MOST_ROWS = 5_000


@dataclass(frozen=True)
class HeldOut:
    """Log-posteriors out of fold, and the classes that the rows turned out to have.

    `log_posterior` (n_rows, n_classes).
    `codes` (n_rows,).
    `weights` (n_rows,).
    """

    log_posterior: Floats
    codes: Integers
    weights: Floats

    @classmethod
    def of(cls, scores: Floats, codes: Integers, weights: Floats | None) -> Self:
        """Return the record of scores that are log-posteriors up to a term common to the classes.

        Of many rows an evenly spread part is kept.
        """
        n = len(codes)
        weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
        kept = np.linspace(0, n - 1, min(n, _MOST_ROWS)).round().astype(np.int64)
        some = scores[kept]
        with np.errstate(invalid="ignore"):
            log_posterior = some - np.logaddexp.reduce(some, axis=1)[:, None]
        return cls(log_posterior, codes[kept], weights[kept])

    def for_shares(self, ratio: Floats) -> Self:
        """Return the same where the classes' shares are so many times as large, (n_classes,)."""
        with np.errstate(divide="ignore"):
            scores = self.log_posterior + np.log(ratio)
        return type(self).of(scores, self.codes, self.weights * ratio[self.codes])
