"""What a row, or a group of rows, draws to itself: gradients as of fits without them.

H⁻¹ times such a gradient is a Newton step to the fit without the row (HC3: MacKinnon & White 1985;
Fay & Graubard 2001) or without the group (CR3: Bell & McCaffrey 2002), as the jackknife has it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import scipy.linalg

from crossfade._typing import Floats, Integers
from crossfade.tradeoff.objective import TradeoffObjective

#: Leverage beyond which one step no longer tells what a fit without the rows would be.
_LARGEST = 0.99

#: What a class of two rows has, and a class that is all in one unit gets.
_LARGEST_OF_CLASS = 0.5

#: Doubles of a batch of groups' leverages: 4 MB.
_BATCH_DOUBLES = 524_288


def without_itself(
    objective: TradeoffObjective,
    theta: Floats,
    inverse: Floats,
    gradients: Callable[[slice | Integers], Floats],
    groups: Integers | None = None,
) -> Callable[[slice], Floats]:
    """Return rows' gradients ψ divided by one less their leverage: (I - D H⁻¹)⁻¹ ψ (1 - λ/n_k)⁻¹.

    D = C'WC is a row's part of H: C its design by class, W = (1-λ)(diag τ - ττ') - (diag q - qq'),
    with τ the posterior, q its shares among a class's states. The joint likelihood's part of H is
    the same for all rows; there a row has a share of the n_k rows of its class, as means without it
    show. Of a group D and ψ are sums, and so are the gradients to be: they say nothing by row.

    Takes inverse: H⁻¹.
    """
    of_units = _Leverage(objective, theta, inverse, gradients)
    mass = None if groups is None else of_units.masses(groups)
    # At λ = 1 no part of H is a row's but by the components of its class.
    bends = objective.tradeoff < 1.0 or not objective.exact_labels
    known = (
        None if mass is None or groups is None or not bends else of_units.of_groups(groups, mass)
    )

    def block(span: slice) -> Floats:
        unit = of_units.units(span) if mass is None else mass[span]
        found = of_units.left_by(span, unit)
        if not bends:
            return found
        Z, W, bound = of_units.design(span)
        if known is None:
            moved = of_units.moved(found[:, None], unit[:, None], Z, W, bound)
        else:
            moved = known[span]
        for own, to in zip((Z * moved.T[:, :, None]), of_units.maps, strict=True):
            found += own @ to
        return found

    return block


class _Leverage:
    """The parts of H that rows and groups of rows have, and what follows of them."""

    def __init__(
        self,
        objective: TradeoffObjective,
        theta: Floats,
        inverse: Floats,
        gradients: Callable[[slice | Integers], Floats],
    ) -> None:
        passes = objective.passes
        self.objective, self.gradients, self.inverse = objective, gradients, inverse
        self.maps, self.at = passes.coefficient_maps(theta), passes.row_coefficients(theta)
        self.half = [one @ inverse for one in self.maps]
        k = passes.n_classes
        self.forms = {(a, b): self.half[a] @ self.maps[b].T for a in range(k) for b in range(a, k)}

    def weights(self, rows: slice | Integers) -> Floats:
        """Return rows' weights, what their classes count for among them."""
        found = self.objective.rows.block_weights(rows)
        return np.ones(self.objective.rows.codes[rows].size) if found is None else found

    def units(self, rows: slice) -> Floats:
        """Return how much of a row is one row: of weight 3 it is three.

        What its class counts for is no repetition.
        """
        labelled = self.objective.rows
        factors = labelled.class_factors
        own = np.ones(1) if factors is None else factors[labelled.codes[rows]]
        return np.minimum(own, self.weights(rows))

    def left_by(self, rows: slice | Integers, mass: Floats) -> Floats:
        """Return gradients divided by what is left of their class without so much of it."""
        labelled, lam = self.objective.rows, self.objective.tradeoff
        share = mass / np.maximum(labelled.class_weights[labelled.codes[rows]], 1e-300)
        whole = min(lam, _LARGEST_OF_CLASS)
        gone = np.where(share < 1.0 - 1e-9, np.minimum(lam * share, _LARGEST), whole)
        return np.asarray(self.gradients(rows) / (1.0 - gone)[:, None])

    def design(self, rows: slice | Integers) -> tuple[Floats, Floats, Floats]:
        """Return C by state, W, and what bounds W; (k, n_rows, width), (n_rows, k, k) twice."""
        passes, lam = self.objective.passes, self.objective.tradeoff
        Z, posterior, _ = passes.design(rows, *self.at)
        Z = np.broadcast_to(Z, (passes.n_classes, *Z.shape[-2:]))
        W = bound = (1.0 - lam) * _multinomial(posterior)
        if not self.objective.exact_labels:
            W = bound - _multinomial(np.asarray(self.objective.own_shares(rows, posterior)))
        return Z, W, bound

    def moved(self, psi: Floats, weights: Floats, Z: Floats, W: Floats, bound: Floats) -> Floats:
        """Return W C (H - D)⁻¹ Σψ by row of units that have as many rows each, (n_rows, k).

        Shapes: psi (n_units, m, q); weights (n_units, m); the others of units times m rows.
        """
        units, m = weights.shape
        k = len(Z)
        total = (psi * weights[:, :, None]).sum(axis=1)
        by_unit = Z.reshape(k, units, m, -1)
        pulled, Q = np.empty((units, m, k)), np.empty((units, m, k, m, k))
        for a, half in enumerate(self.half):
            pulled[:, :, a] = np.einsum("uip,up->ui", by_unit[a], total @ half.T)
        for (a, b), form in self.forms.items():
            Q[:, :, a, :, b] = np.einsum("uip,ujp->uij", by_unit[a] @ form, by_unit[b])
            Q[:, :, b, :, a] = Q[:, :, a, :, b].swapaxes(1, 2)
        weighed = (weights.reshape(-1, 1, 1) * W).reshape(units, m, k, k)
        QW = np.einsum("uiajb,ujbc->uiajc", Q, weighed)
        # A trace bounds the largest eigenvalue, which few rows need.
        of_bound = (weights.reshape(-1, 1, 1) * bound).reshape(units, m, k, k)
        far = np.flatnonzero(np.einsum("uiaib,uiba->u", Q, of_bound) > _LARGEST)
        QW = QW.reshape(units, m * k, m * k)
        if far.size:
            largest = np.linalg.eigvals(QW[far]).real.max(axis=1)
            QW[far] *= (_LARGEST / np.maximum(largest, _LARGEST))[:, None, None]
        found = np.linalg.solve(np.eye(m * k) - QW, pulled.reshape(units, m * k, 1))
        return np.asarray((W @ found.reshape(-1, k, 1))[:, :, 0])

    # -- groups ----------------------------------------------------------------------------------

    def masses(self, groups: Integers) -> Floats:
        """Return how much of its class a row's group has, (n_rows,)."""
        rows = self.objective.rows
        found = np.zeros((int(groups.max()) + 1, rows.n_classes))
        np.add.at(found, (groups, rows.codes), self.weights(slice(None)))
        return np.asarray(found[groups, rows.codes])

    def of_groups(self, groups: Integers, of_row: Floats) -> Floats:
        """Return W C (H - D)⁻¹ Σψ by row, of D and ψ of its group, (n_rows, k).

        Takes of_row: What :meth:`masses` gives.
        """
        rows, k = self.objective.rows, self.objective.passes.n_classes
        found = np.empty((rows.n_samples, k))
        order = np.argsort(groups, kind="stable")
        sizes = np.bincount(groups)
        starts = np.cumsum(sizes) - sizes
        for m in np.unique(sizes[sizes > 0]).tolist():
            same = starts[sizes == m]
            size = min(self.objective.passes.block_rows // m, _BATCH_DOUBLES // (m * k) ** 2)
            if m * k > len(self.inverse) or not size:
                for first in same:
                    index = order[first : first + m]
                    found[index] = self._of_large(index, of_row[index])
                continue
            for first in range(0, same.size, size):
                index = order[same[first : first + size, None] + np.arange(m)]
                flat = index.ravel()
                psi = self.left_by(flat, of_row[flat]).reshape(*index.shape, -1)
                weights = self.weights(flat).reshape(index.shape)
                found[flat] = self.moved(psi, weights, *self.design(flat))
        return found

    @cached_property
    def _root(self) -> Floats:
        return np.asarray(np.linalg.cholesky(self.inverse), dtype=np.float64)

    def _of_large(self, index: Integers, mass: Floats) -> Floats:
        """Return the same of one group of more rows than parameters."""
        size, L = self.objective.passes.block_rows, self._root
        total, D = np.zeros(len(L)), np.zeros_like(L)
        parts = [slice(first, first + size) for first in range(0, index.size, size)]
        for part in parts:
            rows = index[part]
            weights = self.weights(rows)
            total += weights @ self.left_by(rows, mass[part])
            Z, W, _ = self.design(rows)
            for a, b in self.forms:
                one = self.maps[a].T @ ((Z[a] * (weights * W[:, a, b])[:, None]).T @ Z[b])
                one = one @ self.maps[b]
                D += one if a == b else one + one.T
        M = L.T @ D @ L
        try:
            scipy.linalg.cholesky(_LARGEST * np.eye(len(M)) - M, check_finite=False)
        except scipy.linalg.LinAlgError:
            M *= _LARGEST / scipy.linalg.eigvalsh(M, subset_by_index=[len(M) - 1] * 2)[0]
        y = L @ np.linalg.solve(np.eye(len(M)) - M, L.T @ total)
        found = []
        for part in parts:
            Z, W, _ = self.design(index[part])
            predictors = np.stack(
                [own @ (to @ y) for own, to in zip(Z, self.maps, strict=True)], axis=1
            )
            found.append((W @ predictors[:, :, None])[:, :, 0])
        return np.concatenate(found)


def _multinomial(shares: Floats) -> Floats:
    """Return diag p - pp' by row, (n_rows, k, k)."""
    return shares[:, :, None] * (np.eye(shares.shape[1]) - shares[:, None, :])
