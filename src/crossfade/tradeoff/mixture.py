"""Classes that are mixtures: the same objective over components, labels known only by class.

With states r, each belonging to one class, and s_ir = η_r·T(x_i) + c_r,

    Φ_λ = - Σ_i w_i log Σ_{r in y_i} exp s_ir + λ n log Σ_r exp(c_r + A(η_r))
          + (1-λ) Σ_i w_i log Σ_r exp s_ir

is the tradeoff objective over states in which a row's own term is a log-sum over its class's
states. It is not convex: the path starts from the best of several EM runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from crossfade._typing import Floats
from crossfade.blocks import block_sum
from crossfade.densities.base import Bound
from crossfade.tradeoff.labelled_rows import LabelledRows, log_normalise
from crossfade.tradeoff.objective import Parameters, TradeoffObjective
from crossfade.tradeoff.passes import RowPasses

#: EM stops when the mean log-likelihood rises by less than this, in nats per row.
_EM_TOL = 1e-9

#: Pseudo-rows at a component's mean with the class's own spread: keeps a component that has
#: closed in on one row from becoming infinitely sharp.
_PSEUDO_ROWS = 0.01


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
    ) -> Self:
        """Return the objective of complete rows, with the classes' density for every component."""
        best, counts, sums = expectation_maximisation(
            rows, bound, n_components, n_init=n_init, seed=seed
        )
        prior_counts, prior_sums = _component_prior(bound, n_components)
        states = replace(
            bound,
            counts=np.repeat(counts, bound.density.n_factors, axis=1),
            sums=sums,
            prior_counts=prior_counts,
            prior_sums=prior_sums,
        )
        passes = RowPasses.of(rows, states, states.counts[:, 0])
        return cls(passes, float(tradeoff), float(l2), n_components, best)

    def generative(self) -> Parameters:
        """Return the best of the EM runs."""
        return self.best

    @cached_property
    def _own(self) -> NDArray[np.bool_]:
        """Which states are of a class, shape (n_classes, n_states)."""
        return np.repeat(np.eye(self.rows.n_classes, dtype=bool), self.n_components, axis=1)

    def _responsibilities(self, span: slice, scores: Floats) -> tuple[Floats, Floats]:
        """Return log Σ over the own class's states and their shares, by row."""
        own = np.where(self._own[self.rows.codes[span]], scores, -np.inf)
        return log_normalise(own)

    def own_shares(self, span: slice, posterior: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return self._responsibilities(span, np.log(posterior))[1]

    def _own_terms(self, theta: Floats) -> tuple[float, Floats, Floats]:
        eta, offset, _ = self.passes.row_coefficients(theta)

        def block(span: slice) -> tuple[float, Floats, Floats]:
            carrier, _, scores = self.passes.block_scores(span, eta, offset, None)
            log_sum, share = self._responsibilities(span, scores)
            weights = self.rows.block_weights(span)
            value = float(log_sum.sum() if weights is None else log_sum @ weights)
            if weights is not None:
                share = share * weights[:, None]
            return value, *self.passes.block_sums(carrier, None, share)

        return block_sum(block, self.rows.n_samples, block_rows=self.passes.block_rows)

    def curvature(self, theta: Floats, share: float = 1.0) -> Floats:
        """Return the Hessian, negative eigenvalues turned positive (Dauphin et al. 2014)."""
        exact = super().curvature(theta, share) - self._label_curvature(theta)
        try:
            scipy.linalg.cho_factor(exact, lower=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            values, vectors = scipy.linalg.eigh(exact, check_finite=False)
            sizes = np.maximum(np.abs(values), 1e-6 * np.abs(values).max())
            return (vectors * sizes) @ vectors.T
        return exact

    def _label_curvature(self, theta: Floats) -> Floats:
        """Return Σ w J'(diag q - qq')J, q the shares within the own class."""
        eta, offset, absent = self.passes.row_coefficients(theta)
        k, p = self.passes.n_classes, self.passes.n_free

        def block(span: slice) -> Floats:
            Z, posterior, weights = self.passes.design(span, eta, offset, absent)
            share = self.own_shares(span, posterior)
            v = np.ones(Z.shape[0]) if weights is None else weights
            out = np.zeros((k, p + 1, k, p + 1))
            for a in range(k):
                group = a - a % self.n_components
                for b in range(group, group + self.n_components):
                    w = v * share[:, a] * ((a == b) - share[:, b])
                    out[a, :, b] = Z.T @ (Z * w[:, None])
            return out

        blocks = block_sum(block, self.rows.n_samples, block_rows=self.passes.block_rows)
        H = np.zeros((self.n_parameters, self.n_parameters))
        index = np.concatenate([np.append(c * p + np.arange(p), k * p + c) for c in range(k)])
        H[np.ix_(index, index)] = blocks.reshape(k * (p + 1), k * (p + 1))
        return H


def _component_prior(bound: Bound, n_components: int) -> tuple[Floats, Floats]:
    """Return the classes' smoothing shared out over components, plus a little of their spread."""
    share = np.repeat(bound.prior_counts, n_components, axis=0) / n_components
    sums = np.repeat(bound.prior_sums, n_components, axis=0) / n_components
    total = np.maximum(bound.counts.sum(axis=0), 1e-300)[bound.density.factors]
    spread = bound.sums.sum(axis=0) / total
    # First moments carry no spread: standardised columns have mean zero.
    return share + _PSEUDO_ROWS, sums + _PSEUDO_ROWS * spread


def expectation_maximisation(
    rows: LabelledRows,
    bound: Bound,
    n_components: int,
    *,
    n_init: int = 5,
    seed: int = 0,
    max_iter: int = 500,
) -> tuple[Parameters, Floats, Floats]:
    """Fit a mixture to every class by EM, the best of several starts.

    Shapes: counts (n_states, 1); sums (n_states, n_statistics).
    """
    rng = np.random.default_rng(seed)
    runs = [_run(rows, bound, n_components, rng, max_iter) for _ in range(max(1, n_init))]
    if bound.density.tied.any():
        best = max(runs, key=lambda run: float(run[0].sum()))
        return best[1:]
    # Without ties the classes are separate problems: each takes its own best start.
    pick = np.argmax([run[0] for run in runs], axis=0)
    states = np.arange(pick.size * n_components)
    chosen = np.repeat(pick, n_components)
    natural = np.array([runs[r][1].natural[s] for r, s in zip(chosen, states, strict=True)])
    offset = np.array([runs[r][1].offset[s] for r, s in zip(chosen, states, strict=True)])
    counts = np.array([runs[r][2][s] for r, s in zip(chosen, states, strict=True)])
    sums = np.array([runs[r][3][s] for r, s in zip(chosen, states, strict=True)])
    return Parameters(natural, offset), counts, sums


def _run(
    rows: LabelledRows, bound: Bound, n_components: int, rng: np.random.Generator, max_iter: int
) -> tuple[Floats, Parameters, Floats, Floats]:
    """Return the log-likelihood by class, the parameters, and the states' counts and sums."""
    density, k = bound.density, rows.n_classes
    prior_counts, prior_sums = _component_prior(bound, n_components)
    own = np.repeat(np.eye(k, dtype=bool), n_components, axis=1)
    total = float(rows.class_weights.sum())
    shares = _starting_shares(rows, n_components, rng)

    def moments(shares: Floats) -> tuple[Floats, Floats]:
        def block(span: slice) -> tuple[Floats, Floats]:
            weights = rows.block_weights(span)
            q = shares[span] if weights is None else shares[span] * weights[:, None]
            return q.sum(axis=0)[:, None], density.weighted_sums(rows.block(span), q)

        return block_sum(block, rows.n_samples)

    before = -np.inf
    for _ in range(max_iter):
        counts, sums = moments(shares)
        natural = density.estimate(counts + prior_counts, sums + prior_sums)
        with np.errstate(divide="ignore"):
            log_share = np.log(np.maximum(counts[:, 0], 1e-12) / total)
        partition = density.log_partition(natural).sum(axis=1)
        parameters = Parameters(natural, log_share - partition)

        def expectation(span: slice, at: Parameters = parameters) -> Floats:
            scores = density.scores(rows.block(span), at.natural) + at.offset
            codes = rows.codes[span]
            log_sum, q = log_normalise(np.where(own[codes], scores, -np.inf))
            shares[span] = q
            weights = rows.block_weights(span)
            weighted = log_sum if weights is None else log_sum * weights
            return np.bincount(codes, weighted, minlength=k).astype(np.float64)

        likelihood = block_sum(expectation, rows.n_samples)
        penalty = (natural * prior_sums).sum() - float(partition @ prior_counts[:, 0])
        now = float(likelihood.sum() + penalty) / total
        if now - before < _EM_TOL:
            break
        before = now
    return likelihood, parameters, *moments(shares)


def _starting_shares(rows: LabelledRows, n_components: int, rng: np.random.Generator) -> Floats:
    """Return hard assignments to spread-out rows of the class (k-means++), from sorted rows."""
    shares = np.zeros((rows.n_samples, rows.n_classes * n_components))
    X = np.asarray(rows.X, dtype=np.float64)
    weights = np.ones(rows.n_samples) if rows.weights is None else rows.weights
    mean = np.average(X, axis=0, weights=weights)
    scale = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
    Z = (X - mean) / np.where(scale > 0, scale, 1.0)
    for code in range(rows.n_classes):
        index = np.flatnonzero(rows.codes == code)
        index = index[np.lexsort(X[index].T[::-1])]
        own, weight = Z[index], weights[index]
        centres = own[[_draw(weight, rng)]]
        for _ in range(1, n_components):
            nearest = ((own[:, None] - centres) ** 2).sum(axis=2).min(axis=1)
            chance = weight * nearest
            drawn = _draw(chance if chance.any() else weight, rng)
            centres = np.vstack([centres, own[drawn]])
        nearest = ((own[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        shares[index, code * n_components + nearest] = 1.0
    return shares


def _draw(chance: Floats, rng: np.random.Generator) -> int:
    """Return a position drawn in proportion to `chance`."""
    total = np.cumsum(chance)
    return int(
        np.searchsorted(total, rng.random() * total[-1], side="right").clip(0, total.size - 1)
    )
