"""Models as plain numbers: an intercept, and for every column what it adds to each class."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from crossfade._typing import Floats
from crossfade.classifiers.base import TradeoffClassifier
from crossfade.classifiers.checks import refuse_derived
from crossfade.classifiers.explanation import column_scores, posterior_power
from crossfade.densities import (
    Density,
    Gaussian,
    JohnsonSU,
    MultivariateGaussian,
    Product,
    Univariate,
)
from crossfade.densities.words import Words
from crossfade.errors import DataError
from crossfade.io.saved import table_schema
from crossfade.table.documents import MixedRows
from crossfade.table.preparation import Preparation
from crossfade.table.schema import Schema

_HOW: Final = (
    "P(class k) = exp(s_k) / sum of exp(s); s = intercept + what each column adds. A number x adds "
    "constant + linear z + square z^2 with z = (x - centre) factor, or asinh of that where asinh "
    "is true, or missing (null: the model takes no missing cells); a boolean is 0 or 1. A category "
    "adds what stands beside it, any other cell adds other. A cell of text is cut into words as "
    "cut says (parameters of scikit-learn's CountVectorizer); each of its words adds what stands "
    "beside it: times how often it occurs where count is times, once where count is occurs, and "
    "where length is a number, times idf length / sqrt(sum of idf^2 over the words of the cell). A "
    "sparse table has one column of words, whose names are those of its columns."
)


def coefficients(estimator: Any) -> dict[str, Any]:
    """Return a model whose log-odds are a sum over columns as numbers, ready for JSON.

    Parameters
    ----------
    estimator : estimator
        A fitted :class:`~crossfade.NaiveBayes` with any of Crossfade's densities, or a
        :class:`~crossfade.GaussianDiscriminant` whose covariance is shared, diagonal or spherical;
        also in a pipeline behind a :class:`~crossfade.table.preparation.Preparation`.

    Returns
    -------
    dict
        ``how`` says how to predict with it: ``classes``, ``intercept`` (one number per class), and
        ``columns`` with the numbers that each adds, one per class: of text one set for each word.

    Raises
    ------
    DataError
        If columns act together (a full covariance, a mixture), or a density of yours is neither
        linear nor quadratic in its column.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade import NaiveBayes
    >>> from crossfade.io import coefficients
    >>> X, y = np.array([[0.0], [1.0], [4.0], [6.0]]), np.array([0, 0, 1, 1])
    >>> model = NaiveBayes(tradeoff=1, shared_variance=True, var_smoothing=0).fit(X, y)
    >>> (column,) = coefficients(model)["columns"]
    >>> column["centre"], np.round(np.diff(column["linear"]) * column["factor"], 3)
    (2.75, array([7.2]))
    """
    preparation = None
    model = estimator
    if isinstance(estimator, Pipeline) and isinstance(estimator[0], Preparation):
        preparation, model = estimator[0], estimator[-1]
    schema = table_schema(estimator)
    words = isinstance(model, TradeoffClassifier) and model.density_.reads_words
    if words and preparation is not None:
        raise DataError(
            "estimator: expected a naive Bayes alone where there are words, got one in a pipeline; "
            "fit it without the Preparation"
        )
    if isinstance(model, TradeoffClassifier):
        refuse_derived(model)
    if not isinstance(model, TradeoffClassifier) or not _is_sum(model):
        raise DataError(
            "estimator: expected a model whose log-odds are a sum over columns (naive Bayes, or a "
            "Gaussian with a shared or diagonal covariance), got "
            f"{type(model).__name__}{_covariance(model)}; write ONNX instead"
        )

    if schema.sparse:
        scale, base = posterior_power(model)
        intercept = scale * model.parameters_.offset + base
        return _content(estimator, intercept, [_words(model, schema, 0)])
    centres, factors, drawn_in = _units(model, preparation)
    may_miss = [preparation is not None or one for one in _left_out(model.density_)]
    may_miss = may_miss if preparation is None else [True] * schema.n_features
    neutral = np.where(may_miss, np.nan, centres)

    def added(codes: Floats, column: int) -> Floats:
        """Return what cells of one column add, (n_rows, n_classes)."""
        rows = np.tile(neutral, (codes.size, 1))
        rows[:, column] = codes
        if preparation is None:
            return column_scores(model, _rows(model, rows))[1][:, column]
        prepared = preparation.prepared(rows)
        own = preparation.source_columns_ == column
        return column_scores(model, prepared)[1][:, own].sum(axis=1)

    columns = []
    for j, (name, kind, known) in enumerate(
        zip(schema.names, schema.kinds, schema.categories, strict=True)
    ):
        one: dict[str, Any] = {"name": name, "kind": kind}
        if kind == "text":
            columns.append(one | _words(model, schema, j))
            continue
        if kind == "identifier":
            columns.append(one | {"categories": [], "other": [0.0] * estimator.classes_.size})
            continue
        absent = added(np.array([np.nan]), j)[0].tolist() if may_miss[j] else None
        if known is not None:
            values = added(np.arange(len(known), dtype=np.float64), j)
            one["categories"] = [
                {"category": value, "adds": adds}
                for value, adds in zip(known, values.tolist(), strict=True)
            ]
            columns.append(one | {"other": absent})
            continue
        unit = {"centre": centres[j], "factor": factors[j], "asinh": drawn_in[j]}
        polynomial = _polynomial(
            lambda x, j=j: added(x, j), centres[j], factors[j], drawn_in[j], name
        )
        columns.append(one | unit | polynomial | {"missing": absent})
    rows = _rows(model, neutral[None])
    if preparation is not None:
        rows = preparation.prepared(neutral[None])
    baseline, _ = column_scores(model, rows)
    return _content(estimator, baseline[0], columns)


def _content(estimator: Any, intercept: Floats, columns: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "format": "crossfade coefficients",
        "format_version": 1,
        "how": _HOW,
        "classes": estimator.classes_.tolist(),
        "intercept": intercept.tolist(),
        "columns": columns,
    }


def _parts_of_words(model: TradeoffClassifier) -> dict[int, tuple[Words, Floats]]:
    """Return densities of words and their natural parameters, by the number of the column."""
    density = model.density_
    if not isinstance(density, Product):
        return {}
    return {
        int(columns[0]): (part, own)
        for part, columns, own in density.shared_out(model.parameters_.natural)
        if isinstance(part, Words)
    }


def _rows(model: TradeoffClassifier, numbers: Floats) -> Any:
    """Return rows of numbers, their cells of text empty."""
    empty = {
        j: scipy.sparse.csr_array((len(numbers), part.n_statistics))
        for j, (part, _) in _parts_of_words(model).items()
    }
    return MixedRows.of(numbers, empty) if empty else numbers


def _words(model: TradeoffClassifier, schema: Schema, column: int) -> dict[str, Any]:
    """Return what each word of a column of text, or each column of a sparse table, adds."""
    part, natural = _parts_of_words(model)[column]
    adds = posterior_power(model)[0] * natural * (1.0 if part.used is None else part.used)
    names = schema.names if schema.sparse else schema.categories[column] or ()
    once, idf, length = part.weighing
    words = [
        {"word": word, "adds": each} for word, each in zip(names, adds.T.tolist(), strict=True)
    ]
    if idf is not None:
        words = [word | {"idf": each} for word, each in zip(words, idf.tolist(), strict=True)]
    text = schema.texts[column] if schema.texts else None
    own = (
        {"name": "", "kind": "words"}
        if text is None
        else {"cut": asdict(text) | {"token_pattern": text.pattern}}
    )
    return own | {
        "count": "occurs" if once else "times",
        "length": None if idf is None else length,
        "words": words,
    }


def _is_sum(model: TradeoffClassifier) -> bool:
    natural = model.parameters_.natural
    return natural.shape[0] == model.classes_.size and _adds_up(model.density_, natural)


def _adds_up(density: Density, natural: Floats) -> bool:
    """Return whether scores are a sum over columns: no products of two."""
    if isinstance(density, Product):
        return all(_adds_up(part, eta) for part, _, eta in density.shared_out(natural))
    if not isinstance(density, MultivariateGaussian) or density.shared:
        return True
    form = density.quadratic_form(natural)
    return not np.any(form * ~np.eye(density.n_features, dtype=bool))


def _left_out(density: Density) -> list[bool]:
    """Return for each column whether a missing cell of it is left out of the sum."""
    if not isinstance(density, Product):
        alone = density.allows_missing and not density.fills_missing
        return [alone] * density.n_features
    found = np.zeros(density.n_features, dtype=bool)
    for part, columns in density.parts:
        found[columns] = _left_out(part)
    return found.tolist()


def _covariance(model: Any) -> str:
    covariance = getattr(model, "covariance", None)
    if covariance is None:
        return ""
    mixture = f", {model.components} components" if model.components > 1 else ""
    return f" with covariance {covariance!r}{mixture}"


def _units(
    model: TradeoffClassifier, preparation: Preparation | None
) -> tuple[list[float], list[float], list[bool]]:
    """Return for each column of the table a centre and a factor that suit it, and if asinh does."""
    location, factor, drawn_in = _standardisation(model.density_, model.parameters_.natural)
    if preparation is not None:
        location = preparation.means_ + location * preparation.scales_
        factor = factor / preparation.scales_
        first = np.searchsorted(preparation.source_columns_, range(preparation.n_features_in_))
        location, factor, drawn_in = location[first], factor[first], drawn_in[first]
    return location.tolist(), factor.tolist(), drawn_in.tolist()


def _standardisation(density: Density, natural: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    d = density.n_features
    if isinstance(density, JohnsonSU):
        return density.centre, 1.0 / density.width, np.ones(d, dtype=bool)
    location, factor, drawn_in = np.zeros(d), np.ones(d), np.zeros(d, dtype=bool)
    if isinstance(density, (Gaussian, MultivariateGaussian)):
        location, factor = density.standardisation
    if isinstance(density, Univariate) and density.n_column_statistics == 1:
        # Points one apart would not tell the slope of counts in the millions to all digits.
        size = np.abs(density.mean(natural)).mean(axis=0)
        factor = 1.0 / np.fmin(np.fmax(size, 1.0), 1e12)
    if isinstance(density, Product):
        for part, columns, own in density.shared_out(natural):
            found = _standardisation(part, own)
            location[columns], factor[columns], drawn_in[columns] = found
    return location, factor, drawn_in


def _polynomial(
    added: Any, centre: float, factor: float, asinh: bool, name: str
) -> dict[str, list[float]]:
    """Return the coefficients of what a column adds, from its values at four points."""
    if factor == 0.0:  # a constant column says nothing
        constant = added(np.array([centre]))[0]
        zeros = [0.0] * constant.size
        return {"constant": constant.tolist(), "linear": zeros, "square": zeros}
    with np.errstate(invalid="ignore"):
        z = np.array([-1.0, 0.0, 1.0, 2.0])
        values = added(centre + (np.sinh(z) if asinh else z) / factor)
        below, middle, above, far = values
        linear, square = (above - below) / 2.0, (above + below) / 2.0 - middle
        error = np.abs(middle + 2.0 * linear + 4.0 * square - far).max()
    if not error <= 1e-9 * (1.0 + np.abs(values).max()):
        raise DataError(
            f"density: expected what column {name!r} adds to be linear or quadratic in it, got "
            "another function; write the model with save_model"
        )
    return {
        "constant": middle.tolist(), "linear": linear.tolist(), "square": square.tolist()
    }  # fmt: skip
