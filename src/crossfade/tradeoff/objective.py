"""The objective between the joint and the conditional likelihood.

With natural parameters η_k, c_k = log p_k - A(η_k) and s_ik = η_k·T(x_i) + c_k (DESIGN's central
fact; Bouchard & Triggs 2004, equations 5-8), the function minimised here is

    Φ_λ = - Σ_i w_i s_{i,y_i} + λ n log Σ_k exp(c_k + A(η_k)) + (1-λ) Σ_i w_i log Σ_k exp(s_ik)
          - λ log prior(η) + (1-λ) l2/2 ‖W‖²

convex in (η, c) where no cell is missing. A missing factor's term η_f·T_f is replaced by A_f(η_f),
the logarithm of what leaving the factor out of the product amounts to; the function is then smooth
but no longer convex for λ < 1, and is followed down the path from λ = 1.

The solver sees statistics standardised to T̃ = (T - mean)/scale, so that neither the penalty nor
the conditioning depends on units. ‖W‖² is over the class weights centred over classes (the
direction common to all classes changes no posterior), doubled for two classes, which makes it the
squared difference of the two weight vectors: scikit-learn's penalty in both cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy.linalg

from crossfade._typing import Floats
from crossfade.blocks import block_sum
from crossfade.densities.base import Bound
from crossfade.optim.newton import sample_rows
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.passes import KeptStatistics, RowPasses

__all__ = ["Parameters", "TradeoffObjective", "generative"]

#: What stands for λ = 0 where cells are missing.
SMALLEST_WITH_MISSING = 1e-4


@dataclass(frozen=True)
class Parameters:
    """Parameters of a fitted model, in the statistics' own (not standardised) scale.

    Attributes
    ----------
    natural : ndarray of shape (n_classes, n_statistics)
        η_k.
    offset : ndarray of shape (n_classes,)
        c_k = log p_k - A(η_k), so that log p_k f_k(x) = η_k·T(x) + c_k + log h(x).
    """

    natural: Floats
    offset: Floats


def generative(bound: Bound, class_weights: Floats) -> Parameters:
    """Return the maximiser of the (smoothed) joint likelihood, in closed form.

    Shapes: class_weights (n_classes,).
    """
    eta = bound.density.estimate(bound.counts + bound.prior_counts, bound.sums + bound.prior_sums)
    partition = bound.density.log_partition(eta).sum(axis=1)
    with np.errstate(divide="ignore"):
        log_prior = np.log(class_weights / class_weights.sum())
    return Parameters(eta, log_prior - partition)


class TradeoffObjective(RowPasses):
    """Φ_λ as a :class:`~crossfade.optim.newton.Problem` over standardised parameters.

    Parameters
    ----------
    rows : LabelledRows
    bound : Bound
        Density with counts, sums and prior; one row of each per class.
    tradeoff : float
        λ in [0, 1].
    l2 : float
        Strength of the penalty on the discriminative weights.

    A row's class may be a mixture of several *states* (a subclass says which); all that is said
    here of classes is then true of states. A parameter vector holds, in this order, the free
    weights W (n_classes, n_free), the offsets c (n_classes,) and the tied weights V (n_tied,).
    """

    #: Whether a row's own term is linear in the parameters: one state a class.
    exact_labels = True

    def __init__(self, rows: LabelledRows, bound: Bound, tradeoff: float, l2: float) -> None:
        self.rows, self.bound, self.l2 = rows, bound, float(l2)
        self.has_missing = rows.has_missing and _any_missing(rows, bound)
        if self.has_missing:
            self.bound = bound = _with_unseen_factors(bound)
        self.tradeoff = self._attainable(tradeoff)
        density = bound.density
        self.density = density
        self._kept = KeptStatistics(rows, density)
        self.n_classes = bound.counts.shape[0]
        self.tied = np.asarray(density.tied, dtype=bool)
        self.free = ~self.tied
        self.n_free = int(self.free.sum())
        self.n_tied = int(self.tied.sum())
        self._scale, self._mean = bound.statistic_scale, bound.statistic_mean
        self._free_scale, self._free_mean = self._scale[self.free], self._mean[self.free]
        self._factors = density.factors
        self._penalty = l2 * (2.0 if rows.n_classes == 2 else 1.0)
        class_weights = self._state_weights()
        self._class_weights = class_weights
        self._total = float(class_weights.sum())
        mean, scale = self._mean, self._scale
        counts = bound.counts[:, self._factors]
        self._sums = (bound.sums - counts * mean) / scale
        prior_counts = bound.prior_counts[:, self._factors]
        self._prior_sums = (bound.prior_sums - prior_counts * mean) / scale
        self._missing_counts = class_weights[:, None] - bound.counts

    def _state_weights(self) -> Floats:
        return self.rows.class_weights

    # -- parameters ------------------------------------------------------------------------------

    @property
    def class_weights(self) -> Floats:
        """Return the total weight of the rows of each class (or state), shape (n_classes,)."""
        return self._class_weights

    @property
    def n_rows(self) -> float:
        """Return the total weight of the rows."""
        return self._total

    def with_tradeoff(self, tradeoff: float) -> Self:
        """Return the same objective at another λ; the data are shared."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.tradeoff = self._attainable(tradeoff)
        return other

    def with_penalty(self, l2: float) -> Self:
        """Return the same objective with another strength of the penalty; the data are shared."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.l2 = float(l2)
        other._penalty = other.l2 * (2.0 if self.rows.n_classes == 2 else 1.0)
        return other

    def without_tied(self) -> Self:
        """Return the function at λ = 0 without the tied parameters, which it does not depend on.

        Its parameter vectors are those of this objective cut off before the tied weights.
        """
        other = self.with_tradeoff(0.0)
        other.n_tied = 0
        return other

    def without_rows(self) -> Self:
        """Return the same objective without the rows: at λ = 1 it is a function of their sums."""
        other = self.with_tradeoff(1.0)
        other.rows = self.rows.take(np.zeros(0, dtype=np.int64))
        other._kept = KeptStatistics(other.rows, self.density)
        return other

    def _attainable(self, tradeoff: float) -> float:
        """Return λ, or the small one that stands for 0 where cells are missing.

        The posterior of a row with missing cells depends on the densities themselves, which Φ_0
        determines only weakly: the limit of λ falling to 0 is taken there, at this value.
        """
        return max(float(tradeoff), SMALLEST_WITH_MISSING) if self.has_missing else float(tradeoff)

    def sampled(self, share: float) -> TradeoffObjective:
        """Return the same function over an evenly spread share of the rows, scaled up to all."""
        index = sample_rows(self.rows.n_samples, share)
        rows = self.rows.take(index)
        up = self._total / max(float(rows.class_weights.sum()), 1e-300)
        weights = np.full(index.size, up) if rows.weights is None else rows.weights * up
        rows = replace(rows, weights=weights)
        density, m = self.density, self.density.n_factors

        def block(span: slice) -> tuple[Floats, Floats]:
            X = rows.block(span)
            member = np.zeros((X.shape[0], self.n_classes))
            member[np.arange(X.shape[0]), rows.codes[span]] = weights[span]
            counts = np.repeat(member.sum(axis=0)[:, None], m, axis=1)
            mask = density.missing_factors(X) if self.has_missing else None
            if mask is not None:
                counts -= member.T @ mask
            return density.weighted_sums(X, member), counts

        sums, counts = block_sum(block, index.size)
        bound = replace(self.bound, counts=counts, sums=sums)
        other = type(self)(rows, bound, self.tradeoff, self.l2)
        other.n_tied = self.n_tied
        other.is_sample = True
        return other

    def join(self, weights: Floats, offsets: Floats, tied: Floats) -> Floats:
        """Return the parameter vector made of these parts."""
        return np.concatenate([weights.ravel(), offsets, tied])

    def parameters(self, theta: Floats) -> Parameters:
        """Return the parameters in the statistics' own scale, priors summing to one if they can."""
        eta = self.natural(theta)
        partition = self.density.log_partition(eta).sum(axis=1)
        _, offsets, _ = self.split(theta)
        offset = offsets - eta @ self._mean
        log_sum = np.logaddexp.reduce(offset + partition)
        if np.isfinite(log_sum):
            offset = offset - log_sum
        return Parameters(eta, offset)

    def theta(self, parameters: Parameters) -> Floats:
        """Return the parameter vector of these parameters."""
        eta = parameters.natural * self._scale
        tied = eta[:, self.tied].mean(axis=0)
        return self.join(
            eta[:, self.free], parameters.offset + parameters.natural @ self._mean, tied
        )

    def generative(self) -> Parameters:
        """Return the maximiser at λ = 1 in closed form: the (smoothed) joint likelihood's."""
        return generative(self.bound, self._class_weights)

    def one_density(self) -> Parameters:
        """Return the maximum-likelihood fit of one density to the rows of all classes."""
        counts = (self.bound.counts + self.bound.prior_counts).sum(axis=0, keepdims=True)
        sums = (self.bound.sums + self.bound.prior_sums).sum(axis=0, keepdims=True)
        eta = np.repeat(self.density.estimate(counts, sums), self.n_classes, axis=0)
        with np.errstate(divide="ignore"):
            log_prior = np.log(self._class_weights / self._total)
        return Parameters(eta, log_prior - self.density.log_partition(eta).sum(axis=1))

    # -- value, gradient -------------------------------------------------------------------------

    def value(self, theta: Floats) -> float:
        """Return Φ_λ, +inf outside the domain."""
        return self._evaluate(theta, gradient=False)[0]

    def value_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """Return Φ_λ and its gradient."""
        return self._evaluate(theta, gradient=True)

    def _evaluate(self, theta: Floats, gradient: bool) -> tuple[float, Floats]:
        lam = self.tradeoff
        weights, offsets, tied = self.split(theta)
        free = self.free
        needs_density = lam > 0.0
        value, own_sums, own_mass = self._own_terms(theta)
        value, g_weights, g_offsets = -value, -own_sums, -own_mass
        g_tied = np.zeros(self.n_tied)
        partition_weight = np.zeros_like(self._missing_counts)
        if needs_density:
            eta = self.natural(theta)
            partition = self._log_partition(eta)
            if not np.isfinite(partition).all():
                return np.inf, np.zeros_like(theta)
            value -= float((partition * self._missing_counts).sum())
            partition_weight -= self._missing_counts
        if lam > 0.0:
            log_terms = offsets + partition.sum(axis=1)
            log_z = np.logaddexp.reduce(log_terms)
            share = np.exp(log_terms - log_z)
            value += lam * self._total * float(log_z)
            g_offsets += lam * self._total * share
            partition_weight += lam * self._total * share[:, None]
            prior_sums, prior_counts = self._prior_sums, self.bound.prior_counts
            value -= lam * float((weights * prior_sums[:, free]).sum())
            value += lam * float((partition * prior_counts).sum())
            g_weights = g_weights - lam * prior_sums[:, free]
            partition_weight += lam * prior_counts
            tied_sums = (self._sums + prior_sums)[:, self.tied].sum(axis=0)
            value -= lam * float(tied @ tied_sums)
            g_tied -= lam * tied_sums
        if lam < 1.0:
            log_sums, sums, mass, lost = self._row_terms(theta, gradient)
            value += (1.0 - lam) * log_sums
            centred = weights - weights.mean(axis=0)
            value += (1.0 - lam) * 0.5 * self._penalty * float((centred**2).sum())
            if gradient:
                g_weights = g_weights + (1.0 - lam) * (sums + self._penalty * centred)
                g_offsets += (1.0 - lam) * mass
                if self.has_missing:
                    partition_weight += (1.0 - lam) * lost
        if not gradient:
            return value, theta
        if needs_density:
            slope = self._partition_slope(eta) * partition_weight[:, self._factors]
            g_weights = g_weights + slope[:, free]
            g_tied += slope[:, self.tied].sum(axis=0)
        return value, self.join(g_weights, g_offsets, g_tied)

    def _own_terms(self, theta: Floats) -> tuple[float, Floats, Floats]:
        """Return Σ w s_{i,y_i} (missing factors apart) and its gradient in W and c: data sums."""
        weights, offsets, _ = self.split(theta)
        sums = self._sums[:, self.free]
        value = float(offsets @ self._class_weights) + float((weights * sums).sum())
        return value, sums, self._class_weights

    # -- curvature -------------------------------------------------------------------------------

    def curvature(self, theta: Floats, share: float = 1.0) -> Floats:
        """Return the Hessian; where missing cells make it indefinite, shifted to be definite.

        Shapes: theta (n_parameters,).
        """
        return self._curvature(theta, share)[0]

    def leave_one_out_curvature(self, theta: Floats, share: float = 1.0) -> tuple[Floats, Floats]:
        """Return the Hessian less one row's share of λ n log Z, and the gradient of log Z."""
        return self._curvature(theta, share, self.tradeoff)

    def _curvature(
        self, theta: Floats, share: float, rows_less: float = 0.0
    ) -> tuple[Floats, Floats]:
        """Return the Hessian, log Z counted for `rows_less`/λ rows less, and ∇ log Z."""
        lam, k, p = self.tradeoff, self.n_classes, self.n_free
        size = self.n_parameters
        H = np.zeros((size, size))
        needs_density = lam > 0.0
        by_class = H[: k * p, : k * p].reshape(k, p, k, p)
        log_z_gradient = np.zeros(size)
        partition_weight = np.zeros_like(self._missing_counts)
        if needs_density:
            eta = self.natural(theta)
            partition = self._log_partition(eta)
            slope = self._partition_slope(eta)
            inner = self.density.hessian(eta)
            inner /= self._scale
            inner /= self._scale[:, None]
            partition_weight -= self._missing_counts
        if lam < 1.0:
            lost = self._add_row_curvature(H, theta, share)
            if self.has_missing:
                partition_weight += (1.0 - lam) * lost
            diagonal = np.arange(p)
            penalty = (1.0 - lam) * self._penalty * (np.eye(k) - 1.0 / k)
            by_class[:, diagonal, :, diagonal] += penalty
        if lam > 0.0:
            _, offsets, _ = self.split(theta)
            log_terms = offsets + partition.sum(axis=1)
            weight = np.exp(log_terms - np.logaddexp.reduce(log_terms))
            total = self._total * lam - rows_less
            partition_weight += total * weight[:, None] + lam * self.bound.prior_counts
            self._add_class_spread(H, slope, weight, total)
            log_z_gradient = self._class_columns(slope).T @ weight
        if needs_density:
            self._add_partition_curvature(H, inner, np.maximum(partition_weight, 0.0))
        self._pin(H)
        if self.has_missing and (partition_weight < 0.0).any():
            less = np.zeros_like(H)
            self._add_partition_curvature(less, inner, np.maximum(-partition_weight, 0.0))
            H -= less
            lowest = _lowest_eigenvalue(H)
            if lowest < 0.0:
                # A step of about the length at which the quadratic model can still be believed.
                H[np.diag_indices_from(H)] -= 2.0 * lowest
        return H, log_z_gradient

    def partition_weight(self, theta: Floats) -> Floats:
        """Return the weights of ∇²A_f(η_k) in the Hessian, those below zero as zero, (K, m)."""
        lam = self.tradeoff
        weight = lam * (self._class_weights[:, None] + self.bound.prior_counts)
        if self.has_missing:
            weight = weight - self._missing_counts
            if lam < 1.0:
                weight += (1.0 - lam) * self._row_terms(theta, True)[3]
        return np.maximum(weight, 0.0)

    def _class_columns(self, slope: Floats) -> Floats:
        """Return the gradients of c_k + A(η_k), one row a class, shape (K, n_parameters)."""
        k, p = self.n_classes, self.n_free
        columns = np.zeros((k, self.n_parameters))
        columns[:, : k * p].reshape(k, k, p)[np.arange(k), np.arange(k)] = slope[:, self.free]
        columns[np.arange(k), k * p + np.arange(k)] = 1.0
        columns[:, k * p + k :] = slope[:, self.tied]
        return columns

    def _add_class_spread(self, H: Floats, slope: Floats, weight: Floats, total: float) -> None:
        """Add total times the covariance over classes of the gradients of c_k + A(η_k)."""
        columns = self._class_columns(slope)
        columns -= weight @ columns
        columns *= np.sqrt(total * weight)[:, None]
        H += columns.T @ columns

    def _add_partition_curvature(self, H: Floats, inner: Floats, weight: Floats) -> None:
        """Add Σ_kf weight_kf ∇²A_f(η_k) to H."""
        k, p = self.n_classes, self.n_free
        # Views where the tied statistics come last, as those of Gaussians do.
        ordered = bool(self.free[:p].all())
        free = slice(0, p) if ordered else np.flatnonzero(self.free)
        tied = slice(p, None) if ordered else np.flatnonzero(self.tied)
        for c in range(k):
            own = slice(c * p, c * p + p)
            if self.density.n_factors == 1:
                scaled = inner[c] * weight[c, 0]
            else:
                root = np.sqrt(weight[c])[self._factors]
                scaled = inner[c] * root
                scaled *= root[:, None]
            H[own, own] += scaled[free][:, free]
            if not self.n_tied:
                continue
            cross = scaled[free][:, tied]
            H[own, k * p + k :] += cross
            H[k * p + k :, own] += cross.T
            H[k * p + k :, k * p + k :] += scaled[tied][:, tied]

    def _pin(self, H: Floats) -> None:
        """Give the directions that change nothing a curvature, so that H can be factorised.

        They carry no gradient: adding a constant to every c_k; at λ = 0 with complete rows also
        adding one vector to every class's weights, and the tied weights.
        """
        k, p = self.n_classes, self.n_free
        size = max(float(np.trace(H)) / max(H.shape[0], 1), 1e-300)
        H[k * p : k * p + k, k * p : k * p + k] += size / k
        if self.tradeoff == 0.0:
            diagonal = np.arange(p)
            H[: k * p, : k * p].reshape(k, p, k, p)[:, diagonal, :, diagonal] += size / k
            tied = np.arange(k * p + k, H.shape[0])
            H[tied, tied] += size

    # -- Hessian products, for models whose Hessian is too large to form -------------------------

    def curvature_product(self, theta: Floats) -> Callable[[Floats], Floats]:
        """Return v ↦ H v, exact where no cell is missing; a product is one pass over the rows."""
        if self.has_missing:
            raise ValueError("curvature_product: expected complete rows, got missing cells")
        lam, total = self.tradeoff, self._total
        eta_rows, offset, _ = self.row_coefficients(theta)
        if lam > 0.0:
            eta = self.natural(theta)
            slope = self._partition_slope(eta)
            log_terms = self.split(theta)[1] + self._log_partition(eta).sum(axis=1)
            share = np.exp(log_terms - np.logaddexp.reduce(log_terms))
            weight = (lam * (total * share[:, None] + self.bound.prior_counts))[:, self._factors]

        def product(v: Floats) -> Floats:
            v_weights, v_offsets, v_tied = self.split(v)
            out = np.zeros_like(v)
            o_weights, o_offsets, o_tied = self.split(out)
            if lam > 0.0:
                full = np.empty((self.n_classes, self.tied.size))
                full[:, self.free] = v_weights
                full[:, self.tied] = v_tied
                along = v_offsets + (slope * full).sum(axis=1)
                along = lam * total * share * (along - share @ along)
                bent = self.density.hessian_product(eta, full / self._scale) / self._scale
                bent = bent * weight + along[:, None] * slope
                o_weights += bent[:, self.free]
                o_tied += bent[:, self.tied].sum(axis=0)
                o_offsets += along
            else:
                o_tied += total * v_tied
            if lam < 1.0:
                sums, mass = self._row_product(eta_rows, offset, v_weights, v_offsets)
                centred = v_weights - v_weights.mean(axis=0)
                o_weights += (1.0 - lam) * (sums + self._penalty * centred)
                o_offsets += (1.0 - lam) * mass
            # The same pinned directions as in the dense matrix.
            o_offsets += total / self.n_classes * v_offsets.mean()
            if lam == 0.0:
                o_weights += total * v_weights.mean(axis=0)
            return out

        return product


def _any_missing(rows: LabelledRows, bound: Bound) -> bool:
    """Return whether a cell is missing of a factor that has a say."""
    absent = bound.counts < rows.class_weights[:, None] * (1.0 - 1e-9)
    return bool((absent & ~bound.density.idle).any())


def _lowest_eigenvalue(H: Floats) -> float:
    """Return the lowest eigenvalue of a symmetric matrix, or zero where none is below."""
    if scipy.linalg.lapack.dpotrf(H, lower=1)[1] == 0:
        return 0.0
    values = scipy.linalg.eigh(H, eigvals_only=True, subset_by_index=[0, 0], check_finite=False)
    return min(float(values[0]), 0.0)


def _with_unseen_factors(bound: Bound) -> Bound:
    """Return the bound density with parameters held in place where no cell speaks for them.

    A class without any cell of a factor would have that part of its density pulled wherever it
    lowers the other classes' loss. Pseudo-rows at the mean of all classes, as many as the rows at
    the smallest λ, keep the column from saying anything about that class.
    """
    unseen = (bound.counts + bound.prior_counts <= 0.0) / SMALLEST_WITH_MISSING
    if not unseen.any():
        return bound
    unseen *= bound.counts.max(axis=0)
    return replace(
        bound,
        prior_counts=bound.prior_counts + unseen,
        prior_sums=bound.prior_sums + unseen[:, bound.density.factors] * bound.statistic_mean,
    )
