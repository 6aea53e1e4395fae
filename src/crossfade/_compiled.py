"""Compiled code: a function on arrays becomes machine code when it is first called.

This is the one place that knows of the compiler. A kernel is a plain Python function beside its
NumPy twin, which is its specification, what a test compares it with, and what small blocks use::

    @kernel("V! V!", twin=two_classes_numpy, when=many_rows)
    def two_classes(difference, log_sum): ...

Importing a kernel loads nothing; its first call loads Numba and compiles the one signature that is
called, or reads it from Numba's cache on disk. Where no cache can be written, or its file is
damaged, the kernel is compiled all the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, update_wrapper
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Additions and multiplications may be fused; NaN and infinities keep their meaning.
FUSED = {"contract"}

#: Sums may be taken in any order as well.
REORDERED = {"contract", "reassoc"}

#: Letters of a signature: dtype and number of axes.
_ARRAYS = {
    "M": (np.float64, 2),
    "V": (np.float64, 1),
    "I": (np.int64, 1),
    "I4": (np.int32, 1),
    "M4": (np.float32, 2),
    "V4": (np.float32, 1),
}
_SCALARS = {"n": "int64", "x": "float64", "b": "boolean"}

#: Stands for an optional array that is not given.
_NOTHING = np.zeros(0)


#: Numbers of single precision that are added at once, and entries ahead of which memory is asked
#: for, by :func:`add_multiples`.
LANES = 8
_ENTRIES_AHEAD = 48


def prefetch(array: NDArray[Any], index: int) -> None:
    """Ask for an entry's line of memory before it is needed; outside compiled code, do nothing."""


def add_multiples(
    vectors: int,
    own: NDArray[Any],
    data: NDArray[Any],
    indices: NDArray[Any],
    start: int,
    end: int,
    table: NDArray[Any],
    first: int,
) -> None:
    """Add data[e] times row indices[e] of `table`, start ≤ e < end, to `own`, in single precision.

    Of 8 `vectors` columns from `first` on, which stay in registers: as loops over arrays, that
    might overlap, each entry's would be loaded and stored. `vectors`: A literal number.
    """
    some, columns = slice(start, end), slice(first, first + LANES * vectors)
    own[columns] += data[some].astype(np.float32) @ table[indices[some], columns]


@cache
def _compile_intrinsics() -> None:
    """Tell the compiler what :func:`prefetch` and :func:`add_multiples` are."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic, overload

    number, long = ir.IntType(32), ir.IntType(64)
    single, vector = ir.FloatType(), ir.VectorType(ir.FloatType(), LANES)

    def ask(builder: Any, pointer: Any) -> None:
        at = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [at, number, number, number])
        call = builder.module.declare_intrinsic("llvm.prefetch", (at,), kind)
        # To be read, kept in all levels, data.
        builder.call(call, [builder.bitcast(pointer, at), number(0), number(3), number(1)])

    @intrinsic
    def line(typing: Any, array: Any, index: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, given[0]).data
            ask(builder, builder.gep(data, [given[1]]))
            return context.get_dummy_value()

        return types.void(array, types.int64), code

    @intrinsic(prefer_literal=True)
    def rows(
        typing: Any,
        vectors: Any,
        own: Any,
        data: Any,
        indices: Any,
        start: Any,
        end: Any,
        table: Any,
        first: Any,
    ) -> Any:
        def code(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            sums, values, places, cells = (
                context.make_array(signature.args[i])(context, builder, given[i])
                for i in (1, 2, 3, 6)
            )
            width = cgutils.unpack_tuple(builder, cells.shape, 2)[1]
            last = builder.sub(cgutils.unpack_tuple(builder, places.shape, 1)[0], long(1))

            def lanes(pointer: Any, k: int) -> Any:
                return builder.bitcast(builder.gep(pointer, [long(k * LANES)]), vector.as_pointer())

            def row(e: Any) -> Any:
                place = builder.load(builder.gep(places.data, [e]))
                place = place if place.type == long else builder.zext(place, long)
                return builder.gep(cells.data, [builder.add(builder.mul(place, width), given[7])])

            target = builder.gep(sums.data, [given[7]])
            kept = [cgutils.alloca_once(builder, vector) for _ in range(vectors.literal_value)]
            for k, one in enumerate(kept):
                builder.store(builder.load(lanes(target, k), align=4), one)
            with cgutils.for_range_slice(builder, given[4], given[5], long(1), long) as (e, _):
                ahead = builder.add(e, long(_ENTRIES_AHEAD))
                ahead = row(builder.select(builder.icmp_signed("<", ahead, last), ahead, last))
                for k in range(0, len(kept), 2):
                    ask(builder, lanes(ahead, k))
                value = builder.fptrunc(builder.load(builder.gep(values.data, [e])), single)
                nothing = ir.Constant(vector, ir.Undefined)
                value = builder.insert_element(nothing, value, number(0))
                each = ir.Constant(ir.VectorType(number, LANES), [0] * LANES)
                value, source = builder.shuffle_vector(value, nothing, each), row(e)
                for k, one in enumerate(kept):
                    term = builder.fmul(
                        value, builder.load(lanes(source, k), align=4), flags=("contract",)
                    )
                    total = builder.fadd(builder.load(one), term, flags=("contract",))
                    builder.store(total, one)
            for k, one in enumerate(kept):
                builder.store(builder.load(one), lanes(target, k), align=4)
            return context.get_dummy_value()

        long_type = types.int64
        return types.void(vectors, own, data, indices, long_type, long_type, table, long_type), code

    overload(prefetch)(lambda array, index: lambda array, index: line(array, index))
    overload(add_multiples, prefer_literal=True)(
        lambda vectors, own, data, indices, start, end, table, first: (
            lambda vectors, own, data, indices, start, end, table, first: rows(
                vectors, own, data, indices, start, end, table, first
            )
        )
    )


class Kernel:
    """A function on arrays, compiled by Numba when it is first called.

    `twin` has the same arguments. A kernel without signatures is compiled for each kind of
    arguments that it is called with, and may be called by other kernels.
    """

    def __init__(
        self,
        loop: Callable[..., Any],
        signatures: tuple[str, ...],
        twin: Callable[..., Any] | None,
        when: Callable[..., bool],
        options: dict[str, Any],
    ) -> None:
        update_wrapper(self, loop)
        self.py_func, self.twin, self.when, self.targetoptions = loop, twin, when, options
        self.signatures, self._letters = signatures, tuple(s.split() for s in signatures)
        self._dtypes = tuple(tuple(map(_dtype, letters)) for letters in self._letters)
        self._overwritten = tuple(
            tuple((i, _dtype(one)) for i, one in enumerate(letters) if one.endswith("!"))
            for letters in self._letters
        )
        self._code: dict[int, Any] = {}

    def __call__(self, *arguments: Any) -> Any:
        if not self._letters:
            return self._machine_code(0)(*arguments)
        given = tuple(_NOTHING if a is None else a for a in arguments)
        fitting = None
        if self.when(*given):
            fitting = self._fitting(given)
        if fitting is None:
            assert self.twin is not None
            return self.twin(*given)
        pairs = zip(given, self._dtypes[fitting], strict=True)
        return self._machine_code(fitting)(*[_plain(a, dtype) for a, dtype in pairs])

    def __reduce__(self) -> str:
        return str(self.py_func.__qualname__)

    @property
    def _numba_type_(self) -> Any:  # what other kernels see
        return self._machine_code(0)._numba_type_

    def _fitting(self, arguments: tuple[Any, ...]) -> int | None:
        """Return the signature that fits and converts fewest arrays, None where none fits."""
        # The arrays that a signature overwrites must be laid out as it expects.
        known = [
            index
            for index, overwritten in enumerate(self._overwritten)
            if all(_is_plain(arguments[i], dtype) for i, dtype in overwritten)
        ]
        if len(known) < 2:
            return known[0] if known else None

        def conversions(index: int) -> int:
            pairs = zip(arguments, self._dtypes[index], strict=True)
            return sum(dtype is not None and not _is_plain(a, dtype) for a, dtype in pairs)

        return min(known, key=conversions)

    def _machine_code(self, index: int) -> Any:
        return self._code.get(index) or self._compile(index)

    def _compile(self, index: int) -> Any:
        from numba import njit
        from numba.core import config
        from numba.core.compiler_lock import global_compiler_lock

        if config.DISABLE_JIT:
            return self.twin or self.py_func
        with global_compiler_lock:
            _compile_intrinsics()
            if index not in self._code:
                code = njit(**self.targetoptions)(self.py_func)
                files = _cache_files(self.py_func)
                if files is not None:
                    code._cache = files
                if self._letters:
                    code.compile(tuple(map(_numba_type, self._letters[index])))
                    code.disable_compile()
                self._code[index] = code
        return self._code[index]


def kernel(
    *signatures: str,
    twin: Callable[..., Any] | None = None,
    when: Callable[..., bool] = lambda *_: True,
    **options: Any,
) -> Callable[[Callable[..., Any]], Kernel]:
    """Make a kernel of a function; where `when(*arguments)` is false, the twin is called.

    A signature has one letter for each argument: M matrix, V vector, I vector of int64, n int, x
    float, b bool; M4 and V4 hold float32, I4 int32. Arrays marked "!" are overwritten: where they
    are not aligned, C-ordered and of that dtype, the twin is used. Others are converted; None is
    empty.
    """
    assert twin is not None or not signatures
    options = {"nogil": True, "error_model": "numpy", **options}
    return lambda loop: Kernel(_named(loop), signatures, twin, when, options)


def _named(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Name a function that is made several times after the kernels that it calls.

    Symbols of machine code are made of names. Of two of one name, read from the caches of two
    processes, the one would be run in place of the other.
    """
    called = (cell.cell_contents for cell in getattr(loop, "__closure__", None) or ())
    names = [one.py_func.__name__ for one in called if isinstance(one, Kernel)]
    if names:
        loop.__qualname__ = "_".join([loop.__qualname__, *names])
    return loop


def _is_plain(array: NDArray[Any], dtype: Any) -> bool:
    flags = array.flags
    return array.dtype == dtype and flags.c_contiguous and flags.aligned


def _plain(argument: Any, dtype: Any) -> Any:
    """Return an array aligned, C-ordered and of the dtype; itself where it is already, or none."""
    if dtype is None or _is_plain(argument, dtype):
        return argument
    return np.require(argument, dtype, ["C", "A"])


def _dtype(letter: str) -> Any:
    """Return the dtype of an array's letter, None for a number's."""
    dtype = _ARRAYS.get(letter.rstrip("!"), (None, 0))[0]
    return None if dtype is None else np.dtype(dtype)


@cache
def _numba_type(letter: str) -> Any:
    from numba import from_dtype, types

    kind = letter.rstrip("!")
    if kind in _SCALARS:
        return getattr(types, _SCALARS[kind])
    dtype, n_axes = _ARRAYS[kind]
    # Read-only, so that memory-mapped input compiles nothing anew.
    return types.Array(from_dtype(np.dtype(dtype)), n_axes, "C", readonly=letter == kind)


def _cache_files(loop: Callable[..., Any]) -> Any:
    """Return Numba's cache of a function's machine code, or None where none can be written."""
    try:
        return _cache_class()(loop)
    except RuntimeError:  # "no locator available": a read-only installation without a home
        return None


@cache
def _cache_class() -> Any:
    """Return Numba's cache on disk, for which a damaged file is a missing one."""
    from numba.core.caching import FunctionCache, IndexDataCacheFile

    class CheckedFiles(IndexDataCacheFile):
        """Files that end in a digest: a flipped bit in machine code would be a wrong number."""

        def _dump(self, obj: Any) -> bytes:
            data: bytes = super()._dump(obj)
            return data + hashlib.sha256(data).digest()

        def _load_data(self, name: str) -> Any:
            data = Path(self._data_path(name)).read_bytes()
            if hashlib.sha256(data[:-32]).digest() != data[-32:]:
                raise ValueError(f"damaged: {name}")
            return super()._load_data(name)

    class ForgivingCache(FunctionCache):
        def __init__(self, loop: Callable[..., Any]) -> None:
            super().__init__(loop)
            locator = self._impl.locator
            self._cache_file = CheckedFiles(
                self._cache_path, self._impl.filename_base, locator.get_source_stamp()
            )

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except Exception:
                self._try(self.flush)
                return None

        def save_overload(self, sig: Any, data: Any) -> None:
            self._try(super().save_overload, sig, data)

        @staticmethod
        def _try(action: Callable[..., None], *arguments: Any) -> None:
            try:
                action(*arguments)
            except Exception:
                return

    return ForgivingCache
