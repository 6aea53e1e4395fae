"""Model formulas: ``cbind(dead, n - dead) ~ dose``.

formulaic builds the columns of the right-hand side. A formula is text that a person may have
copied from anywhere, so it is checked before anything is evaluated: it may hold numbers, text,
arithmetic, names of columns and the functions listed here, and nothing else (no attributes, no
indexing, no comprehensions). Cells of the data are values and are never evaluated.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crossfade._optional import import_optional
from crossfade._typing import Floats
from crossfade.errors import DataError

__all__ = ["Model", "column", "read_formula"]

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


@dataclass(frozen=True)
class Model:
    """What a formula says of a table.

    Attributes
    ----------
    response : ndarray of shape (n_rows,)
        Labels, counts or successes.
    trials : ndarray of shape (n_rows,) or None
        Successes plus failures, where the response is ``cbind(successes, failures)``.
    matrix : pandas.DataFrame
        Columns of the right-hand side, without the constant.
    intercept : bool
    offset : ndarray of shape (n_rows,) or None
        Sum of the ``offset()`` terms.
    """

    response: NDArray[Any]
    trials: Floats | None
    matrix: Any
    intercept: bool
    offset: Floats | None


def read_formula(formula: str, table: Any) -> Model:
    """Return the response and columns that a formula makes of a table."""
    sides = formula.split("~")
    if len(sides) != 2 or not all(side.strip() for side in sides):
        raise DataError(
            f"formula: expected 'response ~ terms', got {formula!r}; for instance "
            "'cbind(dead, n - dead) ~ dose'"
        )
    columns = [str(name) for name in table.columns]
    response, trials = _response(sides[0].strip(), table, columns)
    matrix, intercept, offset = _terms(sides[1].strip(), table, columns)
    return Model(response, trials, matrix, intercept, offset)


def _response(text: str, table: Any, columns: list[str]) -> tuple[NDArray[Any], Floats | None]:
    tree, names = _parse(text, columns)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "cbind":
        if len(tree.args) != 2 or tree.keywords:
            raise DataError(
                f"formula: expected cbind(successes, failures), got {text!r}; give the two"
            )
        success = _evaluate(tree.args[0], table, names, text)
        failure = _evaluate(tree.args[1], table, names, text)
        negative = np.flatnonzero(np.asarray(failure) < 0)
        if len(negative):
            row = int(negative[0])
            raise DataError(
                f"formula: expected failures of at least 0 in {text!r}, got "
                f"{np.asarray(failure)[row]:g} in row {row}: more successes than trials; check "
                "which column is which"
            )
        return success, success + failure
    return _evaluate(tree, table, names, text), None


def _terms(text: str, table: Any, columns: list[str]) -> tuple[Any, bool, Floats | None]:
    formulaic = import_optional("formulaic", "formulas")
    try:
        parsed = formulaic.Formula(text)
        terms = list(parsed)
    # Nothing but the user's text is read here, so whatever is raised is about that text: besides
    # its own errors, the parser lets those of Python through (literals, depth of nesting).
    except Exception as error:
        raise DataError(
            f"formula: cannot read {text!r}: {_first_line(error)}; check its terms"
        ) from None
    kept, offsets = [], []
    for term in terms:
        shift = _offset_of(term, columns)
        if shift is None:
            for factor in term.factors:
                _check_factor(factor, table, columns)
            kept.append(term)
        else:
            tree, names = shift
            offsets.append(_evaluate(tree, table, names, str(term)).astype(np.float64))
    try:
        matrix = formulaic.Formula(kept).get_model_matrix(
            table, context=_context(), na_action="raise", output="pandas"
        )
    # The user's terms are computed here, and NumPy, pandas or a transform may raise anything.
    except Exception as error:
        raise DataError(
            f"formula: cannot evaluate {text!r}: {_first_line(error)}; check its terms"
        ) from None
    intercept = "Intercept" in matrix.columns
    matrix = matrix.drop(columns="Intercept") if intercept else matrix
    frame = matrix.astype(np.float64)
    return frame, intercept, sum(offsets[1:], offsets[0]) if offsets else None


def _first_line(error: Exception) -> str:
    """Return what an error says, without the picture that formulaic draws below it."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].strip().rstrip(".")


def _context() -> dict[str, Any]:
    return {name: function for name, function in _NUMERIC.items() if name != "I"}


def _offset_of(term: Any, columns: list[str]) -> tuple[ast.expr, dict[str, str]] | None:
    """Return what an ``offset(...)`` term holds, None for other terms."""
    factors = list(term.factors)
    if not any(factor.expr.startswith("offset(") for factor in factors):
        return None
    tree, names = _parse(factors[0].expr, columns)
    if len(factors) != 1 or not isinstance(tree, ast.Call) or len(tree.args) != 1:
        raise DataError(
            f"formula: expected offset(expression) as a term of its own, got {str(term)!r}; "
            "write '+ offset(log(hours))'"
        )
    return tree.args[0], names


def _parse(text: str, columns: list[str]) -> tuple[ast.expr, dict[str, str]]:
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
    return values.astype(np.int64) if values.dtype.kind in "bu" else values


def column(table: Any, name: str) -> NDArray[Any]:
    """Return one column; missing cells are refused."""
    if name not in table.columns:
        known = [str(column) for column in table.columns]
        close = difflib.get_close_matches(name, known, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else "the columns are " + ", ".join(known)
        raise DataError(f"formula: expected names of columns, got {name!r}; {remedy}")
    series = table[name]
    missing = series.isna().to_numpy()
    if missing.any():
        raise DataError(
            f"formula: expected a value in every cell, got {int(missing.sum())} missing in column "
            f"{name!r} (first in row {int(np.flatnonzero(missing)[0])}); drop those rows or fill "
            "them in"
        )
    return np.asarray(series.to_numpy())


def _check_factor(factor: Any, table: Any, columns: list[str]) -> None:
    """Refuse a right-hand factor that is more than arithmetic, columns and known functions."""
    method = factor.eval_method.value
    if method == "literal":
        return
    if method == "lookup":
        column(table, factor.expr)
        return
    tree, names = _parse(factor.expr, columns)
    _check_tree(tree, table, names, factor.expr)


def _check_tree(tree: ast.AST, table: Any, names: Mapping[str, str], text: str) -> None:
    if isinstance(tree, ast.Constant) and isinstance(tree.value, (int, float, str, type(None))):
        return
    if isinstance(tree, ast.Name):
        column(table, names.get(tree.id, tree.id))
        return
    if isinstance(tree, ast.Call):
        _check_function(tree.func, text)
        for part in [*tree.args, *(keyword.value for keyword in tree.keywords)]:
            _check_tree(part, table, names, text)
        return
    if isinstance(tree, (ast.BinOp, ast.UnaryOp)) and type(tree.op) in _OPERATORS:
        parts = [tree.operand] if isinstance(tree, ast.UnaryOp) else [tree.left, tree.right]
    elif isinstance(tree, (ast.List, ast.Tuple)):
        parts = list(tree.elts)
    elif isinstance(tree, ast.Compare):
        parts = [tree.left, *tree.comparators]
    else:
        raise _not_allowed(tree, text)
    for part in parts:
        _check_tree(part, table, names, text)


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
