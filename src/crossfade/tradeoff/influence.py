"""How far each row moves a fit at any λ, and a pool of such fits: what standard errors are made of.

A member of a pool solves Σ_i w_i ψ_i(θ) = 0 with ψ_i the gradient of a row's part of Φ_λ; its
weights solve an equation of theirs, in which the members' scores out of fold stand. Stacked, both
give each row's influence on the pool's parameters. Where a prior is some share of the rows (a
covariance's shrinkage), it moves with them, and so has a part in ψ_i.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg

from crossfade._typing import Floats, Integers
from crossfade.densities.base import Density
from crossfade.densities.filling import STEP
from crossfade.inference.sandwich import PosteriorCovariance, covariance_of_total
from crossfade.optim.newton import factorise
from crossfade.table.documents import n_cells
from crossfade.tradeoff.bound_rows import by_factor
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
    log_normalise,
)
from crossfade.tradeoff.objective import Parameters, TradeoffObjective
from crossfade.tradeoff.pooling import LogarithmicLoss
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


@dataclass(frozen=True, eq=False)
class WeightEquations:
    """What the weights of a pool came from.

    `index` (n_scored,): Which rows were scored out of fold.
    `loss`: Of the members with weight.
    """

    index: Integers
    loss: LogarithmicLoss


@dataclass(frozen=True, eq=False)
class StackedFits:
    """Fits, the rows that they were fitted to, and what weighs them.

    `groups` (n_samples,): Rows that belong together.
    `weighing`: None where weights were given.
    `has_absent`: Whether what missing factors add are parameters of their own.
    """

    members: tuple[FittedMember, ...]
    groups: Integers | None = None
    weighing: WeightEquations | None = None
    has_absent: bool = False

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
        return StackedFits(tuple(members), groups, has_absent=self.has_absent)

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

    def covariance(self) -> PosteriorCovariance:
        """Return the sandwich H⁻¹ J H⁻¹ of what a posterior follows from."""
        if self.rows.n_samples and self.members[0].objective.density.reads_words:
            return self._afresh()._covariance()  # what is formed of words' counts is large
        return self._covariance()

    def _afresh(self) -> StackedFits:
        """Return the same without what its passes have formed, and will form."""
        members = []
        for one in self.members:
            passes = one.objective.passes.over(one.objective.rows)
            members.append(replace(one, objective=replace(one.objective, passes=passes)))
        return replace(self, members=tuple(members))

    def _covariance(self) -> PosteriorCovariance:
        rows, passes = self.rows, self.members[0].objective.passes
        n_pool, towards = self._n_of_pool, self._towards()
        gradients = [row_gradients(one.objective, one.theta) for one in self.members]
        of_others = [
            (unlabelled_gradients(one.objective, one.theta), to)
            for one, to in zip(self.members, towards, strict=True)
            if one.objective.unlabelled is not None
        ]
        of_weights = None if self.weighing is None else self._of_weights(self.weighing)
        size, factors, others = self.n_influences, rows.class_factors, self.others
        of_filling = self._of_filling(towards)
        of_shares = np.diag(1.0 / np.maximum(rows.class_weights, 1e-300)) - 1.0 / passes.total

        def of_labelled(span: slice) -> tuple[Floats, Floats]:
            codes = rows.codes[span]
            u = np.zeros((codes.size, size))
            for gradient, to in zip(gradients, towards, strict=True):
                u[:, :n_pool] += gradient(span) @ to
            if of_weights is not None:
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

        def influences(span: slice) -> tuple[Floats, Floats]:
            n = rows.n_samples
            if span.stop <= n:
                return of_labelled(span)
            assert others is not None
            own = slice(max(span.start - n, 0), span.stop - n)
            u, w = np.zeros((own.stop - own.start, size)), others.often[own]
            for gradient, to in of_others:
                u[:, :n_pool] += gradient(own) @ to
            u += of_filling(slice(own.start + n, own.stop + n))
            if span.start >= n:
                return u, w
            both = zip(of_labelled(slice(span.start, n)), (u, w), strict=True)
            u, w = (np.concatenate(pair) for pair in both)
            return u, w

        groups, n_others = self.groups, 0 if others is None else others.X.shape[0]
        if groups is not None and others is not None and others.groups is not None:
            groups = np.concatenate([groups, others.groups])
        width = max(size, *(len(to) for to in towards))
        found, n_rows = covariance_of_total(
            influences,
            rows.n_samples + n_others,
            groups,
            block_rows=max(16, min(passes.block_rows, _BLOCK_DOUBLES // width)),
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
        )

    def _towards(self) -> list[Floats]:
        """Return what a row's gradient of each member is multiplied with for its influence."""
        found = []
        weights = self._weight_slopes()
        for number, one in enumerate(self.members):
            to_pool = one.weight * to_natural(one.objective, one.theta, self.has_absent)
            if weights is not None:
                to_pool = to_pool + weights[0][number].T @ weights[1]
            H = curvature(one.objective, one.theta)
            found.append(-scipy.linalg.cho_solve(factorise(H), to_pool, check_finite=False))
        return found

    def _of_filling(self, towards: Sequence[Floats]) -> Callable[[slice], Floats | float]:
        """Return what rows add to influences by way of what missing cells are filled by.

        `towards`: Of each member, as of its rows' gradients.
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
        slopes = filling_slopes([(one.objective, one.theta) for one in self.members])
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

    def _of_weights(self, weighing: WeightEquations) -> Floats:
        """Return what each row's own loss adds to its influence, by way of the weights."""
        slopes = self._weight_slopes()
        assert slopes is not None
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
) -> StackedFits | None:
    """Return what standard errors need: a copy of the rows, none where those are many.

    Takes copied: Whether rows with words are a copy already, as compact ones are.

    None where there are none: of rows without a label whose cells are filled in for the fit alone,
    so that EM's equations have no likelihood.
    """
    density, rows = members[0].objective.density, members[0].objective.rows
    counted = any(one.objective.unlabelled is not None for one in members)
    if counted and density.filled and not density.fills_statistics.any():
        return None
    found = StackedFits(tuple(members), groups, weighing, has_absent)
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


def _n_spread_factors(density: Density) -> int:
    return density.spread_factors(np.zeros((1, density.n_factors))).shape[1]


def to_natural(objective: TradeoffObjective, theta: Floats, has_absent: bool = False) -> Floats:
    """Return d(natural parameters by class, offsets, a scale, absent terms)/dθ.

    Of words that is once A is zero where it is counted by words, and of all words there are. What a
    missing factor adds is A_f(η_k), or η_kf·mean_f, the mean being given.

    Shapes: → (n_parameters, K (p + 1) + 1), and K n_factors more where there are absent terms.
    """
    passes, density = objective.passes, objective.density
    k, n_free = passes.n_classes, passes.n_free
    free, tied = np.flatnonzero(passes.free), np.flatnonzero(passes.tied)
    by_word = np.flatnonzero(density.word_factors & (objective.tradeoff > 0.0))
    mean = density.mean(passes.natural(theta)) if by_word.size else np.zeros((k, passes.tied.size))
    blocks, offsets = [], np.zeros((passes.n_parameters, k))
    absent: list[Floats] = []
    slopes = np.tile(passes.mean, (k, 1))
    if has_absent and objective.tradeoff > 0.0:
        slopes = density.mean(passes.natural(theta)) * ~density.word_factors[passes.factors]
    for c in range(k):
        block = np.zeros((passes.n_parameters, passes.tied.size))
        block[c * n_free + np.arange(n_free), free] = 1.0 / passes.free_scale
        if passes.n_tied:
            block[k * n_free + k + np.arange(tied.size), tied] = 1.0 / passes.scale[tied]
        offsets[:, c] -= block @ passes.mean
        offsets[k * n_free + c, c] += 1.0
        if has_absent:
            added = by_factor(block * slopes[c], passes.factors, density.n_factors)
            absent.append(density.spread_factors(added))
        for factor in by_word:
            own = np.flatnonzero(passes.factors == factor)
            moved = block[:, own] @ mean[c, own]
            block[:, own] -= moved[:, None]
            offsets[:, c] += moved
        blocks.append(density.spread(block)[1])
    return np.hstack([*blocks, offsets, np.zeros((len(offsets), 1)), *absent])


def score_gradients(
    density: Density, optimum: Parameters, to_offsets: Floats, n_classes: int, pool_scale: float
) -> Callable[[Floats], Floats]:
    """Return what gives the gradients of class scores in what a posterior follows from.

    A mixture's score is log Σ_r exp(s_r) over its states' scores s_r, which are linear in what they
    follow from. `to_offsets` (n_states, q): Their gradients but for a row's statistics.

    Shapes: rows (n_rows, n_features) → (n_rows, n_classes, q).
    """
    natural = optimum.natural
    k, p = natural.shape
    scale_at = k * (p + 1)
    partition = density.log_partition(natural)
    is_density = bool(np.isfinite(partition).all()) and optimum.absent is None
    at = density.filling
    n_filling = at.size if density.fills_statistics.any() else 0

    def block(X: Floats) -> Floats:
        found = np.tile(to_offsets, (len(X), 1, 1))
        if is_density:
            changes = density.expected_statistics(X, natural)
        else:
            changes = np.repeat(density.sufficient_statistics(X)[:, None], k, axis=1)
        missing = density.missing_factors(X)
        if optimum.absent is not None and missing is not None:
            changes[np.broadcast_to(missing[:, None, density.factors], changes.shape)] = 0.0
            for c in range(k):
                found[:, c, scale_at + 1 + c * missing.shape[1] :][:, : missing.shape[1]] = missing
        elif is_density and missing is not None:
            # S·A(β/S): the scale S moves what a missing factor adds, too.
            bent = partition - np.stack(
                [np.bincount(density.factors, row, minlength=density.n_factors)
                 for row in density.mean(natural) * natural]
            )  # fmt: skip
            found[:, :, scale_at] += missing.astype(np.float64) @ bent.T
        for c in range(k):
            found[:, c, c * p : c * p + p] += changes[:, c]
        gone = np.flatnonzero(np.isnan(X).any(axis=1)) if n_filling else np.zeros(0, np.int64)
        for j, step in enumerate(STEP * np.eye(n_filling) if gone.size else ()):
            ends = (density.filled_cells(X[gone], at + sign * step) for sign in (1.0, -1.0))
            change = np.subtract(*(density.scores(one, natural) for one in ends))
            found[gone, :, found.shape[2] - n_filling + j] = pool_scale * change / (2.0 * STEP)
        if k == n_classes:
            return found
        scores = density.scores(X, natural) + optimum.offset
        shares = log_normalise(scores)[1].reshape(len(X), n_classes, -1)
        shares /= np.maximum(shares.sum(axis=2, keepdims=True), 1e-300)
        found = found.reshape(*shares.shape, -1)
        return np.asarray(np.einsum("nkr,nkrq->nkq", shares, found))

    return block
