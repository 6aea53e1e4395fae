"""Classes that are mixtures: the same objective over components, labels known only by class.

With states r, each belonging to one class, and s_ir = log of the integral of exp(η_r·T + c_r) over
what is missing of x_i,

    Φ_λ = - Σ_i w_i log Σ_{r in y_i} exp s_ir + λ n log Σ_r exp(c_r + A(η_r))
          + (1-λ) Σ_i w_i log Σ_r exp s_ir

is the tradeoff objective over states in which a row's own term is a log-sum over its class's
states. A row u without a label adds -λ γ w_u log Σ_r exp(s_ur + b_k), b_k = log π_k - log Z_k with
Z_k the sum of exp(c_r + A(η_r)) over the class's states: shares of classes are given, those of
components are not. It is not convex: the path starts from the best of several EM runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from crossfade._typing import Floats, Integers
from crossfade.blocks import block_sum
from crossfade.densities.base import Bound
from crossfade.tradeoff.dense_curvature import class_columns, dense_curvature
from crossfade.tradeoff.expectation import Start, component_prior, expectation_maximisation
from crossfade.tradeoff.labelled_rows import LabelledRows, log_normalise
from crossfade.tradeoff.objective import OwnTerms, Parameters, TradeoffObjective
from crossfade.tradeoff.passes import RowPasses
from crossfade.tradeoff.state_passes import StatePasses
from crossfade.tradeoff.unlabelled import Unlabelled

#: Least eigenvalue of a Hessian of unit diagonal by which its parameters can be told apart.
_SINGULAR = 1e-12

#: From a block's scores to log Σ over the states that a row may be of, and their shares.
Shares = Callable[[slice, Floats], tuple[Floats, Floats]]

#: What passes make of a parameter vector: slopes, offset, what missing factors add.
Coefficients = tuple[Floats, Floats, Floats | None]


@dataclass(frozen=True, eq=False)
class MixtureObjective(TradeoffObjective):
    """Φ_λ over the components of every class.

    `n_components`: Components of each class.
    `best`: Of the best of the EM runs.
    """

    exact_labels: ClassVar[bool] = False

    n_components: int
    best: Parameters

    @classmethod
    def of(
        cls,
        rows: LabelledRows,
        bound: Bound,
        tradeoff: float,
        l2: float,
        *,
        n_components: int = 1,
        n_init: int = 5,
        seed: int = 0,
        unlabelled: Unlabelled | None = None,
    ) -> Self:
        """Return the objective of rows, with the classes' density for every component."""
        start = Start(rows, bound, n_components, unlabelled)
        found = expectation_maximisation(start, n_init=n_init, seed=seed)
        prior_counts, prior_sums = component_prior(bound, n_components)
        states = replace(
            bound,
            density=bound.density.unfilled,
            counts=found.counts,
            sums=found.sums,
            prior_counts=prior_counts,
            prior_sums=prior_sums,
        )
        passes = RowPasses.of(rows, states, found.mass)
        if rows.has_missing and bound.density.marginalises:
            passes = StatePasses.beside(passes, rows)
        whole = cls(passes, 1.0, float(l2), n_components, found.parameters, unlabelled=unlabelled)
        return whole.with_tradeoff(tradeoff)

    def generative(self) -> Parameters:
        """Return the best of the EM runs."""
        return self.best

    def without_rows(self) -> Self:
        # Statistics sum to zero, so that rows have no part in what states have in common: those
        # that lack a factor have.
        return self.with_tradeoff(1.0) if self.has_gaps else super().without_rows()

    @cached_property
    def _own(self) -> NDArray[np.bool_]:
        """Which states are of a class, shape (n_classes, n_states)."""
        return np.repeat(np.eye(self.rows.n_classes, dtype=bool), self.n_components, axis=1)

    def _of_label(self, span: slice | Integers, scores: Floats) -> tuple[Floats, Floats]:
        """Return log Σ over the own class's states and their shares, by row."""
        own = np.where(self._own[self.rows.codes[span]], scores, -np.inf)
        return log_normalise(own)

    def own_shares(self, span: slice | Integers, posterior: Floats) -> Floats:
        return self._of_label(span, np.log(np.maximum(posterior, 1e-300)))[1]

    # -- rows without a label --------------------------------------------------------------------

    @cached_property
    def _others(self) -> StatePasses | None:
        """Passes over the rows without a label, where they count; γ is in their weights."""
        found = self.unlabelled
        if found is None or self.tradeoff == 0.0:
            return None
        codes = np.zeros(found.weights.size, dtype=np.int64)
        density = self.density
        X = density.filled_cells(found.X, density.filling) if density.filled else found.X
        rows = LabelledRows(X, codes, found.weights, self.rows.n_classes, has_missing=True)
        return StatePasses.beside(self.passes, rows)

    def _within(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return b_k and the states' shares of their class, both (n_states,)."""
        assert self.unlabelled is not None
        log_terms = self.split(theta)[1] + self.passes.at(theta).partition.sum(axis=1)
        by_class = log_terms.reshape(-1, self.n_components)
        log_z = np.logaddexp.reduce(by_class, axis=1)
        bias = (self.unlabelled.log_shares - log_z).repeat(self.n_components)
        return bias, np.exp(by_class - log_z[:, None]).ravel()

    def _by_class(self, values: Floats) -> Floats:
        """Return sums over the states of a class, one for each of its states, (n_states, …)."""
        shape = -1, self.n_components, *values.shape[1:]
        return values.reshape(shape).sum(axis=1).repeat(self.n_components, axis=0)

    def others_at(self, theta: Floats) -> tuple[StatePasses, Coefficients, Floats]:
        """Return passes over rows without a label, coefficients of log(π_k f_r p_r / p_k), maps."""
        others = self._others
        assert others is not None
        bias, within = self._within(theta)
        eta, offset, absent = others.row_coefficients(theta)
        maps = others.coefficient_maps(theta)
        columns = class_columns(self.passes, self.passes.at(theta).slope)
        maps[:, -1] -= self._by_class(within[:, None] * columns)
        return others, (eta, offset + bias, absent), maps

    # -- value and gradient ----------------------------------------------------------------------

    def _own_terms(self, theta: Floats) -> OwnTerms:
        passes, lam, others = self.passes, self.tradeoff, self._others
        value, sums, mass, lost = _expected(passes, passes.row_coefficients(theta), self._of_label)
        free, tied = passes.free_and_tied(sums)
        nonlinear = tied if passes.by_state else np.zeros_like(tied)
        if others is not None:
            bias, within = self._within(theta)
            eta, offset, absent = others.row_coefficients(theta)
            more = _expected(
                others, (eta, offset + bias, absent), lambda _, scores: log_normalise(scores)
            )
            free_more, tied_more = others.free_and_tied(more[1])
            of_class = self._by_class(more[2]) * within
            value, free = value + lam * more[0], free + lam * free_more
            mass = mass + lam * (more[2] - of_class)
            lost = lost + lam * (more[3] - of_class[:, None])
            tied, nonlinear = tied + tied_more, nonlinear + tied_more
        if lam > 0.0:
            value -= float(np.vdot(passes.at(theta).partition, lost))
            value -= lam * float(self.split(theta)[2] @ nonlinear)
        return OwnTerms(value, free, mass, lost, tied)

    def lost(self, theta: Floats) -> Floats:
        """Return what the own terms' gradient in A is, (n_states, n_factors)."""
        return self._own_terms(theta).lost

    # -- curvature -------------------------------------------------------------------------------

    def curvature(self, theta: Floats, share: float = 1.0) -> Floats:
        """Return the Hessian, negative eigenvalues turned positive (Dauphin et al. 2014)."""
        exact = self.exact_curvature(theta)
        try:
            scipy.linalg.cho_factor(exact, lower=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            values, vectors = scipy.linalg.eigh(exact, check_finite=False)
            sizes = np.maximum(np.abs(values), 1e-6 * np.abs(values).max())
            return (vectors * sizes) @ vectors.T
        return exact

    def exact_curvature(self, theta: Floats) -> Floats:
        """Return the Hessian: that of known states less what not knowing them loses (Louis 1982).

        The same is lost of what is missing of a row.
        """
        passes = self.passes
        H, _ = dense_curvature(self, theta, 1.0, shifted=False)
        at, maps = passes.row_coefficients(theta), passes.coefficient_maps(theta)
        H -= self._spread(passes, at, maps, self.own_shares, self.n_components)
        if self._others is None:
            return H
        others, at, maps = self.others_at(theta)
        within = self._within(theta)[1]
        H -= self.tradeoff * self._spread(others, at, maps, lambda _, q: q, passes.n_classes)
        mass = _expected(others, at, lambda _, scores: log_normalise(scores))[2]
        columns = class_columns(passes, passes.at(theta).slope)
        columns -= self._by_class(within[:, None] * columns)
        each = self.tradeoff * within * self._by_class(mass)
        return H + columns.T @ (columns * each[:, None])

    def check_identified(self, H: Floats) -> None:
        """Raise LinAlgError where the Hessian tells no errors: two components are equal."""
        passes, k = self.passes, self.passes.n_classes
        free, tied = (passes.density.varies[own] for own in (passes.free, passes.tied))
        # What never varies tells of no component.
        told = np.flatnonzero(np.concatenate([np.tile(free, k), np.ones(k, dtype=bool), tied]))
        H = H[np.ix_(told, told)]
        scale = np.sqrt(np.maximum(np.diagonal(H), 1e-300))
        lowest = scipy.linalg.eigvalsh(H / np.outer(scale, scale), subset_by_index=[0, 0])[0]
        if lowest < _SINGULAR:
            raise scipy.linalg.LinAlgError("components are equal")

    def _spread(
        self,
        passes: RowPasses,
        at: Coefficients,
        maps: Floats,
        shares: Callable[[slice, Floats], Floats],
        group: int,
    ) -> Floats:
        """Return Σ w J'(diag q - qq')J, q the shares among `group` states, and Σ w q cov(J)."""
        k, width, every = passes.n_classes, maps.shape[1], passes.tied.size

        def block(span: slice) -> Floats:
            Z, posterior, weights = passes.design(span, *at)
            share = shares(span, posterior)
            v = np.ones(len(share)) if weights is None else weights
            Z = np.broadcast_to(Z, (k, *Z.shape[-2:]))
            out = np.zeros((k, width, k, width))
            for a in range(k):
                first = a - a % group
                for b in range(first, first + group):
                    w = v * share[:, a] * ((a == b) - share[:, b])
                    out[a, :, b] = Z[a].T @ (Z[b] * w[:, None])
            missing = passes.design_spread(span, at[0], share * v[:, None])
            if missing is not None:
                for a in range(k):
                    out[a, :every, a, :every] += missing[a]
            return out

        blocks = block_sum(block, passes.rows.n_samples, block_rows=passes.block_rows)
        H = np.zeros((self.n_parameters, self.n_parameters))
        used = [np.flatnonzero(own.any(axis=0)) for own in maps]
        small = [own[:, columns] for own, columns in zip(maps, used, strict=True)]
        for a in range(k):
            first = a - a % group
            for b in range(first, first + group):
                H[np.ix_(used[a], used[b])] += small[a].T @ blocks[a, :, b] @ small[b]
        return H


def _expected(
    passes: RowPasses, at: Coefficients, shares: Shares
) -> tuple[float, Floats, Floats, Floats]:
    """Return Σ w log Σ_r exp s_r, its gradient in statistics and offsets, and missing factors."""
    n_factors = passes.density.n_factors

    def block(span: slice) -> tuple[float, Floats, Floats, Floats]:
        carrier, missing, scores = passes.block_scores(span, *at)
        log_sum, share = shares(span, scores)
        weights = passes.rows.block_weights(span)
        value = float(log_sum.sum() if weights is None else log_sum @ weights)
        if weights is not None:
            share = share * weights[:, None]
        lost = np.zeros((share.shape[1], n_factors)) if missing is None else share.T @ missing
        return value, *passes.block_sums(carrier, missing, share), lost

    return block_sum(block, passes.rows.n_samples, block_rows=passes.block_rows)
