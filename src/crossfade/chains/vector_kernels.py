"""Sums and maxima over the rows of a small matrix, written out as vector instructions.

The inner loops of the chain recursions run over states. A compiler that makes vector loops of them
takes sixteen numbers at a time, checks before each loop that arrays do not overlap, and does what
is left over one by one: with ten states that is all of it. Here columns are taken 16, 8, 4, 2 and 1
at a time, their results staying in registers while the rows go by. With plain loops in their place
the cases of ``python -m benchmarks --only HMM`` take 1.2 to 2.7 times the CPU time.

These are intrinsics, part of the function that calls them: handing arrays to a compiled function
counts references to each of them, which at every step would cost as much as the work itself. Arrays
are C-ordered float64, and what is written must not be a row that is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import NumbaTypeError
from numba.extending import intrinsic

#: Rows taken together, each with results of its own, so that none waits for the one before. Four
#: cost a quarter more time to compile, and are no faster.
_TOGETHER = 2

#: Columns taken together as long as there are so many; then half of them, and so on.
_WIDEST = 16

#: From what is there and an entry's weight and row (vectors all) to what is there next.
_Step = Callable[["_Code", Any, Any, Any], Any]

#: The C-ordered float64 matrix an argument stands for: where it begins, its rows, its columns.
_Matrix = tuple[Any, Any, Any]


class _Code:
    """Instructions being written, on vectors of one width."""

    def __init__(self, builder: Any, width: int) -> None:
        self.builder, self.width = builder, width
        self.vector = ir.VectorType(ir.DoubleType(), width)

    def place(self, matrix: _Matrix, row: Any, column: Any) -> Any:
        """Return where an entry stands."""
        before = self.builder.mul(row, matrix[2])
        return self.builder.gep(matrix[0], [self.builder.add(before, column)])

    def load(self, matrix: _Matrix, row: Any, column: Any) -> Any:
        """Return the entries from this one on."""
        place = self.builder.bitcast(self.place(matrix, row, column), self.vector.as_pointer())
        return self.builder.load(place, align=8)

    def store(self, values: Any, matrix: _Matrix, row: Any, column: Any) -> None:
        """Overwrite the entries from this one on."""
        place = self.builder.bitcast(self.place(matrix, row, column), self.vector.as_pointer())
        self.builder.store(values, place, align=8)

    def spread(self, number: Any) -> Any:
        """Return a number in all lanes."""
        integer = ir.IntType(32)
        empty = ir.Constant(self.vector, ir.Undefined)
        single = self.builder.insert_element(empty, number, ir.Constant(integer, 0))
        lanes = ir.Constant(ir.VectorType(integer, self.width), [0] * self.width)
        return self.builder.shuffle_vector(single, single, lanes)


def _multiply_add(code: _Code, total: Any, weight: Any, row: Any) -> Any:
    product = code.builder.fmul(weight, row, flags=("contract",))
    return code.builder.fadd(total, product, flags=("contract",))


def _add(code: _Code, one: Any, other: Any) -> Any:
    return code.builder.fadd(one, other)


def _larger_sum(code: _Code, best: Any, weight: Any, row: Any) -> Any:
    return _larger(code, best, code.builder.fadd(weight, row))


def _larger(code: _Code, one: Any, other: Any) -> Any:
    return code.builder.select(code.builder.fcmp_ordered(">", other, one), other, one)


def _over_rows(
    code: _Code,
    rows: _Matrix,
    column: Any,
    weight: Callable[[Any], Any],
    first: Any,
    nothing: float,
    step: _Step,
    join: Callable[[_Code, Any, Any], Any],
) -> Any:
    """Return what all ``weight(j)`` and ``rows[j, column : column + width]`` come to."""
    builder = code.builder
    start = ir.Constant(code.vector, [nothing] * code.width)
    results = [cgutils.alloca_once_value(builder, start) for _ in range(_TOGETHER)]
    if first is not None:
        builder.store(first, results[0])

    def take(j: Any, result: Any) -> None:
        entry = code.spread(builder.load(weight(j)))
        row = code.load(rows, j, column)
        builder.store(step(code, builder.load(result), entry, row), result)

    n_rows = rows[1]
    together, zero = ir.Constant(n_rows.type, _TOGETHER), ir.Constant(n_rows.type, 0)
    whole = builder.sub(n_rows, builder.urem(n_rows, together))
    with cgutils.for_range_slice(builder, zero, whole, together, inc=True) as (j, _):
        for i, result in enumerate(results):
            take(builder.add(j, ir.Constant(j.type, i)), result)
    for i, result in enumerate(results[1:]):
        j = builder.add(whole, ir.Constant(n_rows.type, i))
        with builder.if_then(builder.icmp_signed("<", j, n_rows)):
            take(j, result)
    values = [builder.load(result) for result in results]
    while len(values) > 1:
        values = [join(code, values[i], values[i + 1]) for i in range(0, len(values), 2)]
    return values[0]


def _arguments(context: Any, builder: Any, signature: Any, values: Any) -> list[Any]:
    """Return a function's arguments, of each array its :data:`_Matrix`."""
    found: list[Any] = []
    for kind, value in zip(signature.args, values, strict=True):
        if isinstance(kind, types.Array):
            if kind.layout != "C" or kind.ndim != 2 or kind.dtype != types.float64:
                raise NumbaTypeError(f"expected C-ordered matrices of float64, got {kind}")
            array = context.make_array(kind)(context, builder, value)
            found.append((array.data, *cgutils.unpack_tuple(builder, array.shape, 2)))
        else:
            found.append(value)
    return found


def _counted(builder: Any, matrix: _Matrix, row: Any) -> Any:
    """Return a row's number where -1 stands for the last one."""
    negative = builder.icmp_signed("<", row, ir.Constant(row.type, 0))
    return builder.select(negative, builder.add(row, matrix[1]), row)


def _each_vector(builder: Any, n_columns: Any, write: Callable[[_Code, Any], None]) -> None:
    """Write ``write(code, column)`` for all columns, in order."""

    def number(value: int) -> Any:
        return ir.Constant(n_columns.type, value)

    whole = builder.and_(n_columns, number(-_WIDEST))
    with cgutils.for_range_slice(builder, number(0), whole, number(_WIDEST), inc=True) as (at, _):
        write(_Code(builder, _WIDEST), at)
    width = _WIDEST // 2
    while width:
        left = builder.and_(n_columns, number(width))
        with builder.if_then(builder.icmp_signed("!=", left, number(0))):
            write(_Code(builder, width), builder.and_(n_columns, number(-2 * width)))
        width //= 2


@intrinsic
def weighted_rows(typing: Any, weights: Any, at: Any, rows: Any, totals: Any, to: Any) -> Any:
    """Write Σ_j weights[at, j] rows_j to ``totals[to]``."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        weights, at, rows, totals, to = _arguments(context, builder, signature, values)

        def write(code: _Code, column: Any) -> None:
            def weight(j: Any) -> Any:
                return code.place(weights, at, j)

            total = _over_rows(code, rows, column, weight, None, 0.0, _multiply_add, _add)
            code.store(total, totals, to, column)

        _each_vector(builder, rows[2], write)
        return context.get_dummy_value()

    return types.void(weights, types.intp, rows, totals, types.intp), generate


@intrinsic
def add_products(typing: Any, weights: Any, rows: Any, n_rows: Any, totals: Any) -> Any:
    """Add weightsᵀ · rows to ``totals``, of both the first ``n_rows``, which are few."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        weights, rows, n_rows, totals = _arguments(context, builder, signature, values)
        taken = (rows[0], n_rows, rows[2])
        with cgutils.for_range(builder, totals[1]) as loop:

            def write(code: _Code, column: Any) -> None:
                def weight(j: Any) -> Any:
                    return code.place(weights, j, loop.index)

                first = code.load(totals, loop.index, column)
                total = _over_rows(code, taken, column, weight, first, 0.0, _multiply_add, _add)
                code.store(total, totals, loop.index, column)

            _each_vector(builder, rows[2], write)
        return context.get_dummy_value()

    return types.void(weights, rows, types.intp, totals), generate


@intrinsic
def largest_arrivals(
    typing: Any,
    before: Any,
    at: Any,
    moves: Any,
    gains: Any,
    row: Any,
    best: Any,
    to: Any,
    after: Any,
    into: Any,
) -> Any:
    """Write max_j (before[at, j] + moves_j) to ``best[to]``, plus gains[row] to ``after[into]``.

    A row of -1 is the last one.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        before, at, moves, gains, row, best, to, after, into = _arguments(
            context, builder, signature, values
        )
        row = _counted(builder, gains, row)

        def write(code: _Code, column: Any) -> None:
            def weight(j: Any) -> Any:
                return code.place(before, at, j)

            largest = _over_rows(code, moves, column, weight, None, -np.inf, _larger_sum, _larger)
            code.store(largest, best, to, column)
            code.store(_add(code, largest, code.load(gains, row, column)), after, into, column)

        _each_vector(builder, moves[2], write)
        return context.get_dummy_value()

    whole = types.intp
    return types.void(before, whole, moves, gains, whole, best, whole, after, whole), generate


@intrinsic
def first_origin(
    typing: Any, best: Any, at: Any, gains: Any, row: Any, moves: Any, state: Any, value: Any
) -> Any:
    """Return the first j with (best[at, j] + gains[row, j]) + moves[state, j] = ``value``, else 0.

    A row of -1 is the last one. Which j it is decides no jump, since no processor could foresee it.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        best, at, gains, row, moves, state, value = _arguments(context, builder, signature, values)
        row = _counted(builder, gains, row)
        none = best[2]
        found = cgutils.alloca_once_value(builder, none)

        def write(code: _Code, column: Any) -> None:
            here = _add(code, code.load(best, at, column), code.load(gains, row, column))
            total = _add(code, here, code.load(moves, state, column))
            equal = builder.fcmp_ordered("==", total, code.spread(value))
            bits = builder.zext(builder.bitcast(equal, ir.IntType(code.width)), none.type)
            lowest = builder.cttz(bits, ir.Constant(ir.IntType(1), 0))
            any_here = builder.icmp_signed("!=", bits, ir.Constant(none.type, 0))
            any_before = builder.icmp_signed("!=", builder.load(found), none)
            new = builder.and_(any_here, builder.not_(any_before))
            chosen = builder.select(new, builder.add(column, lowest), builder.load(found))
            builder.store(chosen, found)

        _each_vector(builder, none, write)
        last = builder.load(found)
        nowhere = builder.icmp_signed("==", last, none)
        return builder.select(nowhere, ir.Constant(none.type, 0), last)

    whole = types.intp
    arguments = (best, whole, gains, whole, moves, whole, types.float64)
    return whole(*arguments), generate
