"""Model formulas: ``cbind(dead, n - dead) ~ dose``.

formulaic builds the columns of the right-hand side. A formula is text that a person may have
copied from anywhere, so it is checked before anything is evaluated: it may hold numbers, text,
arithmetic, names of columns and the functions listed here, and nothing else (no attributes, no
indexing, no comprehensions). Cells of the data are values and are never evaluated.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from crossfade._checks import did_you_mean, listed, show
from crossfade._optional import import_optional
from crossfade._typing import Floats
from crossfade.errors import DataError, IgnoredRowsWarning

#: Functions of columns on either side of a formula.
_NUMERIC: dict[str, Callable[..., Any]] = {
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "I": lambda values: values,
}

#: Functions that formulaic gives meaning to, on the right-hand side.
_ENCODINGS = frozenset(
    {"C", "bs", "cc", "cr", "cs", "poly", "center", "scale", "standardize", "lag"}
    | {"Diff", "Helmert", "Poly", "Sum", "Treatment"}
)

#: Contrasts, as in contr.treatment.
_CONTRASTS = frozenset(["treatment", "SAS", "sum", "helmert", "diff", "poly"])

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.USub: np.negative,
    ast.UAdd: np.positive,
}

#: What a column named Intercept is called here, since formulaic has a term of that name, and where
#: a formula means it.
_COLUMN = "Intercept "
_INTERCEPT = re.compile(r"`Intercept`|(?<![\w.'\"])Intercept(?![\w'\"])")


@dataclass(frozen=True)
class Terms:
    """The right-hand side of a formula, with levels and centres as its first table had them.

    `columns`: How each column is used: "plain", as a "factor", or in "arithmetic".
    """

    text: str
    spec: Any
    columns: dict[str, set[str]]
    offsets: tuple[tuple[ast.expr, dict[str, str], str], ...]

    @property
    def constants(self) -> list[int]:
        """Return where the constant stands among the columns, if there is one."""
        places = self.spec.term_indices.items()
        return [i for term, positions in places if term.degree == 0 for i in positions]

    def matrix(self, table: Any) -> Any:
        """Return the columns that the terms make of a table, without the constant."""
        frame = _typed(table, self.columns)
        try:
            with warnings.catch_warnings():
                # Levels that the first table did not have.
                warnings.simplefilter("error")
                matrix = self.spec.get_model_matrix(frame, context=_context(), na_action="raise")
        # The user's terms are computed here, and NumPy, pandas or a transform may raise anything.
        except Exception as error:
            raise DataError(
                f"formula: cannot evaluate {self.text!r}: {_first_line(error)}; check its terms"
            ) from None
        others = [i for i in range(matrix.shape[1]) if i not in self.constants]
        matrix = matrix.iloc[:, others].astype(np.float64)
        return matrix.rename(columns=lambda name: name.replace(_COLUMN, "Intercept"))

    def offset(self, table: Any) -> Floats | None:
        """Return the sum of the ``offset()`` terms, None where there are none."""
        if not self.offsets:
            return None
        shifts = [_evaluate(tree, table, names, text) for tree, names, text in self.offsets]
        return np.sum([np.broadcast_to(shift, len(table)) for shift in shifts], axis=0, dtype=float)


@dataclass(frozen=True)
class Model:
    """What a formula says of a table: `response`, and `trials` and `offset` or None, all (n_rows,).

    `matrix`: The columns of the right-hand side, without the constant.
    """

    response: NDArray[Any]
    trials: Floats | None
    matrix: Any
    intercept: bool
    offset: Floats | None
    terms: Terms


def columns_of(formula: str) -> set[str]:
    """Return the names of columns that a formula uses, whether a table has them or not."""
    response, terms = _sides(formula)
    factors = [factor for term in _parsed(terms) for factor in term.factors]
    found = {each.expr for each in factors if each.eval_method.value == "lookup"}
    for text in [response, *(each.expr for each in factors if each.eval_method.value == "python")]:
        tree, names = _parse(text)
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        found |= {
            names.get(node.id, node.id)
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and id(node) not in called
        }
    return found


def complete_rows(table: Any, used: set[str]) -> NDArray[np.int64]:
    """Return the places of the rows without a missing cell in used columns; warn of the others."""
    names = [_COLUMN if name == "Intercept" else name for name in sorted(used)]
    holes = {name: table[name].isna().to_numpy() for name in table.columns if name in names}
    holes = {name: missing for name, missing in holes.items() if missing.any()}
    if not holes:
        return np.arange(len(table))
    incomplete = np.logical_or.reduce(list(holes.values()))
    columns = ", ".join(f"{show(name.strip())} ({int(n.sum()):,})" for name, n in holes.items())
    if incomplete.all():
        raise DataError(
            f"formula: expected rows with a value in every column used, got {len(table):,} with "
            f"a missing cell in {columns}; leave out such a column"
        )
    number = int(incomplete.sum())
    have, were = ("row has", "was") if number == 1 else ("rows have", "were")
    warnings.warn(
        f"{number:,} {have} a missing cell in {columns} and {were} left out.",
        IgnoredRowsWarning,
        stacklevel=3,
    )
    return np.flatnonzero(~incomplete)


@contextmanager
def rows_counted_from_one(kept: NDArray[np.int64]) -> Iterator[None]:
    """Let messages about rows, which count those that are left from 0, count all from 1."""
    try:
        yield
    except DataError as error:
        if type(error) is not DataError:
            raise
        # (the name of a column may read like a row's number)
        rows = {str(row): str(whole + 1) for row, whole in enumerate(kept.tolist())}
        said = re.sub(r"(?<=\bin row )\d+\b", lambda at: rows.get(at[0], at[0]), str(error))
        raise DataError(said) from None


def _sides(formula: str) -> list[str]:
    sides = [side.strip() for side in formula.split("~")]
    if len(sides) != 2 or not all(sides):
        raise DataError(
            f"formula: expected 'response ~ terms', got {formula!r}; for instance "
            "'cbind(dead, n - dead) ~ dose'"
        )
    return sides


def read_formula(formula: str, table: Any) -> Model:
    """Return the response and columns that a formula makes of a table."""
    sides = _sides(formula)
    table = as_pandas(table)
    if _COLUMN in table.columns:
        sides = [re.sub(_INTERCEPT, f"`{_COLUMN}`", side) for side in sides]
    response, trials = _response(sides[0], table)
    terms = _terms(sides[1], table)
    matrix, intercept = terms.matrix(table), bool(terms.constants)
    if not intercept and not matrix.shape[1]:
        raise DataError(f"formula: expected a term after '~', got {formula!r}; 1 is the constant")
    return Model(response, trials, matrix, intercept, terms.offset(table), terms)


def as_pandas(data: Any) -> Any:
    """Return a table of any data-frame library as a pandas frame of plain columns."""
    pd = import_optional("pandas", "formulas")
    if isinstance(data, pd.DataFrame):
        return data.reset_index(drop=True).rename(columns={"Intercept": _COLUMN})
    if not nw.dependencies.is_into_dataframe(data):
        raise DataError(
            f"data: expected a data frame, got {type(data).__name__}; formulas name its columns"
            " (for rows that are read in parts, name columns: fit(source, y))"
        )
    plain = {}
    for name, series in nw.from_native(data, eager_only=True).to_dict(as_series=True).items():
        if series.dtype.is_decimal() or series.dtype in (nw.Int128, nw.UInt128):
            series = series.cast(nw.Float64)
        number = series.dtype.is_numeric() or series.dtype == nw.Boolean
        plain[name] = (
            series.to_numpy() if number and not series.is_null().any() else series.to_list()
        )
    return pd.DataFrame(plain).rename(columns={"Intercept": _COLUMN})


def _response(text: str, table: Any) -> tuple[NDArray[Any], Floats | None]:
    tree, names = _parse(text)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "cbind":
        if len(tree.args) != 2 or tree.keywords:
            raise DataError(
                f"formula: expected cbind(successes, failures), got {text!r}; give the two"
            )
        success, failure = (
            np.broadcast_to(_numbers(_evaluate(part, table, names, text), text), len(table))
            for part in tree.args
        )
        negative = np.flatnonzero(failure < 0)
        if len(negative):
            row = int(negative[0])
            raise DataError(
                f"formula: expected failures of at least 0 in {text!r}, got {failure[row]:g} in "
                f"row {row}: more successes than trials; check which column is which"
            )
        return _whole(success), success + failure
    values = _evaluate(tree, table, names, text)
    columns = [names.get(node.id, node.id) for node in ast.walk(tree) if isinstance(node, ast.Name)]
    known = [column(table, name) for name in columns if name in table.columns]
    if values.dtype.kind == "f" and all(each.dtype.kind in "bi" for each in known):
        values = _whole(values)
    return np.broadcast_to(values, len(table)), None


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers as integers: floats that are all 0 or 1 could be proportions."""
    fits = np.abs(values) <= 2.0**53
    whole = bool((fits & (values == np.floor(values))).all())
    return values.astype(np.int64) if whole else values


def _parsed(text: str) -> list[Any]:
    formulaic = import_optional("formulaic", "formulas")
    if re.search(r"(?<![\w.])\.(?![\w.])", re.sub("`[^`]*`|'[^']*'|\"[^\"]*\"", "", text)):
        raise DataError(
            f"formula: expected names of columns, got '.' in {text!r}; name each column: a + b"
        )
    try:
        parsed = list(formulaic.Formula(text))
    # Nothing but the user's text is read here, so whatever is raised is about that text: besides
    # its own errors, the parser lets those of Python through (literals, depth of nesting).
    except Exception as error:
        raise DataError(
            f"formula: cannot read {text!r}: {_first_line(error)}; check its terms"
        ) from None
    if not all(hasattr(term, "factors") for term in parsed):
        raise DataError(
            f"formula: expected one list of terms, got several in {text!r}; leave '|' out, or "
            "write an interaction as a:b"
        )
    return parsed


def _terms(text: str, table: Any) -> Terms:
    formulaic = import_optional("formulaic", "formulas")
    kept, offsets = [], []
    columns: dict[str, set[str]] = {}
    for term in _parsed(text):
        shift = _offset_of(term)
        if shift is not None:
            offsets.append((*shift, str(term)))
            continue
        for factor in term.factors:
            for name, use in _uses_of_factor(factor, table):
                columns.setdefault(name, set()).add(use)
        kept.append(term)
    try:
        with np.errstate(all="ignore"):  # the error reports the logarithm of a negative number
            spec = formulaic.Formula(kept).get_model_matrix(
                _typed(table, columns), context=_context(), na_action="raise", output="pandas"
            )
    except Exception as error:
        raise DataError(
            f"formula: cannot evaluate {text!r}: {_first_line(error)}; check its terms"
        ) from None
    return Terms(text, spec.model_spec, columns, tuple(offsets))


def _typed(table: Any, columns: dict[str, set[str]]) -> Any:
    """Return the columns used, numbers as wide as their arithmetic needs."""
    pd = import_optional("pandas", "formulas")
    made = {}
    for name, uses in columns.items():
        values = column(table, name)
        if "arithmetic" in uses and values.dtype.kind in "bi":
            values = values.astype(np.float64)
        # A categorical column has levels of its own.
        made[name] = values if values.dtype.kind in "bif" else table[name]
    return pd.DataFrame(made, index=range(len(table)))


def _first_line(error: Exception) -> str:
    """Return what an error says, without the picture that formulaic draws below it."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].strip().rstrip(".")


def _context() -> dict[str, Any]:
    return {name: function for name, function in _NUMERIC.items() if name != "I"}


def _offset_of(term: Any) -> tuple[ast.expr, dict[str, str]] | None:
    """Return what an ``offset(...)`` term holds, None for other terms."""
    factors = list(term.factors)
    if not any(factor.expr.startswith("offset(") for factor in factors):
        return None
    tree, names = _parse(factors[0].expr)
    if len(factors) != 1 or not isinstance(tree, ast.Call) or len(tree.args) != 1:
        raise DataError(
            f"formula: expected offset(expression) as a separate term, got {str(term)!r}; "
            "write '+ offset(log(hours))'"
        )
    return tree.args[0], names


def _parse(text: str) -> tuple[ast.expr, dict[str, str]]:
    """Return the expression tree; names between backticks get stand-ins."""
    names: dict[str, str] = {}
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        raise DataError(f"formula: expected closed backticks, got {text!r}; close them")
    for i in range(1, len(pieces), 2):
        stand_in = f"_column{i}_"
        names[stand_in] = pieces[i]
        pieces[i] = stand_in
    try:
        return ast.parse("".join(pieces).strip(), mode="eval").body, names
    except SyntaxError:
        raise DataError(f"formula: cannot read {text!r}; check its brackets") from None


def _evaluate(tree: ast.expr, table: Any, names: Mapping[str, str], text: str) -> NDArray[Any]:
    """Evaluate arithmetic of columns; nothing but what is listed here can be called."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, (int, float)):
        return np.asarray(tree.value)
    if isinstance(tree, ast.Name):
        return column(table, names.get(tree.id, tree.id))
    if isinstance(tree, (ast.BinOp, ast.UnaryOp)) and type(tree.op) in _OPERATORS:
        parts = [tree.operand] if isinstance(tree, ast.UnaryOp) else [tree.left, tree.right]
        values = [_numbers(_evaluate(part, table, names, text), text) for part in parts]
        with np.errstate(all="ignore"):
            return np.asarray(_OPERATORS[type(tree.op)](*values))
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.keywords:
        function = _NUMERIC.get(tree.func.id)
        if function is not None and len(tree.args) == 1:
            argument = _numbers(_evaluate(tree.args[0], table, names, text), text)
            with np.errstate(all="ignore"):
                return np.asarray(function(argument))
    raise _not_allowed(tree, text)


def _numbers(values: NDArray[Any], text: str) -> NDArray[Any]:
    if values.dtype.kind not in "biuf":
        raise DataError(f"formula: expected numbers in {text!r}, got text; encode it by C()")
    return values.astype(np.float64)


def column(table: Any, name: str, parameter: str = "formula") -> NDArray[Any]:
    """Return one column, which this parameter names; missing cells are refused."""
    if name not in table.columns:
        known = [str(column) for column in table.columns]
        remedy = did_you_mean(name, known, f"the columns are {listed(known)}")
        raise DataError(f"{parameter}: expected names of columns, got {name!r}; {remedy}")
    series = table[name]
    missing = series.isna().to_numpy()
    if missing.any():
        row = int(np.flatnonzero(missing)[0]) + 1
        raise DataError(
            f"{parameter}: expected a value in every cell, got {int(missing.sum())} missing in "
            f"column {name!r} (first in row {row}); drop those rows or fill them in"
        )
    return _plain_numbers(series)


def _plain_numbers(series: Any) -> NDArray[Any]:
    """Return a column's cells; numbers of any width and kind as int64, float64 or bool."""
    dtype = series.dtype
    kind = getattr(dtype, "kind", "O")
    if kind == "O":
        cells = np.asarray(series.to_numpy())
        decimal = bool(len(cells)) and all(isinstance(cell, Decimal) for cell in cells)
        return cells.astype(np.float64) if decimal else cells
    if kind == "b":
        return np.asarray(series.to_numpy(dtype=bool))
    if kind == "f" or (kind == "u" and int(series.max() if len(series) else 0) > 2**63 - 1):
        return np.asarray(series.to_numpy(dtype=np.float64))
    if kind in "iu":
        return np.asarray(series.to_numpy(dtype=np.int64))
    return np.asarray(series.to_numpy())


def _uses_of_factor(factor: Any, table: Any) -> list[tuple[str, str]]:
    """Return which columns a factor uses, and how; refuse what is more than arithmetic of them."""
    method = factor.eval_method.value
    if method == "literal":
        return []
    if method == "lookup":
        column(table, factor.expr)
        return [(factor.expr, "plain")]
    tree, names = _parse(factor.expr)
    return list(_uses(tree, table, names, factor.expr, "plain"))


def _uses(
    tree: ast.AST, table: Any, names: Mapping[str, str], text: str, use: str
) -> Iterator[tuple[str, str]]:
    parts: list[ast.expr]
    if isinstance(tree, ast.Constant) and isinstance(tree.value, (int, float, str, type(None))):
        return
    if isinstance(tree, ast.Name):
        name = names.get(tree.id, tree.id)
        column(table, name)
        yield name, use
        return
    if isinstance(tree, ast.Attribute):
        _check_function(tree, text)  # a contrast without its brackets
        return
    if isinstance(tree, ast.Call):
        _check_function(tree.func, text)
        parts = [*tree.args, *(keyword.value for keyword in tree.keywords)]
        encodes = isinstance(tree.func, ast.Name) and tree.func.id == "C"
        use = "factor" if encodes and use == "plain" else "arithmetic"
    elif isinstance(tree, (ast.BinOp, ast.UnaryOp)) and type(tree.op) in _OPERATORS:
        parts = [tree.operand] if isinstance(tree, ast.UnaryOp) else [tree.left, tree.right]
        use = "arithmetic"
    elif isinstance(tree, (ast.List, ast.Tuple)):
        parts = list(tree.elts)
    elif isinstance(tree, ast.Compare):
        parts, use = [tree.left, *tree.comparators], "arithmetic"
    else:
        raise _not_allowed(tree, text)
    for part in parts:
        yield from _uses(part, table, names, text, use)


def _check_function(function: ast.expr, text: str) -> None:
    if isinstance(function, ast.Name) and (function.id in _NUMERIC or function.id in _ENCODINGS):
        return
    contrast = (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "contr"
        and function.attr in _CONTRASTS
    )
    if not contrast:
        raise _not_allowed(function, text)


def _not_allowed(tree: ast.AST, text: str) -> DataError:
    functions = ", ".join([*_NUMERIC, *sorted(_ENCODINGS), "contr.treatment, …"])
    return DataError(
        f"formula: expected columns, numbers, arithmetic and the functions {functions}, got "
        f"{ast.unparse(tree)!r} in {text!r}; compute it beforehand as a column"
    )
