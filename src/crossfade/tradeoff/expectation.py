"""EM of classes that are mixtures, from several starts: where the path of a mixture begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.blocks import block_sum
from crossfade.densities.base import Bound, Density
from crossfade.table.documents import block_of
from crossfade.tradeoff.labelled_rows import LabelledRows, log_normalise
from crossfade.tradeoff.objective import Parameters
from crossfade.tradeoff.unlabelled import Unlabelled

#: EM stops when the mean log-likelihood rises by less than this, in nats per row.
_EM_TOL = 1e-9

#: Pseudo-rows at a component's mean with the class's own spread: keeps a component that has
#: closed in on one row from becoming infinitely sharp.
_PSEUDO_ROWS = 0.01


@dataclass(frozen=True)
class Start:
    """Rows, the density bound to them, and how many components each class has."""

    rows: LabelledRows
    bound: Bound
    n_components: int
    unlabelled: Unlabelled | None = None

    @cached_property
    def density(self) -> Density:
        """The density, which no longer fills what it marginalises."""
        return self.bound.density.unfilled

    @cached_property
    def filled(self) -> Start:
        """The same with numbers for cells that the density fills of rows to be learnt from."""
        density, others = self.bound.density, self.unlabelled
        if not density.filled:
            return self
        rows = replace(self.rows, X=density.filled_cells(self.rows.X, density.filling))
        if others is not None:
            others = replace(others, X=density.filled_cells(others.X, density.filling))
        return replace(self, rows=rows, unlabelled=others)

    @cached_property
    def one_density(self) -> Floats:
        """The natural parameters of one density for all rows, by state."""
        bound = self.bound
        counts = (bound.counts + bound.prior_counts).sum(axis=0, keepdims=True)
        sums = (bound.sums + bound.prior_sums).sum(axis=0, keepdims=True)
        n_states = self.rows.n_classes * self.n_components
        return np.repeat(bound.density.estimate(counts, sums), n_states, axis=0)


class FromStart(NamedTuple):
    """What EM found.

    `likelihood` (n_classes + 1,): Of the rows of each class, and of those without a label.
    `mass` (n_states,), `counts` (n_states, n_factors), `sums` (n_states, n_statistics): Expected of
        the rows with a label.
    `shares` (n_samples, n_states): Of these rows in the states.
    """

    likelihood: Floats
    parameters: Parameters
    mass: Floats
    counts: Floats
    sums: Floats
    shares: Floats


def component_prior(bound: Bound, n_components: int) -> tuple[Floats, Floats]:
    """Return the classes' smoothing shared out over components, plus a little of their spread."""
    share = np.repeat(bound.prior_counts, n_components, axis=0) / n_components
    sums = np.repeat(bound.prior_sums, n_components, axis=0) / n_components
    total = np.maximum(bound.counts.sum(axis=0), 1e-300)[bound.density.factors]
    spread = bound.sums.sum(axis=0) / total
    # First moments carry no spread: standardised columns have mean zero.
    return share + _PSEUDO_ROWS, sums + _PSEUDO_ROWS * spread


def expectation_maximisation(
    start: Start, *, n_init: int = 5, seed: int = 0, max_iter: int = 500
) -> FromStart:
    """Fit a mixture to every class by EM, the best of several starts.

    Where cells are marginalised, these are compared on filled rows, which takes little.
    """
    rng = np.random.default_rng(seed)
    filled, c = start.filled, start.n_components
    runs = [_run(filled, _starting_shares(filled.rows, c, rng), max_iter) for _ in range(n_init)]
    best = _best(runs, c, together=bool(start.density.tied.any()) or start.unlabelled is not None)
    if start.density.marginalises and filled is not start:
        return _run(start, best.shares, max_iter)
    return best


def _best(runs: Sequence[FromStart], n_components: int, *, together: bool) -> FromStart:
    """Return the best run; where classes are separate problems, each one's own best."""
    if together:
        return max(runs, key=lambda run: float(run.likelihood.sum()))
    pick = np.argmax([run.likelihood[:-1] for run in runs], axis=0)
    chosen = list(enumerate(runs[r] for r in np.repeat(pick, n_components)))
    natural = np.array([run.parameters.natural[s] for s, run in chosen])
    offset = np.array([run.parameters.offset[s] for s, run in chosen])
    return FromStart(
        likelihood=np.max([run.likelihood for run in runs], axis=0),
        parameters=Parameters(natural, offset),
        mass=np.array([run.mass[s] for s, run in chosen]),
        counts=np.array([run.counts[s] for s, run in chosen]),
        sums=np.array([run.sums[s] for s, run in chosen]),
        shares=np.stack([run.shares[:, s] for s, run in chosen], axis=1),
    )


def _run(start: Start, shares: Floats, max_iter: int) -> FromStart:
    """Return where EM leads from the rows' shares in the states."""
    rows, density, c, others = start.rows, start.density, start.n_components, start.unlabelled
    k, n_factors = rows.n_classes, density.n_factors
    prior_counts, prior_sums = component_prior(start.bound, c)
    total = float(rows.class_weights.sum())
    own = [(np.flatnonzero(rows.codes == code), slice(code * c, code * c + c)) for code in range(k)]

    def by_class(function: Callable[[Integers, slice], Any]) -> list[Any]:
        """Return sums over the rows of each class, which are of its states alone."""
        return [block_sum(partial(_within, function, *pair), pair[0].size) for pair in own]

    def moments(X: Any, given: Any, q: Floats) -> tuple[Floats, Floats, Floats]:
        mass = q.sum(axis=0)
        counts = np.repeat(mass[:, None], n_factors, axis=1)
        left_out = density.left_out(X)
        if left_out is not None:
            counts -= q.T @ left_out
        return mass, counts, density.conditional_sums(given, q)

    def weighted(index: Integers, states: slice) -> Floats:
        weights, q = rows.block_weights(index), shares[index, states]
        return q if weights is None else q * weights[:, None]

    def of_labelled(function: Callable[[Integers, slice], Any]) -> list[Floats]:
        return [np.concatenate(parts) for parts in zip(*by_class(function), strict=True)]

    def begun(index: Integers, states: slice) -> tuple[Floats, Floats, Floats]:
        X = rows.block(index)
        return moments(X, density.conditional(X, natural[states]), weighted(index, states))

    def of_others(natural: Floats, log_shares: Floats) -> tuple[float, Floats, Floats, Floats]:
        """Return γ Σ w log Σ_r π_k p_r|k f_r, and the moments of these rows."""
        assert others is not None

        def block(span: slice) -> tuple[float, Floats, Floats, Floats]:
            X, weights = block_of(others.X, span), others.weights[span]
            given, A = density.conditional(X, natural), density.log_partition(natural)
            scores = density.conditional_scores(given, natural, A) - A.sum(axis=1)
            log_sum, q = log_normalise(scores + log_shares)
            return float(weights @ log_sum), *moments(X, given, q * weights[:, None])

        return block_sum(block, others.weights.size)

    before, natural, more = -np.inf, start.one_density, None
    likelihood = np.zeros(k + 1)
    mass, counts, sums = of_labelled(begun)
    for _ in range(max_iter):
        every = mass, counts, sums
        if more is not None:
            every = mass + more[0], counts + more[1], sums + more[2]
        all_mass, all_counts, all_sums = every
        natural = density.estimate(all_counts + prior_counts, all_sums + prior_sums)
        log_share = np.log(np.maximum(all_mass, 1e-12) / total)
        if others is not None:
            within = (
                log_share.reshape(k, c)
                - np.logaddexp.reduce(log_share.reshape(k, c), axis=1)[:, None]
            )
            with np.errstate(divide="ignore"):
                of_class = np.log(rows.class_weights / total)
            log_share = (of_class[:, None] + within).ravel()
        partition = density.log_partition(natural)
        parameters = Parameters(natural, log_share - partition.sum(axis=1))

        def step(index: Integers, states: slice, at: Parameters = parameters) -> tuple[Floats, ...]:
            X, natural = rows.block(index), at.natural[states]
            given, A = density.conditional(X, natural), density.log_partition(natural)
            scores = density.conditional_scores(given, natural, A) + at.offset[states]
            log_sum, shares[index, states] = log_normalise(scores)
            weights = rows.block_weights(index)
            value = log_sum.sum() if weights is None else log_sum @ weights
            return np.array([value]), *moments(X, given, weighted(index, states))

        likelihood[:k], mass, counts, sums = of_labelled(step)
        if others is not None:
            likelihood[k], *more = of_others(natural, (within + others.log_shares[:, None]).ravel())
        penalty = float((natural * prior_sums).sum() - np.vdot(partition, prior_counts))
        now = (float(likelihood.sum()) + penalty) / total
        if now - before < _EM_TOL:
            break
        before = now
    return FromStart(likelihood, parameters, mass, counts, sums, shares)


def _within(
    function: Callable[[Integers, slice], Any], index: Integers, states: slice, span: slice
) -> Any:
    """Return what a function gives of one block of a class's rows."""
    return function(index[span], states)


def _starting_shares(rows: LabelledRows, n_components: int, rng: np.random.Generator) -> Floats:
    """Return hard assignments to spread-out rows of the class (k-means++), from sorted rows."""
    shares = np.zeros((rows.n_samples, rows.n_classes * n_components))
    X = np.asarray(rows.X, dtype=np.float64)
    weights = np.ones(rows.n_samples) if rows.weights is None else rows.weights
    absent = np.isnan(X)
    if absent.any():  # of what is no number the mean says nothing
        seen = np.maximum(weights @ ~absent, 1e-300)
        X = np.where(absent, weights @ np.where(absent, 0.0, X) / seen, X)
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
