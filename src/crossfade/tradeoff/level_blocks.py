"""Newton's linear system where one categorical column has most of the parameters.

A row has one level of a column, so that its curvature couples no two levels: the levels' part of
the Hessian is a K × K block a level, but for what levels share, one vector a class: the gradient
of A, and where the level is missing, too. The levels are eliminated block by block, and what is
left, the Schur complement, is as large as the other columns.

For that, scores are written in the indicators as they are, c' = c - w·mean/scale taking up what
standardising adds to them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse

from crossfade._typing import Floats, Integers
from crossfade.optim.newton import factorise, solve
from crossfade.tradeoff.formed_curvature import others
from crossfade.tradeoff.labelled_rows import log_normalise
from crossfade.tradeoff.objective import TradeoffObjective

#: The part of the parameters that may be others than the levels', for the elimination to pay.
_MOST_REST = 0.6

#: Parameters besides them of which a step costs next to nothing.
_FEW_LEFT = 100

#: Doubles that a pass may make of the rows: of each row, for each pair of classes, its statistics.
_MOST_DOUBLES = 50_000_000


def has_levels(objective: TradeoffObjective) -> bool:
    """Return whether a column has so many levels that to eliminate them is worth it."""
    left = _besides_levels(objective)
    passes = objective.passes
    few = passes.n_classes * left * passes.rows.n_samples <= _MOST_DOUBLES
    return few and left <= _MOST_REST * passes.n_parameters


def leaves_few(objective: TradeoffObjective) -> bool:
    """Return whether without a column's levels hardly any parameter is left."""
    return _besides_levels(objective) <= _FEW_LEFT and has_levels(objective)


def _besides_levels(objective: TradeoffObjective) -> float:
    """Return the number of parameters that are not the eliminated levels', ∞ where none are."""
    passes = objective.passes
    if not objective.exact_labels or not objective.density.indicators.any():
        return np.inf
    placed = passes.kept.placed
    return np.inf if placed is None else passes.n_parameters - passes.n_classes * placed.levels.size


class _Rest(NamedTuple):
    """The parameters that are no level's, (W, c, V): where each class's and other parts lie."""

    columns: Integers
    own: list[Integers]
    offsets: slice
    tied: slice
    size: int


class ByLevels:
    """Systems with the Hessian of an objective: its rows by level, which no step changes."""

    def __init__(self, objective: TradeoffObjective) -> None:
        self.objective = objective
        passes, placed = objective.passes, objective.passes.kept.placed
        assert placed is not None
        k, t = passes.n_classes, passes.n_tied
        levels, columns = placed.levels, placed.columns
        self.levels = levels
        self._factor = int(passes.free_factors[levels[0]])
        n, n_levels, q = len(placed.rest), levels.size, columns.size
        self._rest = _Rest(
            columns,
            [np.append(np.arange(q) + c * q, k * q + c) for c in range(k)],
            slice(k * q, k * q + k),
            slice(k * q + k, None),
            k * q + k + t,
        )
        self._gaps = gaps = passes.kept.left_out(slice(0, n)) if passes.has_missing else None
        # After the base level, a missing one has a place of its own.
        place = placed.level
        if gaps is not None:
            place = np.where(gaps[:, self._factor] > 0.0, n_levels + 1, place)
        self._order = np.argsort(place, kind="stable").astype(np.int32)
        self._starts = np.searchsorted(place, np.arange(n_levels + 2), sorter=self._order)
        Z = np.empty((n, q + 1))
        np.divide(placed.rest - passes.free_mean[columns], passes.free_scale[columns], out=Z[:, :q])
        Z[:, q] = 1.0
        if gaps is not None:
            Z[:, :q][gaps[:, passes.free_factors[columns]] > 0.0] = 0.0
        self._Z = Z
        self._gaps_filled = self._tied_gaps = np.zeros((n, 0))
        #: Columns of the rest, standardised, that lack cells.
        self._lacking = np.zeros(0, dtype=np.int64)
        if gaps is not None:
            lacks = gaps[:, passes.free_factors[columns]]
            self._lacking = np.flatnonzero(lacks.any(axis=0))
            self._gaps_filled = lacks[:, self._lacking]
            self._tied_gaps = gaps[:, passes.factors[passes.tied]]
        free, tied = np.flatnonzero(passes.free)[columns], np.flatnonzero(passes.tied)[:t]
        index = np.concatenate([free, tied])
        self._index, self._factors = index, passes.factors[index]
        self._products = passes.scale[index] * passes.scale[index][:, None]
        ties = np.arange(self._rest.size)[self._rest.tied]
        places = [np.append(own[:-1], ties) for own in self._rest.own]
        self._places = [np.ix_(place, place) for place in places]
        self._own_places = [np.ix_(own, own) for own in self._rest.own]
        self._matrices: dict[int, Any] = {}
        self._scale = passes.free_scale[levels]
        self._shift = passes.free_mean[levels] / self._scale

    @classmethod
    def of(cls, objective: TradeoffObjective) -> ByLevels:
        """Return the same; objectives at other λ and l2 have the rows in common."""
        known: ByLevels | None = objective.passes.__dict__.get("_by_levels")
        if known is None:
            known = objective.passes.__dict__["_by_levels"] = cls(objective)
        found = copy.copy(known)
        found.objective = objective
        return found

    def inverse(self, theta: Floats) -> Callable[[Floats], Floats] | None:
        """Return v ↦ H⁻¹v; None where that is not to be had so, as H may not be definite."""
        try:
            return self._inverse(theta)
        except np.linalg.LinAlgError:
            return None

    def _inverse(self, theta: Floats) -> Callable[[Floats], Floats] | None:
        """Return the same; an error where a part of it is not definite."""
        objective, rest, levels = self.objective, self._rest, self.levels
        passes, lam = objective.passes, objective.tradeoff
        k, p, n_levels = passes.n_classes, passes.n_free, levels.size
        blocks, B, C, M, Q, lost = self._of_rows(theta)
        for part in (blocks, B, C, M, Q, lost):
            part *= 1.0 - lam
        blocks /= self._scale[:, None, None] ** 2
        B /= self._scale[:, None, None]
        penalty = (1.0 - lam) * objective.penalty * (np.eye(k) - 1.0 / k)
        blocks += penalty
        q = rest.columns.size
        own = C[: k * q, : k * q].reshape(k, q, k, q)
        diagonal = np.arange(q)
        own[:, diagonal, :, diagonal] += penalty
        vector = np.tile(self._shift, (k, 1))  # what a row has of levels where it has none
        if lam > 0.0:
            weight, gradient, spread = self._joint(theta)
            if passes.has_missing:
                weight += lost - passes.missing_counts
            at = passes.at(theta)
            vector = at.slope[:, passes.free][:, levels] + self._shift
            mine = weight[:, self._factor]
            blocks[:, np.arange(k), np.arange(k)] += mine * (vector / self._scale).T
            M += spread - np.diag(mine)
            Q += spread @ gradient
            C += gradient.T @ spread @ gradient
            self._add_partition(C, at.natural, weight)
        size = max((float(np.trace(C)) + float(np.trace(blocks.sum(axis=0)))), 1e-300)
        size /= passes.n_parameters
        C[rest.offsets, rest.offsets] += size / k
        if lam == 0.0:  # what all classes have in common changes nothing
            blocks += size / k
            own[:, diagonal, :, diagonal] += size / k
            tied = np.arange(rest.size)[rest.tied]
            C[tied, tied] += size
        # Levels, class after class: D + U M U', U the classes' vectors, and B + U Q.
        roots = np.linalg.inv(np.linalg.cholesky(blocks))
        U = vector.T[:, :, None] * np.eye(k)
        halved = (roots @ np.concatenate([B, U], axis=2)).reshape(k * n_levels, -1)
        YB, YU = halved[:, : rest.size], halved[:, rest.size :]
        inner = np.eye(k) + M @ (YU.T @ YU)
        if np.linalg.eigvals(inner).real.min() < 1e-10:
            return None
        N = np.linalg.solve(inner, M)
        # B + U Q, with D^-½ before it, and what A⁻¹ has less than D⁻¹.
        YB += YU @ Q
        P = YU.T @ YB
        C -= YB.T @ YB - P.T @ (N @ P)
        if not np.isfinite(C).all() or (
            passes.has_missing and lam > 0.0 and scipy.linalg.lapack.dpotrf(C, lower=1)[1]
        ):
            return None
        factor = factorise(C)

        def inverted(v: Floats) -> Floats:
            weights, offsets, tied = objective.split(v)
            of_levels = weights[:, levels].T + self._shift[:, None] * offsets
            half = (roots @ of_levels[:, :, None]).reshape(-1)
            half -= YU @ (N @ (YU.T @ half))
            of_rest = np.concatenate([weights[:, rest.columns].ravel(), offsets, tied])
            found = solve(factor, of_rest - YB.T @ half)
            half -= YB @ found - YU @ (N @ (P @ found))
            solved = (half.reshape(n_levels, 1, k) @ roots)[:, 0].T
            out = np.empty((k, p))
            out[:, levels] = solved
            out[:, rest.columns] = found[: k * q].reshape(k, q)
            moved = found[rest.offsets] + solved @ self._shift
            return objective.join(out, moved, found[rest.tied])

        return inverted

    def _of_rows(self, theta: Floats) -> tuple[Floats, ...]:
        """Return Σ w J'(diag τ - ττ')J, and Σ w τ of missing factors, (K, m).

        Of the first: a level's, (L, K, K), that between it and the rest, (L, K, r), the rest's,
        (r, r), and the first two of the rows that lack the column, (K, K) and (K, r).
        """
        passes, rest = self.objective.passes, self._rest
        k, q, n_levels = passes.n_classes, rest.columns.size, self.levels.size
        posterior = log_normalise(self._scores(theta))[1]
        weights = passes.rows.block_weights(slice(0, passes.rows.n_samples))
        weighed = posterior if weights is None else posterior * weights[:, None]
        spread = weighed * others(posterior)
        designs = list(self._designs(theta))
        alike = len(designs) == 1
        designs *= k if alike else 1
        # √w τ_k Z_k of all classes; of two √(w τ(1-τ)) Z_k, whose own products are of use as well.
        roots = posterior if weights is None else posterior * np.sqrt(weights)[:, None]
        two = k == 2
        if two:
            roots = np.sqrt(spread)
        every = np.empty((len(posterior), k * (q + 1)))
        every[:, k * q :] = roots
        for c, (Z, _) in enumerate(designs):
            np.multiply(Z[:, :q], roots[:, c, None], out=every[:, c * q : c * q + q])
        C, B = np.zeros((rest.size, rest.size)), np.zeros((n_levels + 2, k, rest.size))
        product = every.T @ every
        C[: k * (q + 1), : k * (q + 1)] = -product
        for c, (Z, tied) in enumerate(designs):
            own, place = rest.own[c], self._own_places[c]
            if two:
                C[place] = product[place]
                B[:, c, own] = self._sums(spread[:, :1], Z)[:, 0]
                B[:, 1 - c, own] = -B[:, c, own]
            else:
                values = weighed * -posterior[:, c, None]
                values[:, c] = spread[:, c]
                B[:, :, own] = self._sums(values, Z)
                C[place] = Z.T @ (Z * spread[:, c, None])
            if not alike and passes.n_tied:
                mean = np.einsum("nk,knt->nt", posterior, [each for _, each in designs])
                gap = (tied - mean) * weighed[:, c, None]
                C[own, rest.tied] = Z.T @ gap
                C[rest.tied, own] = C[own, rest.tied].T
                C[rest.tied, rest.tied] += tied.T @ gap
                B[:, c, rest.tied] = self._sums(np.ones((len(gap), 1)), gap)[:, 0]
        blocks = B[:, :, rest.offsets].copy()
        lost = np.zeros((k, 0)) if self._gaps is None else weighed.T @ self._gaps
        return blocks[:n_levels], B[:n_levels], C, blocks[-1], B[-1], lost

    def _scores(self, theta: Floats) -> Floats:
        """Return the scores of all rows, up to a term common to the classes."""
        passes = self.objective.passes
        placed = passes.kept.placed
        assert placed is not None
        slopes, offset, absent = passes.row_coefficients(theta)
        of_levels = np.zeros((self.levels.size + 1, passes.n_classes))
        of_levels[:-1] = slopes[:, self.levels].T
        scores = of_levels[placed.level]
        scores += placed.rest @ slopes[:, self._rest.columns].T
        scores += offset
        if absent is not None and self._gaps is not None:
            scores += self._gaps @ absent.T
        return scores

    def _sums(self, values: Floats, design: Floats) -> Floats:
        """Return Σ value_k · design over the rows of each level, of the base and of none.

        Shapes: values (n, v); design (n, d); → (L + 2, v, d).
        """
        v = values.shape[1]
        rows = self._rows_of_levels(v)
        rows.data = values[self._order].T.ravel()
        by_level: Floats = (rows @ design).reshape(v, -1, design.shape[1]).transpose(1, 0, 2)
        return by_level

    def _rows_of_levels(self, v: int) -> Any:
        """Return which rows each level has, v times: a matrix for as many values to be put in."""
        if v not in self._matrices:
            n = self._order.size
            ends = np.append((self._starts + n * np.arange(v)[:, None]).ravel(), n * v)
            cells = np.ones(n * v), np.tile(self._order, v), ends.astype(np.int32)
            self._matrices[v] = scipy.sparse.csr_array(cells, (ends.size - 1, n))
        return self._matrices[v]

    def _designs(self, theta: Floats) -> Iterator[tuple[Floats, Floats]]:
        """Yield (T̃, 1) of the other columns and the tied ones by class; once if all are alike."""
        passes, columns, Z = self.objective.passes, self._rest.columns, self._Z
        none = np.zeros((len(Z), passes.n_tied))
        if self._gaps is None or passes.at_mean:
            yield Z, none
            return
        slope, lacking = passes.absent(theta)[1], self._lacking
        free = slope[:, passes.free][:, columns[lacking]]
        for c in range(passes.n_classes):
            each = Z.copy()
            each[:, lacking] += self._gaps_filled * free[c]
            tied = self._tied_gaps * slope[c, passes.tied]
            yield each, tied if passes.n_tied else none

    def _joint(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the joint part's weights of ∇²A_f(η_k), ∇(c_k + A(η_k)) in the rest, and its own.

        Shapes: (K, m), (K, r), (K, K).
        """
        objective, rest = self.objective, self._rest
        passes, lam = objective.passes, objective.tradeoff
        k = passes.n_classes
        at = passes.at(theta)
        log_terms = passes.split(theta)[1] + at.partition.sum(axis=1)
        share = np.exp(log_terms - np.logaddexp.reduce(log_terms))
        total = lam * passes.total
        weight = total * share[:, None] + lam * objective.bound.prior_counts
        gradient = np.zeros((k, rest.size))
        for c in range(k):
            gradient[c, rest.own[c]] = np.append(at.slope[c, passes.free][rest.columns], 1.0)
        gradient[:, rest.tied] = at.slope[:, passes.tied][:, : passes.n_tied]
        return weight, gradient, total * (np.diag(share) - np.outer(share, share))

    def _add_partition(self, C: Floats, natural: Floats, weight: Floats) -> None:
        """Add Σ_kf weight_kf ∇²A_f(η_k) of the rest to C."""
        inner = self.objective.density.some_hessian(natural, self._index)
        inner /= self._products
        inner *= weight[:, self._factors, None]  # zero where factors differ
        for place, own in zip(self._places, inner, strict=True):
            C[place] += own
