"""Rows without a label: what they say of the classes' densities, by EM.

To λ times the joint log-likelihood of the labelled rows they add λ γ Σ_u w_u log Σ_k π_k f_k(x_u):
γ is what one of them counts against a labelled row, and the shares π are those of the labelled
rows. By Jensen's inequality that is at least, and at the present densities equal to,

    λ γ Σ_u w_u Σ_k r_uk log f_k(x_u) + a constant,    r_uk ∝ π_k f_k(x_u):

rows whose labels are their posteriors (Dempster, Laird & Rubin 1977; Nigam, McCallum, Thrun &
Mitchell 2000). Since the shares are given, these rows are to the objective what a conjugate prior's
pseudo-rows are, and are added to it as such. The conditional likelihood has no part of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crossfade._typing import Floats
from crossfade.blocks import BLOCK_ROWS, block_sum
from crossfade.densities.base import Density
from crossfade.table.documents import block_of
from crossfade.tradeoff.labelled_rows import WORD_ROWS, LabelledRows, OtherRows, log_normalise


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Rows without a label, as a fit takes them.

    `weights` (n_rows,): γ w_u.
    `log_shares` (n_classes,): log π_k.
    `counts`: γ.
    `shares_of_rows`: Whether π is that of the labelled rows, else it was given.
    """

    X: Any
    weights: Floats
    log_shares: Floats
    counts: float
    shares_of_rows: bool

    @classmethod
    def of(cls, rows: LabelledRows, weight: float, shift: Floats | None) -> Unlabelled | None:
        """Return the unlabelled rows beside labelled ones; None where they weigh nothing.

        `shift` (n_classes,): What is added to the log of the labelled rows' shares.
        """
        others = rows.unlabelled
        if others is None or weight == 0.0:
            return None
        shares = rows.without_factors
        if shift is not None:
            shares = rows.class_weights * np.exp(shift)
        with np.errstate(divide="ignore"):
            log_shares = np.log(shares / shares.sum())
        return cls(others.X, weight * others.often, log_shares, weight, shift is None)

    def over(self, others: OtherRows) -> Unlabelled:
        """Return the same with other rows."""
        return replace(self, X=others.X, weights=self.counts * others.often)

    def expected(self, density: Density, natural: Floats) -> tuple[float, Floats, Floats]:
        """Return γ Σ w log Σ_k π_k f_k(x), h(x) apart, and the expected counts and sums by class.

        Shapes: natural (n_classes, n_statistics); → counts (n_classes, n_factors); sums (n_classes,
        n_statistics).
        """
        partition, n_factors = density.log_partition(natural), density.n_factors

        def block(span: slice) -> tuple[float, Floats, Floats]:
            X, weights = block_of(self.X, span), self.weights[span]
            scores = density.relative_log_density(X, natural, partition) + self.log_shares
            log_sum, shares = log_normalise(scores)
            shares *= weights[:, None]
            counts = np.repeat(shares.sum(axis=0)[:, None], n_factors, axis=1)
            left_out = density.left_out(X)
            if left_out is not None:
                counts -= shares.T @ left_out
            return float(weights @ log_sum), counts, density.weighted_sums(X, shares)

        most = WORD_ROWS if density.reads_words else BLOCK_ROWS
        return block_sum(block, self.weights.size, block_rows=most)
