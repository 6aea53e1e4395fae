"""The objective between the joint and the conditional likelihood.

With natural parameters η_k, c_k = log p_k - A(η_k) and s_ik = η_k·T(x_i) + c_k (DESIGN's central
fact; Bouchard & Triggs 2004, equations 5-8), the function minimised here is

    Φ_λ = - Σ_i w_i s_{i,y_i} + λ n log Σ_k exp(c_k + A(η_k)) + (1-λ) Σ_i w_i log Σ_k exp(s_ik)
          - λ log prior(η) + (1-λ) l2/2 ‖W‖²

convex in (η, c) where no cell is missing. A missing factor's term η_f·T_f is replaced by A_f(η_f),
the logarithm of what leaving the factor out of the product amounts to; the function is then smooth
but no longer convex for 0 < λ < 1, and is followed down the path from λ = 1. At λ = 0, where rows
do not tell the densities, it is replaced by η_f·mean(T_f) instead: a logistic regression on T with
each missing statistic at its mean, convex again.

The solver sees statistics standardised to T̃ = (T - mean)/scale, so that neither the penalty nor
the conditioning depends on units. ‖W‖² is over the class weights centred over classes (the
direction common to all classes changes no posterior), doubled for two classes, which makes it the
squared difference of the two weight vectors: scikit-learn's penalty in both cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.blocks import block_sum
from crossfade.densities.base import Bound, Density
from crossfade.tradeoff.binding import SMALLEST_WITH_MISSING
from crossfade.tradeoff.bound_rows import by_factor
from crossfade.tradeoff.dense_curvature import dense_curvature
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.passes import RowPasses
from crossfade.tradeoff.unlabelled import Unlabelled


@dataclass(frozen=True)
class Parameters:
    """Parameters of a fitted model, in the statistics' own (not standardised) scale.

    `natural` (n_classes, n_statistics): η_k.
    `offset` (n_classes,): c_k = log p_k - A(η_k).
    `absent` (n_classes, n_factors) or None: What a missing factor adds to the posterior's scores;
        A_f(η_k) if None.
    """

    natural: Floats
    offset: Floats
    absent: Floats | None = None


class OwnTerms(NamedTuple):
    """What rows' own terms add up to, as a function of θ, and its gradient.

    `value`: Without what its gradient in A and in tied weights is multiplied by.
    `sums` (K, n_free), `mass` (K,): The gradient in W and c.
    `lost` (K, n_factors): In A, as of rows that lack a factor.
    `tied` (n_tied,): In V, as the joint likelihood has it.
    """

    value: float
    sums: Floats
    mass: Floats
    lost: Floats
    tied: Floats


def generative(bound: Bound, class_weights: Floats) -> tuple[Parameters, Floats]:
    """Return the maximiser of the (smoothed) joint likelihood, in closed form, and its A.

    Shapes: class_weights (n_classes,); → A (n_classes, n_factors).
    """
    eta, partition = bound.density.smoothed(bound)
    whole = partition.sum(axis=1)
    with np.errstate(divide="ignore"):
        log_prior = np.log(class_weights / class_weights.sum())
    # Without a density (words of complements) there is nothing to be taken off.
    return Parameters(eta, log_prior - np.where(np.isfinite(whole), whole, 0.0)), partition


@dataclass(frozen=True, eq=False)
class TradeoffObjective:
    """Φ_λ as a :class:`~crossfade.optim.solver.Problem` over standardised parameters.

    `passes`: The rows, the density bound to them, and the passes over them.
    `tradeoff`: λ in [0, 1].
    `l2`: Strength of the penalty on the discriminative weights.
    `unlabelled`: Rows without a label, which the value and its derivatives here leave out: a fit
        takes them in turns, as :meth:`completed` has them.

    A parameter vector holds, in this order, the free weights W (n_classes, n_free), the offsets c
    (n_classes,) and the tied weights V (n_tied,).
    """

    #: Whether a row's own term is linear in the parameters: one state per class.
    exact_labels: ClassVar[bool] = True

    passes: RowPasses
    tradeoff: float
    l2: float
    unlabelled: Unlabelled | None = field(default=None, kw_only=True)

    @classmethod
    def of(cls, rows: LabelledRows, bound: Bound, tradeoff: float, l2: float) -> Self:
        """Return the objective of rows and of the density bound to them."""
        return cls(RowPasses.of(rows, bound), 1.0, float(l2)).with_tradeoff(tradeoff)

    # -- the data --------------------------------------------------------------------------------

    @property
    def rows(self) -> LabelledRows:
        """Return the rows."""
        return self.passes.rows

    @property
    def bound(self) -> Bound:
        """Return the density with counts, sums and prior."""
        return self.passes.bound

    @property
    def density(self) -> Density:
        """Return the density."""
        return self.passes.density

    @property
    def has_missing(self) -> bool:
        """Return whether a factor's A is not counted once a row."""
        return self.passes.has_missing

    @property
    def has_gaps(self) -> bool:
        """Return whether a cell is missing of a factor that has a say."""
        return self.passes.has_gaps

    @property
    def n_rows(self) -> float:
        """Return the total weight of the rows."""
        return self.passes.total

    @property
    def content(self) -> tuple[Any, ...]:
        """Return all that the function depends on, λ apart."""
        rows, passes = self.rows, self.passes
        told = rows.X, rows.codes, rows.weights, rows.n_classes, rows.has_missing
        return type(self).__name__, told, passes.bound, passes.n_tied, self.l2, self.unlabelled

    # -- parameters ------------------------------------------------------------------------------

    @property
    def n_parameters(self) -> int:
        """Return the length of a parameter vector."""
        return self.passes.n_parameters

    def split(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return views of a parameter vector: W (K, n_free), c (K,), V (n_tied,)."""
        return self.passes.split(theta)

    @property
    def penalty(self) -> float:
        """Return the multiple of ½‖W‖², W centred over classes."""
        return self.l2 * (2.0 if self.rows.n_classes == 2 else 1.0)

    @property
    def _profile(self) -> Floats | float:
        """Return multiples of the penalty by free statistic."""
        if not self.passes.reads_words:
            return 1.0
        return self.density.penalty_profile[self.passes.free]

    @property
    def _penalises_words(self) -> bool:
        """Return whether the penalty is on what words weigh once A is zero."""
        return self.has_missing and self.tradeoff > 0.0 and self.passes.per_word

    def _centred(self, theta: Floats) -> Floats:
        """Return what is penalised, centred over classes, (n_classes, n_free).

        Of words that is their weights once A is zero: no other multiple of θ changes the density.
        """
        weights, passes = self.split(theta)[0], self.passes
        if self._penalises_words:
            weights = self.density.normalised(passes.at(theta).natural)[0] * passes.scale
            weights = weights[:, passes.free]
        return weights - weights.sum(axis=0) / len(weights)

    def _pull(self, centred: Floats) -> Floats:
        """Return the penalty's gradient in what is penalised."""
        return ((1.0 - self.tradeoff) * self.penalty * self._profile) * centred

    def _pulls_of_words(self, pull: Floats) -> Floats:
        """Return the sum of a gradient over each factor of words, (n_classes, n_factors)."""
        pulls = by_factor(pull, self.passes.free_factors, self.density.n_factors)
        return np.where(self.density.word_factors, pulls, 0.0)

    def with_tradeoff(self, tradeoff: float) -> Self:
        """Return the same objective at another λ; the data are shared."""
        lam, passes = self._attainable(tradeoff), self.passes
        if passes.per_word and not passes.has_gaps and passes.has_missing != (lam > 0.0):
            # At λ = 0 the words' own log-partition has no part: their weights are free.
            passes = replace(passes, has_missing=lam > 0.0)
        if (passes.has_gaps and lam == 0.0) != passes.at_mean:
            passes = passes.with_other_gaps
        return replace(self, tradeoff=lam, passes=passes)

    def with_penalty(self, l2: float) -> Self:
        """Return the same objective with another strength of the penalty; the data are shared."""
        return replace(self, l2=float(l2))

    def with_unlabelled(self, unlabelled: Unlabelled | None) -> Self:
        """Return the same objective with these rows without a label beside it."""
        return replace(self, unlabelled=unlabelled)

    def completed(self, theta: Floats) -> tuple[Self, float]:
        """Return Φ_λ with unlabelled rows as they are expected at θ, and what they add to Φ_λ(θ).

        What is returned lies nowhere lower than Φ_λ with the unlabelled rows' own term, but for a
        constant, and touches it at θ: to minimise the one is to lower the other.
        """
        assert self.unlabelled is not None
        natural, bound = self.parameters(theta).natural, self.bound
        likelihood, counts, sums = self.unlabelled.expected(self.density, natural)
        bound = replace(
            bound,
            prior_counts=bound.prior_counts + counts,
            prior_sums=bound.prior_sums + sums,
        )
        whole = replace(self, passes=replace(self.passes, bound=bound), unlabelled=None)
        return whole, -self.tradeoff * likelihood

    def without_tied(self) -> Self:
        """Return the function at λ = 0 without the tied parameters, which it does not depend on.

        Its parameter vectors are those of this objective cut off before the tied weights.
        """
        at_end = self.with_tradeoff(0.0)
        return replace(at_end, passes=at_end.passes.without_tied)

    def without_rows(self) -> Self:
        """Return the same objective without the rows: at λ = 1 it is a function of their sums."""
        none = self.rows.sampled(0.0).take(np.zeros(0, dtype=np.int64))
        return replace(self.with_tradeoff(1.0), passes=self.passes.over(none))

    def _attainable(self, tradeoff: float) -> float:
        """Return λ, or where cells are missing the smallest one that tells the densities."""
        if not self.has_gaps or tradeoff == 0.0:
            return float(tradeoff)
        return max(float(tradeoff), SMALLEST_WITH_MISSING)

    def sampled(self, share: float) -> Self:
        """Return the same function over an evenly spread share of the rows, scaled up to all."""
        rows = self.rows.sampled(share)
        up = self.passes.total / max(float(rows.class_weights.sum()), 1e-300)
        weights = np.full(rows.n_samples, up) if rows.weights is None else rows.weights * up
        rows = replace(rows, weights=weights)
        density, m = self.density, self.density.n_factors

        def block(span: slice) -> tuple[Floats, Floats]:
            X = rows.block(span)
            member = np.zeros((X.shape[0], self.passes.n_classes))
            member[np.arange(X.shape[0]), rows.codes[span]] = weights[span]
            counts = np.repeat(member.sum(axis=0)[:, None], m, axis=1)
            left_out = density.left_out(X) if self.has_missing else None
            if left_out is not None:
                counts -= member.T @ left_out
            return density.weighted_sums(X, member), counts

        sums, counts = block_sum(block, rows.n_samples)
        bound = replace(self.bound, counts=counts, sums=sums)
        passes = replace(RowPasses.of(rows, bound), n_tied=self.passes.n_tied, is_sample=True)
        return replace(self, passes=passes).with_tradeoff(self.tradeoff)

    def join(self, weights: Floats, offsets: Floats, tied: Floats) -> Floats:
        """Return the parameter vector made of these parts."""
        return np.concatenate([weights.ravel(), offsets, tied])

    def parameters(self, theta: Floats) -> Parameters:
        """Return the parameters in the statistics' own scale, priors summing to one if they can."""
        eta = self.passes.natural(theta)
        _, offsets, _ = self.split(theta)
        offset = offsets - eta @ self.passes.mean
        absent = None
        if self.tradeoff == 0.0 and self.density.allows_missing:
            absent = by_factor(eta * self.passes.mean, self.passes.factors, self.density.n_factors)
        elif self.has_missing:
            eta, moved = self.density.normalised(eta)
            offset = offset + moved
        partition = self.density.log_partition(eta).sum(axis=1)
        log_sum = np.logaddexp.reduce(offset + partition)
        if np.isfinite(log_sum):
            offset = offset - log_sum
        return Parameters(eta, offset, absent)

    def theta(self, parameters: Parameters) -> Floats:
        """Return the parameter vector of these parameters."""
        passes = self.passes
        eta = parameters.natural * passes.scale
        tied = eta[:, passes.tied].mean(axis=0)
        return self.join(
            eta[:, passes.free], parameters.offset + parameters.natural @ passes.mean, tied
        )

    def spread(self, theta: Floats) -> tuple[Density, Parameters]:
        """Return the density of the rows as they were given, and its parameters."""
        found = self.parameters(theta)
        density, natural = self.density.spread(found.natural)
        absent = None if found.absent is None else self.density.spread_factors(found.absent)
        return density, replace(found, natural=natural, absent=absent)

    def gather(self, parameters: Parameters) -> Floats:
        """Return the parameter vector of parameters that :meth:`spread` gives."""
        natural = self.density.gathered(parameters.natural)
        return self.theta(replace(parameters, natural=natural))

    def generative(self) -> Parameters:
        """Return the maximiser at λ = 1 in closed form: the (smoothed) joint likelihood's."""
        return generative(self.bound, self.passes.class_weights)[0]

    def one_density(self) -> Parameters:
        """Return the maximum-likelihood fit of one density to the rows of all classes."""
        counts = (self.bound.counts + self.bound.prior_counts).sum(axis=0, keepdims=True)
        sums = (self.bound.sums + self.bound.prior_sums).sum(axis=0, keepdims=True)
        eta = np.repeat(self.density.estimate(counts, sums), self.passes.n_classes, axis=0)
        with np.errstate(divide="ignore"):
            log_prior = np.log(self.passes.class_weights / self.passes.total)
        return Parameters(eta, log_prior - self.density.log_partition(eta).sum(axis=1))

    # -- value, gradient -------------------------------------------------------------------------

    def value(self, theta: Floats) -> float:
        """Return Φ_λ, +inf outside the domain."""
        return self._evaluate(theta, gradient=False)[0]

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return Φ_λ and its gradient."""
        return self._evaluate(theta, gradient=True)

    def _evaluate(self, theta: Floats, gradient: bool) -> tuple[float, Floats]:
        passes, lam = self.passes, self.tradeoff
        weights, offsets, tied = self.split(theta)
        if lam > 0.0:
            at = passes.at(theta)
            log_terms = offsets + at.partition.sum(axis=1)
            log_z = float(np.logaddexp.reduce(log_terms))
            if not math.isfinite(log_z):
                return np.inf, np.zeros_like(theta)
        own = self._own_terms(theta)
        value = -own.value
        if lam > 0.0:
            partition_weight = lam * self.bound.prior_counts - own.lost
            value += float(np.vdot(at.partition, partition_weight))
            prior = float(np.vdot(weights, passes.free_prior_sums))
            tied_totals = own.tied + passes.tied_prior_totals
            value += lam * (passes.total * log_z - prior - float(tied @ tied_totals))
        if lam < 1.0:
            log_sums, sums, mass, lost = passes.row_terms(theta, gradient)
            value += (1.0 - lam) * log_sums
            # In one array's place: of many words each takes megabytes.
            pull, strength = self._centred(theta), (1.0 - lam) * self.penalty * self._profile
            if isinstance(strength, float):
                value += 0.5 * strength * float(np.vdot(pull, pull))
            else:
                value += 0.5 * float(np.einsum("kj,kj->j", pull, pull) @ strength)
            pull *= strength
        if not gradient:
            return value, theta
        g_offsets, g_tied = -own.mass, tied[:0] if lam else np.zeros(passes.n_tied)
        if lam < 1.0:
            g_weights = sums
            g_weights *= 1.0 - lam
            g_weights += pull
            pulls = self._pulls_of_words(pull) if self._penalises_words else 0.0
            del pull
            g_weights -= own.sums
            g_offsets += (1.0 - lam) * mass
        else:
            g_weights = -own.sums
        if lam > 0.0:
            share = lam * passes.total * np.exp(log_terms - log_z)
            g_offsets += share
            partition_weight += share[:, None]
            if lam < 1.0 and self.has_missing:
                partition_weight -= pulls
                partition_weight += (1.0 - lam) * lost
            slope = partition_weight.take(passes.factors, axis=1)
            slope *= at.slope
            g_weights -= lam * passes.free_prior_sums
            g_weights += slope[:, passes.free_places]
            if passes.n_tied:
                g_tied = slope.take(passes.tied_places, axis=1).sum(axis=0) - lam * tied_totals
        return value, self.join(g_weights, g_offsets, g_tied)

    def _own_terms(self, theta: Floats) -> OwnTerms:
        """Return Σ w s_{i,y_i}, whose gradient is data sums."""
        passes = self.passes
        weights, offsets, _ = self.split(theta)
        sums, mass = passes.free_sums, passes.class_weights
        value = float(offsets @ mass) + float(np.vdot(weights, sums))
        return OwnTerms(value, sums, mass, passes.missing_counts, passes.tied_totals)

    def lost(self, theta: Floats) -> Floats:
        """Return the weight of rows whose own terms lack a factor, (n_classes, n_factors)."""
        return self.passes.missing_counts

    def own_shares(self, span: slice | Integers, posterior: Floats) -> Floats:
        """Return the shares of a row's own class among its states, (n_rows, n_states).

        Shapes: posterior (n_rows, n_states).
        """
        return np.eye(self.passes.n_classes)[self.rows.codes[span]]

    # -- curvature -------------------------------------------------------------------------------

    def curvature(self, theta: Floats, share: float = 1.0) -> Floats:
        """Return the Hessian; where missing cells make it indefinite, shifted to be definite.

        Shapes: theta (n_parameters,).
        """
        return dense_curvature(self, theta, share)[0]

    def leave_one_out_curvature(self, theta: Floats, share: float = 1.0) -> tuple[Floats, Floats]:
        """Return the Hessian less one row's share of λ n log Z, and the gradient of log Z."""
        return dense_curvature(self, theta, share, self.tradeoff)

    def partition_weight(self, theta: Floats) -> Floats:
        """Return the weights of ∇²A_f(η_k) in the Hessian, those below zero as zero, (K, m)."""
        lam = self.tradeoff
        weight = lam * (self.passes.class_weights[:, None] + self.bound.prior_counts)
        if self.has_missing:
            weight = weight - self.passes.missing_counts
            if lam < 1.0:
                weight += (1.0 - lam) * self.passes.row_terms(theta, True)[3]
        return np.maximum(weight, 0.0)

    # -- Hessian products, for models whose Hessian is too large to form -------------------------

    def curvature_product(self, theta: Floats) -> Callable[[Floats], Floats]:
        """Return v ↦ H v, a product one pass over the rows: their sample, if they are not at hand.

        Where a factor's A is not counted once a row, its curvature is left out where it is
        negative: of documents it is none but far from the optimum.
        """
        if self.rows.is_part:
            return self.sampled(1.0).curvature_product(theta)
        passes, density = self.passes, self.density
        lam, total = self.tradeoff, passes.total
        by_words = self._penalises_words
        at = passes.row_curvature(theta) if lam < 1.0 else None
        if lam > 0.0:
            eta, slope = passes.at(theta).natural, passes.at(theta).slope
            log_terms = self.split(theta)[1] + passes.at(theta).partition.sum(axis=1)
            share = np.exp(log_terms - np.logaddexp.reduce(log_terms))
            weight = lam * (total * share[:, None] + self.bound.prior_counts)
            if self.has_missing:
                weight -= passes.missing_counts
                weight += 0.0 if at is None else (1.0 - lam) * at.lost
            if by_words:
                weight -= self._pulls_of_words(self._pull(self._centred(theta)))
            weight = np.maximum(weight, 0.0)[:, passes.factors]

        def product(v: Floats) -> Floats:
            v_weights, v_offsets, v_tied = self.split(v)
            out = np.zeros_like(v)
            o_weights, o_offsets, o_tied = self.split(out)
            along_slope = None
            if lam > 0.0:
                full = np.empty((passes.n_classes, passes.tied.size))
                full[:, passes.free] = v_weights
                full[:, passes.tied] = v_tied
                moved = slope * full
                along = v_offsets + moved.sum(axis=1)
                along = lam * total * share * (along - share @ along)
                bent = density.hessian_product(eta, full / passes.scale)
                bent /= passes.scale
                bent *= weight
                if self.has_missing:
                    by_slope = by_factor(moved, passes.factors, density.n_factors)
                    along_slope = np.repeat(along[:, None], density.n_factors, axis=1)
                else:
                    bent += along[:, None] * slope
                o_offsets += along
            else:
                o_tied += total * v_tied
            if at is not None:
                absent = None if along_slope is None else by_slope
                sums, mass, lost = at.product(v_weights, v_offsets, absent)
                centred = v_weights
                if by_words:
                    centred = (
                        centred
                        - np.where(density.word_factors, by_slope, 0.0)[:, passes.free_factors]
                    )
                sums *= 1.0 - lam
                o_weights += sums
                del sums
                pull = self._pull(centred - centred.mean(axis=0))
                o_weights += pull
                o_offsets += (1.0 - lam) * mass
                if along_slope is not None:
                    along_slope += (1.0 - lam) * lost
                    if by_words:
                        along_slope -= self._pulls_of_words(pull)
            if lam > 0.0:
                if along_slope is not None:
                    bent += slope * along_slope[:, passes.factors]
                o_weights += bent[:, passes.free]
                o_tied += bent[:, passes.tied].sum(axis=0)
            # The same pinned directions as in the dense matrix.
            o_offsets += total / passes.n_classes * v_offsets.mean()
            if lam == 0.0:
                o_weights += total * v_weights.mean(axis=0)
            return out

        return product
