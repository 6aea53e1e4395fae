"""Sums and maxima over the rows of a small matrix, written out as vector instructions.

The inner loops of the chain recursions run over states. A compiler that makes vector loops of them
takes sixteen numbers at a time, checks before each loop that arrays do not overlap, and does what
is left over one by one: with ten states that is all of it. Here columns are taken 16, 8, 4 and 2 at
a time, their results staying in registers while the rows go by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from crossfade.densities.base import Floats

__all__ = ["add_products", "largest_arrivals", "weighted_rows"]

#: Rows taken together, each with results of its own, so that none waits for the one before.
_TOGETHER = 4

#: From the builder, what is there, a weight and a row (vectors all) to what is there next.
_Step = Callable[[Any, Any, Any, Any], Any]


def _multiply_add(builder: Any, total: Any, weight: Any, row: Any) -> Any:
    flags = ("contract",)
    return builder.fadd(total, builder.fmul(weight, row, flags=flags), flags=flags)


def _add(builder: Any, one: Any, other: Any) -> Any:
    return builder.fadd(one, other)


def _larger_sum(builder: Any, best: Any, weight: Any, row: Any) -> Any:
    return _larger(builder, best, builder.fadd(weight, row))


def _larger(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", other, one), other, one)


def _columns(
    width: int,
    step: _Step,
    join: Callable[[Any, Any, Any], Any],
    nothing: float,
    *,
    onto: bool = False,
) -> Any:
    """Return the compiled function of (weights, at, rows, totals, to, column) for some columns.

    It combines ``weights[at, j]`` and ``rows[j, column : column + width]`` over all j, and writes
    the result to ``totals[to, column : column + width]``. With `onto` it combines what is there
    with ``weights[j, at]`` and the rows. Arrays are C-ordered float64.
    """
    vector = ir.VectorType(ir.DoubleType(), width)
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args, arguments, strict=True)
            if isinstance(kind, types.Array)
        ]
        weights, rows, totals = arrays
        at, to, column = arguments[1], arguments[4], arguments[5]
        n_rows, stride = cgutils.unpack_tuple(builder, rows.shape, 2)
        weight_stride = cgutils.unpack_tuple(builder, weights.shape, 2)[1]
        total_stride = cgutils.unpack_tuple(builder, totals.shape, 2)[1]
        skipped = at if onto else builder.mul(at, weight_stride)
        first_weight = builder.gep(weights.data, [skipped])
        place = builder.gep(totals.data, [builder.add(builder.mul(to, total_stride), column)])
        first_row = builder.gep(rows.data, [column])

        def pointer(place: Any) -> Any:
            return builder.bitcast(place, vector.as_pointer())

        def combined(j: Any, before: Any) -> Any:
            index = builder.mul(j, weight_stride) if onto else j
            number = builder.load(builder.gep(first_weight, [index]))
            single = builder.insert_element(
                ir.Constant(vector, ir.Undefined), number, ir.Constant(ir.IntType(32), 0)
            )
            weight = builder.shuffle_vector(single, single, lanes)
            row = builder.load(pointer(builder.gep(first_row, [builder.mul(j, stride)])), align=8)
            return step(builder, before, weight, row)

        start = ir.Constant(vector, [nothing] * width)
        results = [cgutils.alloca_once_value(builder, start) for _ in range(_TOGETHER)]
        if onto:
            builder.store(builder.load(pointer(place), align=8), results[0])
        together = ir.Constant(n_rows.type, _TOGETHER)
        zero, one = ir.Constant(n_rows.type, 0), ir.Constant(n_rows.type, 1)
        whole = builder.sub(n_rows, builder.urem(n_rows, together))
        with cgutils.for_range_slice(builder, zero, whole, together, inc=True) as (j, _):
            for i, result in enumerate(results):
                row = builder.add(j, ir.Constant(j.type, i))
                builder.store(combined(row, builder.load(result)), result)
        with cgutils.for_range_slice(builder, whole, n_rows, one, inc=True) as (j, _):
            builder.store(combined(j, builder.load(results[0])), results[0])
        values = [builder.load(result) for result in results]
        while len(values) > 1:
            values = [join(builder, values[i], values[i + 1]) for i in range(0, len(values), 2)]
        builder.store(values[0], pointer(place), align=8)
        return context.get_dummy_value()

    @intrinsic
    def columns(
        typing: Any, weights: Any, at: Any, rows: Any, totals: Any, to: Any, column: Any
    ) -> Any:
        arguments = (weights, types.intp, rows, totals, types.intp, types.intp)
        return types.void(*arguments), generate

    return columns


_sum_16 = _columns(16, _multiply_add, _add, 0.0)
_sum_8 = _columns(8, _multiply_add, _add, 0.0)
_sum_4 = _columns(4, _multiply_add, _add, 0.0)
_sum_2 = _columns(2, _multiply_add, _add, 0.0)
_onto_16 = _columns(16, _multiply_add, _add, 0.0, onto=True)
_onto_8 = _columns(8, _multiply_add, _add, 0.0, onto=True)
_onto_4 = _columns(4, _multiply_add, _add, 0.0, onto=True)
_onto_2 = _columns(2, _multiply_add, _add, 0.0, onto=True)
_best_16 = _columns(16, _larger_sum, _larger, -np.inf)
_best_8 = _columns(8, _larger_sum, _larger, -np.inf)
_best_4 = _columns(4, _larger_sum, _larger, -np.inf)
_best_2 = _columns(2, _larger_sum, _larger, -np.inf)


@njit(nogil=True, cache=True)
def weighted_rows(weights: Floats, at: int, rows: Floats, totals: Floats, to: int) -> None:
    """Write Σ_j weights[at, j] rows_j to ``totals[to]``; not to the row that is read."""
    n_columns = rows.shape[1]
    column = 0
    while column + 16 <= n_columns:
        _sum_16(weights, at, rows, totals, to, column)
        column += 16
    if column + 8 <= n_columns:
        _sum_8(weights, at, rows, totals, to, column)
        column += 8
    if column + 4 <= n_columns:
        _sum_4(weights, at, rows, totals, to, column)
        column += 4
    if column + 2 <= n_columns:
        _sum_2(weights, at, rows, totals, to, column)
        column += 2
    if column < n_columns:
        total = 0.0
        for j in range(rows.shape[0]):
            total += weights[at, j] * rows[j, column]
        totals[to, column] = total


@njit(nogil=True, cache=True)
def add_products(weights: Floats, rows: Floats, totals: Floats) -> None:
    """Add weightsᵀ · rows to ``totals``; both have few rows, as many as each other."""
    n_columns = rows.shape[1]
    for i in range(totals.shape[0]):
        column = 0
        while column + 16 <= n_columns:
            _onto_16(weights, i, rows, totals, i, column)
            column += 16
        if column + 8 <= n_columns:
            _onto_8(weights, i, rows, totals, i, column)
            column += 8
        if column + 4 <= n_columns:
            _onto_4(weights, i, rows, totals, i, column)
            column += 4
        if column + 2 <= n_columns:
            _onto_2(weights, i, rows, totals, i, column)
            column += 2
        if column < n_columns:
            for j in range(rows.shape[0]):
                totals[i, column] += weights[j, i] * rows[j, column]


@njit(nogil=True, cache=True)
def largest_arrivals(before: Floats, at: int, moves: Floats, best: Floats, to: int) -> None:
    """Write max_j (before[at, j] + moves_j) to ``best[to]``; not to the row that is read."""
    n_columns = moves.shape[1]
    column = 0
    while column + 16 <= n_columns:
        _best_16(before, at, moves, best, to, column)
        column += 16
    if column + 8 <= n_columns:
        _best_8(before, at, moves, best, to, column)
        column += 8
    if column + 4 <= n_columns:
        _best_4(before, at, moves, best, to, column)
        column += 4
    if column + 2 <= n_columns:
        _best_2(before, at, moves, best, to, column)
        column += 2
    if column < n_columns:
        largest = -np.inf
        for j in range(moves.shape[0]):
            value = before[at, j] + moves[j, column]
            largest = value if value > largest else largest
        best[to, column] = largest
