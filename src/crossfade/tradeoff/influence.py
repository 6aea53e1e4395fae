"""How far each row moves a fit at any λ, and a pool of such fits: what standard errors are made of.

A member of a pool solves Σ_i w_i ψ_i(θ) = 0 with ψ_i the gradient of a row's part of Φ_λ; its
weights solve an equation of theirs, in which the members' scores out of fold stand. Stacked, both
give each row's influence on the pool's parameters. Where a prior is some share of the rows (a
covariance's shrinkage), it moves with them, and so has a part in ψ_i.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from crossfade._typing import Floats, Integers
from crossfade.blocks import block_sum
from crossfade.densities.base import Density
from crossfade.inference.sandwich import PosteriorCovariance, covariance_of_total
from crossfade.optim.newton import factorise
from crossfade.table.documents import n_cells
from crossfade.tradeoff.estimating import (
    curvature,
    filling_slopes,
    row_gradients,
    unlabelled_gradients,
)
from crossfade.tradeoff.labelled_rows import (
    MOST_ROWS,
    LabelledRows,
    OtherRows,
    drawn_by_class,
)
from crossfade.tradeoff.leverage import without_itself
from crossfade.tradeoff.limit import moves_of_limit, settled
from crossfade.tradeoff.mixture import MixtureObjective
from crossfade.tradeoff.objective import Parameters, TradeoffObjective
from crossfade.tradeoff.pooling import LogarithmicLoss
from crossfade.tradeoff.score_slopes import to_natural
from crossfade.tradeoff.separation import is_separated
from crossfade.tradeoff.source_rows import SourceRows

#: Parameters up to which standard errors go into a file unasked (.7 MB), and rows times squared
#: parameters up to which they are computed for it: a second or so.
_MOST_PARAMETERS = 300
_MOST_WORK = 4_000_000_000

#: How many parameters' work a number is that cells are filled by: its derivative fills them anew.
_OF_FILLING = 24

#: Parameters whose covariance is computed when it is asked for: 72 MB.
MOST_ASKED_FOR = 3_000

#: Cells that are copied for them: 16 MB.
_MOST_CELLS = 2_097_152

#: Doubles of a block's gradients: 4 MB.
_BLOCK_DOUBLES = 524_288

#: From a block of rows to gradients; to influences, and how often each counts.
_Blocks = Callable[[slice], Floats]
_Influences = Callable[[slice], tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class FittedMember:
    """One fit: its objective on its rows, its optimum, its weight in the pool.

    `found`: The optimum, as parameters or as their vector, which is made when asked for.
    """

    objective: TradeoffObjective
    found: Floats | Parameters
    weight: float = 1.0

    @cached_property
    def theta(self) -> Floats:
        """The parameter vector."""
        found = self.found
        return self.objective.theta(found) if isinstance(found, Parameters) else found

    def as_counted(self) -> FittedMember:
        """Return the same; without unlabelled rows at λ = 0, which has no part of them."""
        objective = self.objective
        if objective.tradeoff > 0.0 or not objective.exact_labels:
            return self
        return replace(self, objective=objective.with_unlabelled(None))

    def curvature(self) -> Floats:
        """Return the Hessian; LinAlgError where two components of a mixture are equal."""
        H = curvature(self.objective, self.theta)
        if isinstance(self.objective, MixtureObjective):
            self.objective.check_identified(H)
        return H


@dataclass(frozen=True, eq=False)
class WeightEquations:
    """What the weights of a pool came from.

    `index` (n_scored,): Which rows were scored out of fold.
    `loss`: Of the members with weight.
    """

    index: Integers
    loss: LogarithmicLoss


class OpenDensities(NamedTuple):
    """The joint likelihood that settles what λ = 0 leaves open of a pool, and the pool."""

    objective: TradeoffObjective
    parameters: Parameters

    @classmethod
    def of(cls, objective: TradeoffObjective, parameters: Parameters) -> OpenDensities | None:
        """Return them; None of mixtures, of which the joint likelihood is at no maximum."""
        if isinstance(objective, MixtureObjective):
            return None
        return cls(objective.with_unlabelled(None).with_tradeoff(1.0), parameters)


@dataclass(frozen=True, eq=False)
class StackedFits:
    """Fits, the rows that they were fitted to, and what weighs them.

    `groups` (n_samples,): Rows that belong together.
    `weighing`: None where weights were given.
    `has_absent`: Whether what missing factors add are parameters of their own.
    `open`: Where rows with missing cells have the densities of a limit.
    """

    members: tuple[FittedMember, ...]
    groups: Integers | None = None
    weighing: WeightEquations | None = None
    has_absent: bool = False
    open: OpenDensities | None = None

    @property
    def rows(self) -> LabelledRows:
        """The rows."""
        return self.members[0].objective.rows

    @property
    def n_influences(self) -> int:
        """What a posterior follows from: the pool's, log-shares, what cells are filled by."""
        return self._n_of_pool + self.rows.n_classes + self._filling.size

    @property
    def _n_of_pool(self) -> int:
        """States' parameters and offsets, the scale, and what missing factors add to states."""
        density, states = self.members[0].objective.density, self._n_states
        absent = states * _n_spread_factors(density) if self.has_absent else 0
        return states * (density.n_spread + 1) + 1 + absent

    @property
    def _n_states(self) -> int:
        return self.members[0].objective.passes.n_classes

    @property
    def _filling(self) -> Floats:
        return self.members[0].objective.density.filling

    @property
    def is_quick(self) -> bool:
        """Whether the covariance is small, and computed in a second or so."""
        q = self.n_influences
        n_rows = self.rows.n_samples + (0 if self.others is None else self.others.X.shape[0])
        work = n_rows * q * (q + _OF_FILLING * self._filling.size) * len(self.members)
        return q <= _MOST_PARAMETERS and work <= _MOST_WORK

    @property
    def others(self) -> OtherRows | None:
        """Rows without a label, None where they have no part in any member, nor in filled cells."""
        counted = any(one.objective.unlabelled is not None for one in self.members)
        counted = counted or self._filling.size > 0
        return self.rows.unlabelled if counted else None

    def over(self, rows: LabelledRows, groups: Integers | None = None) -> StackedFits:
        """Return the same fits with other rows; the weights of a pool are then given ones."""
        members = []
        for one in self.members:
            objective, others = one.objective, one.objective.unlabelled
            own = replace(rows, has_missing=objective.rows.has_missing)
            if others is not None and rows.unlabelled is not None:
                others = others.over(rows.unlabelled)
            objective = replace(objective, passes=objective.passes.over(own), unlabelled=others)
            members.append(replace(one, objective=objective))
        left = self.open
        if left is not None:
            passes = left.objective.passes.over(members[0].objective.rows)
            left = left._replace(objective=replace(left.objective, passes=passes))
        return StackedFits(tuple(members), groups, has_absent=self.has_absent, open=left)

    def of_some(
        self, some: LabelledRows, groups: Integers | None, every: SourceRows
    ) -> StackedFits:
        """Return the same fits with some of the rows, weighed to stand for all.

        As they are where part of a group, or of what cells are filled by, would be missing.
        """
        if n_cells(some.X) > _MOST_CELLS:
            some, groups = drawn_by_class(some, groups, MOST_ROWS)
        whole = some.n_samples == every.n_samples
        whole = whole or (groups is None and not self._filling.size)
        if not whole or self.n_influences > MOST_ASKED_FOR:
            return self
        each = every.class_weights / np.maximum(some.class_weights, 1e-300)
        weights = np.ones(some.n_samples) if some.weights is None else some.weights
        weights = weights * each[some.codes]
        return self.over(replace(some, weights=weights), groups)

    def covariance(self, kind: str = "HC3") -> PosteriorCovariance:
        """Return the sandwich H⁻¹ J H⁻¹ of what a posterior follows from.

        `kind`: "HC3" divides a row's gradient by one less its leverage, "HC0" does not.
        """
        if self.rows.n_samples and self.members[0].objective.density.reads_words:
            return self._afresh()._covariance(kind)  # what is formed of words' counts is large
        return self._covariance(kind)

    def _afresh(self) -> StackedFits:
        """Return the same without what its passes have formed, and will form."""
        members = []
        for one in self.members:
            passes = one.objective.passes.over(one.objective.rows)
            members.append(replace(one, objective=replace(one.objective, passes=passes)))
        return replace(self, members=tuple(members))

    def _covariance(self, kind: str) -> PosteriorCovariance:
        rows, others, groups = self.rows, self.others, self.groups
        limit = None if self.open is None else settled(*self.open)
        fits = list(self.members)
        if self.open is not None and limit is not None:
            fits.append(FittedMember(self.open.objective, limit))
        curvatures = [one.curvature() for one in fits]
        factored = [factorise(H) for H in curvatures]
        weights = self._weight_slopes()
        towards = self._towards(factored, weights)
        of_weights = self._of_weights(weights)
        if self.open is not None and limit is not None:
            natural = to_natural(self.open.objective, limit)
            by_pool, own = moves_of_limit(*self.open, limit, curvatures[-1], natural)
            towards = [to @ by_pool for to in towards]
            towards.append(sum(one.weight for one in self.members) * own)
            of_weights = of_weights @ by_pool
        over = self._influences(fits, towards, of_weights)
        gradients = [row_gradients(one.objective, one.theta) for one in fits]
        counted: list[_Blocks] = [*gradients]
        n = rows.n_samples + (0 if others is None else others.X.shape[0])
        width = max(self.n_influences, *(len(to) for to in towards))
        most = self.members[0].objective.passes.block_rows
        block_rows = max(16, min(most, _BLOCK_DOUBLES // width))
        around = None
        if kind == "HC3":
            # Gradients sum to what penalty and prior pull, of which each row has its part.
            around = self._mean_influence(over([]), gradients, towards, n, block_rows)
            each = zip(fits, factored, gradients, strict=True)
            counted = [
                without_itself(one.objective, one.theta, _inverse(factor), gradient, groups)
                for one, factor, gradient in each
            ]
        if groups is not None and others is not None and others.groups is not None:
            groups = np.concatenate([groups, others.groups])
        found, n_rows = covariance_of_total(
            over(counted), n, groups, block_rows=block_rows, around=around
        )
        if any(is_separated(one.objective, one.theta) for one in self.members):
            found = np.full_like(found, np.nan)  # the larger the parameters, the better
        pooled = len(self.members) > 1 or self.weighing is not None
        return PosteriorCovariance(
            found,
            n_rows,
            None if groups is None else int(np.unique(groups).size),
            self.weighing is not None if pooled else None,
            0.0 if others is None else float(others.often.sum()),
            kind,
            limit is not None,
        )

    def _mean_influence(
        self,
        rest: _Influences,
        gradients: Sequence[Callable[..., Floats]],
        towards: Sequence[Floats],
        n: int,
        block_rows: int,
    ) -> Floats:
        """Return the mean influence, `rest` being what gradients have no part in."""

        def of_rest(span: slice) -> tuple[Floats, float]:
            u, w = rest(span)
            return w @ u, float(w.sum())

        def of_gradients(span: slice) -> tuple[Floats, ...]:
            weights = self.rows.block_weights(span)
            w = np.ones(self.rows.codes[span].size) if weights is None else weights
            return tuple(gradient(span, w[None])[0] for gradient in gradients)

        found, weight = block_sum(of_rest, n, block_rows=block_rows)
        sums = block_sum(of_gradients, self.rows.n_samples, block_rows=block_rows)
        for total, to in zip(sums, towards, strict=True):
            found[: to.shape[1]] += total @ to
        return np.asarray(found / weight)

    def _influences(
        self, fits: Sequence[FittedMember], towards: Sequence[Floats], of_weights: Floats
    ) -> Callable[[Sequence[_Blocks]], _Influences]:
        """Return what makes influences, and how often they count, of fits' row gradients."""
        rows, passes, n_pool = self.rows, self.members[0].objective.passes, self._n_of_pool
        of_others = [
            (unlabelled_gradients(one.objective, one.theta), to)
            for one, to in zip(fits, towards, strict=True)
            if one.objective.unlabelled is not None
        ]
        size, factors, others = self.n_influences, rows.class_factors, self.others
        of_filling = self._of_filling(fits, towards)
        of_shares = np.diag(1.0 / np.maximum(rows.class_weights, 1e-300)) - 1.0 / passes.total

        def of_labelled(gradients: Sequence[_Blocks], span: slice) -> tuple[Floats, Floats]:
            codes = rows.codes[span]
            u = np.zeros((codes.size, size))
            for gradient, to in zip(gradients, towards, strict=False):
                u[:, :n_pool] += gradient(span) @ to
            u[:, :n_pool] += of_weights[span]
            u[:, n_pool : n_pool + rows.n_classes] = of_shares[codes]
            u += of_filling(span)
            weights = rows.block_weights(span)
            w = np.ones(codes.size) if weights is None else np.asarray(weights, np.float64)
            if factors is not None:
                # A class's factor is no repetition of its rows.
                u *= factors[codes][:, None]
                w = w / factors[codes]
            return u, w

        def influences(gradients: Sequence[_Blocks], span: slice) -> tuple[Floats, Floats]:
            n = rows.n_samples
            if span.stop <= n:
                return of_labelled(gradients, span)
            assert others is not None
            own = slice(max(span.start - n, 0), span.stop - n)
            u, w = np.zeros((own.stop - own.start, size)), others.often[own]
            for gradient, to in of_others:
                u[:, :n_pool] += gradient(own) @ to
            u += of_filling(slice(own.start + n, own.stop + n))
            if span.start >= n:
                return u, w
            both = zip(of_labelled(gradients, slice(span.start, n)), (u, w), strict=True)
            u, w = (np.concatenate(pair) for pair in both)
            return u, w

        return lambda gradients: partial(influences, gradients)

    def _towards(
        self, factored: Sequence[Any], weights: tuple[list[Floats], Floats] | None
    ) -> list[Floats]:
        """Return what a row's gradient of each member is multiplied with for its influence."""
        found = []
        for number, (one, factor) in enumerate(zip(self.members, factored, strict=False)):
            to_pool = one.weight * to_natural(one.objective, one.theta, self.has_absent)
            if weights is not None:
                to_pool = to_pool + weights[0][number].T @ weights[1]
            found.append(-_solved(factor, to_pool))
        return found

    def _of_filling(
        self, fits: Sequence[FittedMember], towards: Sequence[Floats]
    ) -> Callable[[slice], Floats | float]:
        """Return what rows add to influences by way of what missing cells are filled by.

        `towards`: Of each fit, as of its rows' gradients.
        """
        number = self._filling.size
        if not number:
            return lambda span: 0.0
        X, weights = (
            self.rows.everything if self.others is not None else (self.rows.X, self.rows.weights)
        )
        weights = np.ones(len(X)) if weights is None else weights
        moved = self.members[0].objective.density.filling_influence(X, weights)
        to_all = np.zeros((number, self.n_influences))
        slopes = filling_slopes([(one.objective, one.theta) for one in fits])
        for slope, to in zip(slopes, towards, strict=True):
            to_all[:, : self._n_of_pool] += slope @ to
        to_all[:, -number:] = np.eye(number)
        return lambda span: moved[span] @ to_all

    def _weight_slopes(self) -> tuple[list[Floats], Floats] | None:
        """Return how members' parameters move the weights' equations, and those the pool."""
        if self.weighing is None:
            return None
        w = np.array([one.weight for one in self.members])
        loss = self.weighing.loss
        H = loss.model(w, loss.evaluate(w)[1])[1]
        directions = []
        for one in self.members:
            density, found = one.objective.spread(one.theta)
            absent = np.zeros(0)
            if self.has_absent:
                own = found.absent
                absent = density.log_partition(found.natural) if own is None else own
            direction = [found.natural.ravel(), found.offset, np.ones(1), absent.ravel()]
            directions.append(np.concatenate(direction))
        to_pool = -np.linalg.solve(H, np.array(directions))
        return self._score_slopes(self.weighing, w), to_pool

    def _score_slopes(self, weighing: WeightEquations, w: Floats) -> list[Floats]:
        """Return the derivatives of the weights' equations in each member's parameters.

        Shapes: → of each member (n_members, n_parameters).
        """
        loss, number = weighing.loss, len(self.members)
        tau = loss.evaluate(w)[1]
        gap = (tau - loss.labels) * loss.weights[:, None]
        spread = loss.scores - np.einsum("gnk,nk->gn", loss.scores, tau)[:, :, None]
        spread *= (tau * loss.weights[:, None])[None]
        found = []
        for g, one in enumerate(self.members):
            passes = one.objective.passes
            maps = passes.coefficient_maps(one.theta)
            at = passes.row_coefficients(one.theta)
            slopes = np.zeros((number, len(one.theta)))
            size = max(16, min(passes.block_rows, _BLOCK_DOUBLES // len(one.theta)))
            for start in range(0, weighing.index.size, size):
                part = slice(start, start + size)
                Z = passes.design(weighing.index[part], *at)[0]
                for h in range(number):
                    pull = w[g] * spread[h, part]
                    if h == g:
                        pull = pull + gap[part]
                    slopes[h] += np.einsum("kp,kpq->q", pull.T @ Z, maps)
            found.append(slopes)
        return found

    def _of_weights(self, slopes: tuple[list[Floats], Floats] | None) -> Floats:
        """Return what each row's own loss adds to its influence, by way of the weights."""
        weighing = self.weighing
        if weighing is None or slopes is None:
            return np.zeros((self.rows.n_samples, self._n_of_pool))
        loss, w = weighing.loss, np.array([one.weight for one in self.members])
        gap = loss.evaluate(w)[1] - loss.labels
        own = np.einsum("gnk,nk->ng", loss.scores, gap)
        weights = self.rows.weights
        ratio = loss.weights if weights is None else loss.weights / weights[weighing.index]
        added = np.zeros((self.rows.n_samples, slopes[1].shape[1]))
        # Rows that were not scored have no part in it; those that were stand for them, too.
        added[weighing.index] = (own * ratio[:, None]) @ slopes[1]
        return added


def stacked_fits(
    members: Sequence[FittedMember],
    groups: Integers | None = None,
    weighing: WeightEquations | None = None,
    *,
    copied: bool = True,
    has_absent: bool = False,
    open: OpenDensities | None = None,
) -> StackedFits | None:
    """Return what standard errors need: a copy of the rows, none where those are many.

    Takes copied: Whether rows with words are a copy already, as compact ones are.

    None where there are none: of rows without a label whose cells are filled in for the fit alone,
    so that EM's equations have no likelihood.
    """
    members = [one.as_counted() for one in members]
    density, rows = members[0].objective.density, members[0].objective.rows
    counted = any(one.objective.unlabelled is not None for one in members)
    if counted and density.filled and not density.fills_statistics.any():
        return None
    found = StackedFits(tuple(members), groups, weighing, has_absent, open)
    others = found.others
    cells = n_cells(rows.X) + (0 if others is None else n_cells(others.X))
    if weighing is not None:
        cells += weighing.loss.scores.size
    if not rows.is_part and cells <= _MOST_CELLS and found.n_influences <= MOST_ASKED_FOR:
        if density.reads_words and copied:
            for one in members:
                _ = one.objective.rows.X.contents  # which follow from what fit was given
            return found  # each member has its own, of the words that tell
        # The user may write into what fit was given. Statistics are formed anew when asked for:
        # here they would only take memory.
        weights = None if rows.weights is None else rows.weights.copy()
        if others is not None:
            given = None if others.weights is None else others.weights.copy()
            others = replace(others, X=others.X.copy(), weights=given)
        own = replace(rows, X=rows.X.copy(), weights=weights, unlabelled=others)
        return replace(found.over(own, groups), weighing=weighing)
    nothing = np.zeros((0, rows.X.shape[1]))
    rest = None if others is None else OtherRows(nothing, None)
    none = LabelledRows(nothing, np.zeros(0, np.int64), None, rows.n_classes, unlabelled=rest)
    return found.over(none)


def _inverse(factor: Any) -> Floats:
    return _solved(factor, np.eye(len(factor[0])))


def _solved(factor: Any, columns: Floats) -> Floats:
    found: Floats = scipy.linalg.cho_solve(factor, columns, check_finite=False)
    return found


def _n_spread_factors(density: Density) -> int:
    return density.spread_factors(np.zeros((1, density.n_factors))).shape[1]
