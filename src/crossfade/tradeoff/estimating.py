"""The equations that a fit solves, row by row: each row's part of ∇Φ_λ, and their derivative."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from crossfade._typing import Floats, Integers
from crossfade.blocks import block_sum
from crossfade.densities.filling import STEP
from crossfade.table.documents import block_of
from crossfade.tradeoff.labelled_rows import OtherRows, log_normalise
from crossfade.tradeoff.mixture import MixtureObjective
from crossfade.tradeoff.objective import TradeoffObjective

#: Relative step of the derivatives of a prior.
_STEP = 1e-5

#: Doubles of a block's gradients of rows without a label: 4 MB.
_BLOCK_DOUBLES = 524_288


def curvature(objective: TradeoffObjective, theta: Floats) -> Floats:
    """Return the Hessian at a minimum, rows without a label counted.

    What EM takes for curvature counts their labels as known; less by what not knowing them loses,
    it is that of their own likelihood (Louis 1982).
    """
    others = objective.unlabelled
    if isinstance(objective, MixtureObjective):
        return objective.exact_curvature(theta)
    if others is None:
        return _of_known_labels(objective, theta)
    gradients, n_rows = _class_gradients(objective, theta), others.weights.size

    def lost(span: slice) -> Floats:
        shares, by_class = gradients(span)
        weights = others.weights[span][:, None]
        mean, found = np.zeros((len(shares), theta.size)), np.zeros((theta.size, theta.size))
        for k, (columns, each) in enumerate(by_class):
            weighed = shares[:, k, None] * each
            mean[:, columns] += weighed
            found[np.ix_(columns, columns)] += each.T @ (weights * weighed)
        return found - mean.T @ (weights * mean)

    whole, _ = objective.completed(theta)
    block_rows = max(1, _BLOCK_DOUBLES // theta.size)
    missed: Floats = block_sum(lost, n_rows, block_rows=block_rows)
    return _of_known_labels(whole, theta) - objective.tradeoff * missed


def _of_known_labels(objective: TradeoffObjective, theta: Floats) -> Floats:
    if not objective.density.reads_words:
        return objective.curvature(theta)
    product = objective.curvature_product(theta)  # which knows what is penalised of words
    H = np.stack([product(one) for one in np.eye(theta.size)])
    if objective.tradeoff == 0.0:
        return H
    # Adding a constant to the weights of all words, and taking it off the offset, changes nothing.
    passes, size = objective.passes, float(np.trace(H)) / len(H)
    for factor in np.flatnonzero(objective.density.word_factors):
        for k in range(passes.n_classes):
            own = np.where(passes.factors == factor, passes.scale, 0.0)[passes.free]
            pinned = np.zeros(theta.size)
            pinned[k * passes.n_free : (k + 1) * passes.n_free] = own
            pinned[passes.n_classes * passes.n_free + k] = -1.0
            H += size / (pinned @ pinned) * np.outer(pinned, pinned)
    return H


def unlabelled_gradients(objective: TradeoffObjective, theta: Floats) -> Callable[[slice], Floats]:
    """Return what gives a block's gradients of Φ_λ by row without a label, γ among them."""
    gradients, others = _class_gradients(objective, theta), objective.unlabelled
    assert others is not None
    lam = objective.tradeoff * others.counts

    def block(span: slice) -> Floats:
        shares, by_class = gradients(span)
        found = np.zeros((len(shares), theta.size))
        for k, (columns, each) in enumerate(by_class):
            found[:, columns] -= lam * shares[:, k, None] * each
        return found

    return block


def _class_gradients(
    objective: TradeoffObjective, theta: Floats
) -> Callable[[slice], tuple[Floats, list[tuple[Integers, Floats]]]]:
    """Return what gives a block's posteriors without a label, and ∇ log f_k in some parameters.

    Of mixtures these are by component, and of log f times the component's share of its class.
    """
    passes, density, others = objective.passes, objective.density, objective.unlabelled
    assert others is not None
    if isinstance(objective, MixtureObjective):
        of_states, at, maps = objective.others_at(theta)
        places = np.arange(theta.size)

        def by_component(span: slice) -> tuple[Floats, list[tuple[Integers, Floats]]]:
            Z, shares, _ = of_states.design(span, *at)
            return shares, [(places, own @ to) for own, to in zip(Z, maps, strict=True)]

        return by_component
    natural = objective.parameters(theta).natural
    partition, mean = density.log_partition(natural), density.mean(natural)
    k, p = passes.n_classes, passes.n_free
    order = np.concatenate([np.flatnonzero(passes.free), np.flatnonzero(passes.tied)])
    tied = np.arange(k * (p + 1), theta.size)
    columns = [np.concatenate([np.arange(c * p, c * p + p), tied]) for c in range(k)]

    def block(span: slice) -> tuple[Floats, list[tuple[Integers, Floats]]]:
        X = block_of(others.X, span)
        scores = density.relative_log_density(X, natural, partition) + others.log_shares
        left_out, statistics = density.left_out(X), density.sufficient_statistics(X)
        present = np.ones((1, 1)) if left_out is None else (1.0 - left_out)[:, passes.factors]
        each = [((statistics - present * one) / passes.scale)[:, order] for one in mean]
        return log_normalise(scores)[1], list(zip(columns, each, strict=True))

    return block


def _of_shares(objective: TradeoffObjective, theta: Floats) -> Floats | None:
    """Return what a labelled row of each class adds by way of the shares of rows without a label.

    Shapes: → (n_classes, n_parameters); None where no row does.
    """
    others = objective.unlabelled
    if others is None or not others.shares_of_rows:
        return None
    gradients, rows = _class_gradients(objective, theta), objective.rows
    k, n_components = rows.n_classes, objective.passes.n_classes // rows.n_classes

    def block(span: slice) -> Floats:
        shares, by_state = gradients(span)
        weights = others.weights[span][:, None]
        mean = np.zeros((len(shares), theta.size))
        found = np.zeros((k, theta.size))
        for r, (columns, each) in enumerate(by_state):
            weighed = shares[:, r, None] * each
            mean[:, columns] += weighed
            found[r // n_components, columns] += (weights * weighed).sum(axis=0)
        of_classes = shares.reshape(len(shares), k, n_components).sum(axis=2)
        return found - (of_classes * weights).T @ mean

    block_rows = max(1, _BLOCK_DOUBLES // theta.size)
    pulls: Floats = block_sum(block, others.weights.size, block_rows=block_rows)
    return -objective.tradeoff * pulls / rows.class_weights[:, None]


def row_gradients(objective: TradeoffObjective, theta: Floats) -> Callable[..., Floats]:
    """Return what gives a block's gradients of Φ_λ by row, (n_rows, n_parameters).

    Summed with the rows' weights they are the gradient but for the penalty and a fixed prior. With
    weights (n_sums, n_rows) as a second argument, these sums, which take less.
    """
    moving, filling = _moving_prior(objective, theta), objective.density.filling
    own = _own_gradients(objective, theta, moving, objective.rows.X, filling)
    by_shares, codes = _of_shares(objective, theta), objective.rows.codes

    def block(span: slice | Integers, combined: Floats | None = None) -> Floats:
        found = own(span, combined)
        if by_shares is None:
            return found
        of_shares = by_shares[codes[span]]
        return found + (of_shares if combined is None else combined @ of_shares)

    return block


def filling_slopes(fits: Sequence[tuple[TradeoffObjective, Floats]]) -> list[Floats]:
    """Return the derivatives of ∇Φ_λ in the numbers that cells are filled by, of each fit.

    Shapes: → of each fit (n_numbers, n_parameters).
    """
    first = fits[0][0]
    density, rows, others = first.density, first.rows, first.rows.unlabelled
    rows = rows.take(np.flatnonzero(np.isnan(rows.X).any(axis=1)))
    weights = np.ones(rows.n_samples) if rows.weights is None else rows.weights
    if others is not None:
        gone = np.isnan(others.X).any(axis=1)
        others = OtherRows(others.X[gone], others.often[gone])
    priors = [_moving_prior(objective, theta) for objective, theta in fits]

    def totals(values: Floats) -> list[Floats]:
        filled = replace(rows, X=density.filled_cells(rows.X, values))
        rest = None
        if others is not None:
            rest = replace(others, X=density.filled_cells(others.X, values))
        found = []
        for (objective, theta), moving in zip(fits, priors, strict=True):
            passes, counted = objective.passes.over(filled), objective.unlabelled
            moved = replace(objective, passes=passes)
            own = _own_gradients(moved, theta, moving, rows.X, values)
            total = np.zeros(theta.size)
            for start in range(0, rows.n_samples, passes.block_rows):
                span = slice(start, min(start + passes.block_rows, rows.n_samples))
                total += own(span, weights[None, span])[0]
            if counted is not None and rest is not None and rest.often.size:
                moved = replace(moved, unlabelled=counted.over(rest))
                total += rest.often @ unlabelled_gradients(moved, theta)(slice(0, rest.often.size))
            found.append(total)
        return found

    at, slopes = density.filling, []
    for step in STEP * np.eye(at.size):
        ends = zip(totals(at + step), totals(at - step), strict=True)
        slopes.append([(ahead - behind) / (2.0 * STEP) for ahead, behind in ends])
    return [np.array(own) for own in zip(*slopes, strict=True)]


def _own_gradients(
    objective: TradeoffObjective,
    theta: Floats,
    moving: tuple[Sequence[Floats], Sequence[Floats]] | None,
    cells: Any,
    filling: Floats,
) -> Callable[[slice | Integers, Floats | None], Floats]:
    """Return what gives a block's gradients but for the shares of rows without a label.

    By row, or of sums of rows as `combined` (n_sums, n_rows) makes them. `cells`: The rows before
    they were filled by `filling`.
    """
    passes, lam, density = objective.passes, objective.tradeoff, objective.density
    maps, at = passes.coefficient_maps(theta), passes.row_coefficients(theta)
    n_classes, n_tied, codes = passes.n_classes, passes.n_tied, objective.rows.codes
    constant = lam * _normaliser_gradient(objective, theta) if lam > 0.0 else None

    def block(span: slice | Integers, combined: Floats | None) -> Floats:
        Z, posterior, _ = passes.design(span, *at)
        own = codes[span]
        member = (own[:, None] == np.arange(objective.rows.n_classes)).astype(np.float64)
        residual = (1.0 - lam) * posterior - objective.own_shares(span, posterior)
        size = own.size if combined is None else len(combined)

        def over(by_row: Floats) -> Floats:
            return by_row if combined is None else np.asarray(combined @ by_row)

        found, by_state = (
            np.zeros((size, theta.size)),
            np.broadcast_to(Z, (n_classes, *Z.shape[-2:])),
        )
        for k in range(n_classes):
            found += over(by_state[k] * residual[:, k, None]) @ maps[k]
        if constant is not None:
            found += over(np.ones((own.size, 1))) * constant
            if n_tied:
                found[:, -n_tied:] -= lam * over(passes.tied_statistics(span))
        rest = density.left_over(block_of(cells, span), filling) if lam > 0.0 else None
        if rest is not None:
            scaled = lam * rest / passes.scale
            for k in range(n_classes):
                places = slice(k * passes.n_free, (k + 1) * passes.n_free)
                found[:, places] -= over(scaled[:, passes.free] * member[:, k, None])
            if n_tied:
                found[:, -n_tied:] -= over(scaled[:, passes.tied])
        if moving is not None:
            X = objective.rows.block(span)
            left_out, statistics = density.left_out(X), density.sufficient_statistics(X)
            statistics += 0.0 if rest is None else rest
            there = np.ones((own.size, density.n_factors)) if left_out is None else 1.0 - left_out
            for k in range(n_classes):
                found += lam * over(there * member[:, k, None]) @ moving[0][k]
                found += lam * over(statistics * member[:, k, None]) @ moving[1][k]
        return found

    return block


def _normaliser_gradient(objective: TradeoffObjective, theta: Floats) -> Floats:
    """Return the gradient of log Z."""
    passes = objective.passes
    at, offsets = passes.at(theta), passes.split(theta)[1]
    log_terms = offsets + at.partition.sum(axis=1)
    share = np.exp(log_terms - np.logaddexp.reduce(log_terms))
    slope = share[:, None] * at.slope
    tied = slope[:, passes.tied].sum(axis=0) if passes.n_tied else np.zeros(0)
    return objective.join(slope[:, passes.free], share, tied)


def _moving_prior(
    objective: TradeoffObjective, theta: Floats
) -> tuple[Sequence[Floats], Sequence[Floats]] | None:
    """Return how a row of each class moves the prior's gradient: by factor, and by statistic.

    A factor's prior follows from that factor's rows: one number of each is moved at a time.
    """
    density, bound, passes = objective.density, objective.bound, objective.passes
    if not (objective.tradeoff > 0.0 and objective.exact_labels):
        return None
    if density.prior_of_sums(bound.counts, bound.sums) is None:
        return None
    slope, factors, step = passes.at(theta).slope, passes.factors, _STEP * passes.total

    def pulls(counts: Floats, sums: Floats) -> Floats:
        prior = density.prior_of_sums(counts, sums)
        assert prior is not None
        by_statistic = prior[0][:, factors]
        pull = slope * by_statistic - (prior[1] - by_statistic * passes.mean) / passes.scale
        return np.asarray(pull)

    def derivatives(counts: Floats, sums: Floats, moved: Integers) -> Floats:
        """Return those in a number of each of some factors, by these factors."""
        ahead = pulls(bound.counts + step * counts, bound.sums + step * sums)
        change = (ahead - pulls(bound.counts - step * counts, bound.sums - step * sums)) / (
            2 * step
        )
        found = np.zeros((moved.size, theta.size))
        for row, factor in zip(found, moved, strict=True):
            own = np.where(factors == factor, change, 0.0)
            tied = own[:, passes.tied].sum(axis=0) if passes.n_tied else np.zeros(0)
            row[:] = objective.join(own[:, passes.free], np.zeros(passes.n_classes), tied)
        return found

    every, constants, slopes = np.arange(density.n_factors), [], []
    number = np.zeros(factors.size, dtype=np.int64)  # of a statistic in its factor
    for factor in every:
        own = np.flatnonzero(factors == factor)
        number[own] = np.arange(own.size)
    no_counts, no_sums = np.zeros_like(bound.counts), np.zeros_like(bound.sums)
    for k in range(passes.n_classes):
        counts = no_counts.copy()
        counts[k] = 1.0
        constants.append(derivatives(counts, no_sums, every))
        by_statistic = np.zeros((factors.size, theta.size))
        for one in range(number.max(initial=-1) + 1):
            moved = np.flatnonzero(number == one)
            sums = no_sums.copy()
            sums[k, moved] = 1.0
            by_statistic[moved] = derivatives(no_counts, sums, factors[moved])
        slopes.append(by_statistic)
    return constants, slopes
