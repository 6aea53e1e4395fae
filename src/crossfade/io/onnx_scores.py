"""Class scores of densities as operators of an ONNX graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crossfade._typing import Floats
from crossfade.densities import (
    Categorical,
    Density,
    Gaussian,
    JohnsonSU,
    MultivariateGaussian,
    Product,
)
from crossfade.densities.filling import RIDGE
from crossfade.densities.words import Words
from crossfade.errors import DataError
from crossfade.io.graph import Graph


def class_scores(graph: Graph, X: str, density: Density, natural: Floats, partition: Floats) -> str:
    if isinstance(density, Product):
        return _product_scores(graph, X, density, natural, partition)
    if isinstance(density, Words):
        return _word_scores(graph, X, density, natural, partition)
    if isinstance(density, Categorical):
        return _categorical_scores(graph, X, density, natural, partition)
    if isinstance(density, MultivariateGaussian):
        return _multivariate_scores(graph, X, density, natural, partition)
    if isinstance(density, Gaussian):
        location, inverse = density.standardisation
        d = density.n_features
        if isinstance(density, JohnsonSU):
            X = graph.asinh(_standardised(graph, X, density.centre, 1.0 / density.width))
        z = _standardised(graph, X, location, inverse)
        z, present = split_missing(graph, z)
        squares = graph.node("Mul", z, z)
        scores = graph.times(z, natural[:, :d])
        if not density.shared_variance:
            scores = graph.add(scores, graph.times(squares, natural[:, d:]))
        return graph.node("Sub", scores, graph.times(present, partition))
    if not density.n_statistics:
        return graph.times(split_missing(graph, X)[1], -partition)  # zeros
    if density.linear_in_columns:
        x, present = split_missing(graph, X)
        return graph.node("Sub", graph.times(x, natural), graph.times(present, partition))
    raise DataError(
        f"density: expected one of Crossfade's, or one linear in its column, got "
        f"{type(density).__name__}, whose statistics have no conversion to ONNX; write the model "
        "with save_model"
    )


def _word_scores(graph: Graph, X: str, density: Words, natural: Floats, partition: Floats) -> str:
    once, idf, length = density.weighing
    if once:
        X = graph.double(graph.node("Greater", X, graph.constant(np.array(0.0))))
    if idf is not None:
        X = graph.node("Mul", X, graph.constant(idf))
        squares = graph.node("ReduceSum", graph.node("Mul", X, X), graph.integers([1]), keepdims=1)
        size = graph.node("Sqrt", graph.node("Max", squares, graph.constant(np.array(1e-300))))
        X = graph.node("Mul", X, graph.node("Div", graph.constant(np.array(length)), size))
    if density.used is not None:
        natural = natural * density.used
    return graph.node("Sub", graph.times(X, natural), graph.constant(partition.sum(axis=1)))


def _product_scores(
    graph: Graph, X: str, density: Product, natural: Floats, partition: Floats
) -> str:
    total = None
    statistic = factor = 0
    for part, columns in density.parts:
        own = slice(statistic, statistic + part.n_statistics)
        factors = slice(factor, factor + part.n_factors)
        statistic, factor = own.stop, factors.stop
        picked = graph.words.get(int(columns[0]))
        if picked is None:
            picked = graph.node("Gather", X, graph.integers(columns), axis=1)
        scores = class_scores(graph, picked, part, natural[:, own], partition[:, factors])
        total = scores if total is None else graph.add(total, scores)
    assert total is not None  # a product has parts
    return total


def _categorical_scores(
    graph: Graph, X: str, density: Categorical, natural: Floats, partition: Floats
) -> str:
    # One table for all columns, one row per level; missing cells look up its last row, of zeros.
    offsets = np.concatenate([[0], np.cumsum(density.levels)])[:-1].astype(float)
    table = density.by_level(natural)
    table[:-1] -= partition.T[np.repeat(np.arange(density.n_features), density.levels)]
    positions = graph.add(X, graph.constant(offsets))
    last = graph.constant(np.array(float(density.n_levels)))
    positions = graph.node("Where", graph.node("IsNaN", positions), last, positions)
    found = graph.node("Gather", graph.constant(table), graph.int64(positions), axis=0)
    return graph.node("ReduceSum", found, graph.integers([1]), keepdims=0)


def _multivariate_scores(
    graph: Graph, X: str, density: MultivariateGaussian, natural: Floats, partition: Floats
) -> str:
    d, k = density.n_features, natural.shape[0]
    standard = _standardised(graph, X, *density.standardisation)
    z = standard
    if density.fills_missing:
        z = _filled_in(graph, z, density)
    scores = graph.add(graph.times(z, natural[:, :d]), graph.constant(-partition.sum(axis=1)))
    if not density.shared:  # else the quadratic form is all classes' and says nothing about them
        form = density.quadratic_form(natural)
        diagonal = np.diagonal(form, axis1=1, axis2=2)
        if np.count_nonzero(form) == np.count_nonzero(diagonal):
            more = graph.times(graph.node("Mul", z, z), diagonal)
        else:
            wide = form.transpose(1, 0, 2).reshape(d, k * d)
            images = graph.reshape(graph.node("MatMul", z, graph.constant(wide)), [-1, k, d])
            products = graph.node("Mul", images, graph.reshape(z, [-1, 1, d]))
            more = graph.node("ReduceSum", products, graph.integers([2]), keepdims=0)
        scores = graph.add(scores, more)
    if density.missing != "marginal":
        return scores
    return _where_incomplete(
        graph, standard, scores, lambda rows: _marginal_scores(graph, rows, density, natural)
    )


def _where_incomplete(graph: Graph, z: str, values: str, of: Callable[[str], str]) -> str:
    """Return the values, those of rows with missing cells replaced by what `of` makes of them."""
    gone = graph.node("ReduceMax", graph.double(graph.node("IsNaN", z)), graph.integers([1]))
    which = graph.node("NonZero", graph.int64(graph.reshape(gone, [-1])))
    which = graph.node("Transpose", which, perm=[1, 0])
    return graph.node("ScatterND", values, which, of(graph.node("GatherND", z, which)))


def _filled_in(graph: Graph, z: str, density: MultivariateGaussian) -> str:
    """Return the rows with each missing number at its mean given the row's other numbers."""
    d = density.n_features
    mean, C = density.standard_total
    ridged = C + np.diag(RIDGE * np.maximum(np.diagonal(C), 1e-300))

    def fill(rows: str) -> str:
        away, present = split_missing(graph, graph.node("Sub", rows, graph.constant(mean)))
        solved, _ = _solved(graph, ridged[None], graph.reshape(away, [-1, 1, d]), present)
        told = graph.node("MatMul", graph.reshape(solved, [-1, d]), graph.constant(C))
        told = graph.add(told, graph.constant(mean))
        known = graph.node("Where", graph.node("IsNaN", rows), told, rows)
        varies = density.standardisation[1] > 0.0
        return graph.node("Mul", known, graph.constant(varies.astype(float)))

    return _where_incomplete(graph, z, z, fill)


def _marginal_scores(graph: Graph, z: str, density: MultivariateGaussian, natural: Floats) -> str:
    """Return each class's log density of the numbers that a row has."""
    d = density.n_features
    m, C, active = density.standard_moments(natural)
    z, present = split_missing(graph, z)
    present = graph.node("Mul", present, graph.constant(active.astype(float)))
    away = graph.node("Sub", graph.reshape(z, [-1, 1, d]), graph.constant(m))
    away = graph.node("Mul", away, graph.reshape(present, [-1, 1, d]))
    solved, log_determinant = _solved(graph, C, away, present)
    form = graph.node("Mul", solved, away)
    total = graph.node("ReduceSum", form, graph.integers([2]), keepdims=0)
    half = graph.constant(np.array(-0.5))
    return graph.node("Mul", graph.add(total, log_determinant), half)


def _solved(graph: Graph, C: Floats, away: str, present: str) -> tuple[str, str]:
    """Solve C u = away among the columns that a row has; return u and log |C| of these.

    Gauss and Jordan's elimination, a column at a time; these matrices need no exchange of rows.

    Shapes: C (K, d, d); away (n_rows, K, d); present (n_rows, d); → (n_rows, K, d), (n_rows, K).
    """
    k, d = C.shape[:2]
    down, across = (graph.reshape(present, shape) for shape in ([-1, 1, d, 1], [-1, 1, 1, d]))
    both = graph.node("Mul", down, across)
    one = graph.constant(np.array(1.0))
    unit = graph.node("Mul", graph.node("Sub", one, down), graph.constant(np.eye(d)))
    among = graph.add(graph.node("Mul", both, graph.constant(C)), unit)
    system = graph.node("Concat", among, graph.reshape(away, [-1, k, d, 1]), axis=3)
    total = None
    for j in range(d):
        row = graph.node("Gather", system, graph.integers([j]), axis=2)
        pivot = graph.node("Gather", row, graph.integers([j]), axis=3)
        row = graph.node("Div", row, pivot)
        factor = graph.node("Gather", system, graph.integers([j]), axis=3)
        factor = graph.node("Sub", factor, graph.constant(np.eye(d)[j][:, None]))
        system = graph.node("Sub", system, graph.node("Mul", factor, row))
        log = graph.reshape(graph.node("Log", pivot), [-1, k])
        total = log if total is None else graph.add(total, log)
    assert total is not None  # a Gaussian has columns
    solution = graph.node("Gather", system, graph.integers([d]), axis=3)
    return graph.reshape(solution, [-1, k, d]), total


def _standardised(graph: Graph, X: str, location: Floats, inverse: Floats) -> str:
    centred = graph.node("Sub", X, graph.constant(location))
    return graph.node("Mul", centred, graph.constant(inverse))


def split_missing(graph: Graph, X: str) -> tuple[str, str]:
    """Return the cells with zeros for missing ones, and which are present, as 0 and 1."""
    missing = graph.node("IsNaN", X)
    filled = graph.node("Where", missing, graph.constant(np.array(0.0)), X)
    return filled, graph.double(graph.node("Not", missing))
