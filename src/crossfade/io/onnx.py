"""Models for other runtimes: converters to ONNX, registered with skl2onnx.

Each converter first makes of the inputs what :meth:`~crossfade.table.schema.Schema.encode` makes of
a table: one matrix of doubles, NaN for missing cells, categories as codes. The rest is the
estimator's own formula on that matrix, in double precision throughout.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from sklearn.pipeline import Pipeline

from crossfade._optional import import_optional
from crossfade.classifiers.base import TradeoffClassifier
from crossfade.classifiers.checks import refuse_derived
from crossfade.classifiers.entropic_naive_bayes import LEAST_POSTERIOR, EntropicNaiveBayes
from crossfade.classifiers.explanation import posterior_power
from crossfade.classifiers.gaussian_discriminant import GaussianDiscriminant
from crossfade.classifiers.naive_bayes import NaiveBayes
from crossfade.densities import Product
from crossfade.errors import DataError
from crossfade.io.graph import Graph
from crossfade.io.onnx_scores import class_scores, split_missing
from crossfade.io.onnx_text import check_text, count_words
from crossfade.io.pool_graph import check_members, pool_posterior
from crossfade.io.saved import table_schema
from crossfade.pools import PooledClassifier
from crossfade.table.matrix import NEAR
from crossfade.table.preparation import Preparation
from crossfade.table.schema import Schema
from crossfade.tradeoff.criteria import check_criterion

_OUTPUTS: Final = ("label", "probabilities")


def to_onnx(estimator: Any) -> Any:
    """Return a fitted model as an ONNX graph with the same posterior.

    The graph has one input per column, named as the column (``X`` for models fitted on arrays
    without names): doubles of shape (n_rows, 1), NaN where missing, or text, "" where missing. A
    column named "label" or "probabilities", as the outputs are, or "" has another input's name,
    to be found in the graph's metadata under "columns". A model of a sparse table has one input,
    ``X``, the same counts as a dense matrix. Free text is cut into words by onnxruntime's own
    operator, which other runtimes lack (İ, and Σ at the end of a word, it makes other small letters
    than Python does); counts of words are dense. Outputs are the predicted ``label`` and
    the ``probabilities``, in the order of ``classes_``. A graph cannot refuse input: categories
    that fit did not see are taken as missing at any ``unknown``, missing cells of Gaussian
    discriminants give NaN, and counts and booleans are not checked.

    Parameters
    ----------
    estimator : estimator
        A fitted :class:`~crossfade.NaiveBayes`, :class:`~crossfade.GaussianDiscriminant`,
        :class:`~crossfade.EntropicNaiveBayes` or :class:`~crossfade.PooledClassifier` of these
        (fitted to an array of numbers also of others that skl2onnx knows), or a pipeline of a
        :class:`~crossfade.table.preparation.Preparation` and one.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    DataError
        If the model is a pool with a member that has no operators (a forest or boosting), cuts free
        text in another way than by words of letters and digits, or has a density that is not
        Crossfade's and not linear in the column, or a classifier of columns that skl2onnx cannot
        convert.
    MissingExtraError
        If skl2onnx is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> from sklearn.datasets import load_iris
    >>> from crossfade import NaiveBayes
    >>> from crossfade.io import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NaiveBayes(tradeoff=0.5).fit(X, y)
    >>> session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    >>> label, probabilities = session.run(None, {"X": X})
    >>> bool(np.allclose(probabilities, model.predict_proba(X), rtol=0, atol=1e-12))
    True
    """
    skl2onnx = import_optional("skl2onnx", "ONNX models")
    from skl2onnx.common.data_types import DoubleTensorType, StringTensorType

    register_converters()
    schema = table_schema(estimator)
    last = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    kind = type(last)
    if kind.__module__.startswith("crossfade.") and kind not in _converters():
        names = [one.__name__ for one in _converters()]
        raise DataError(
            f"estimator: expected {', '.join(names[:-1])} or {names[-1]}, got {kind.__name__}, "
            "which ONNX has no operators for here; write it with crossfade.io.save_model"
        )
    if isinstance(last, PooledClassifier):
        check_members(last)
    for name, text in zip(schema.names, schema.texts or (), strict=False):
        if text is not None:
            check_text(name, text)
    beyond = [one for one in estimator.classes_.tolist() if _is_beyond(one)]
    if beyond:
        raise DataError(
            f"estimator: expected labels that ONNX has (text, 64-bit integers), got "
            f"{beyond[0]!r}; "
            "fit the model to the labels as text, y.astype(str)"
        )
    if (not schema.sparse and schema.has_names) or any(
        _is_text(schema, j) for j in range(schema.n_features)
    ):
        kinds = [
            StringTensorType if _is_text(schema, j) else DoubleTensorType
            for j in range(schema.n_features)
        ]
        inputs = [(f"column_{j}", kind([None, 1])) for j, kind in enumerate(kinds)]
        names = _input_names(schema.names)
    else:
        inputs = [("column_0", DoubleTensorType([None, schema.n_features]))]
        names = ["X"]
    try:
        model = skl2onnx.convert_sklearn(
            estimator,
            name=type(estimator).__name__,
            initial_types=inputs,
            options={"zipmap": False},
        )
    except (KeyError, RuntimeError) as error:  # skl2onnx's own for what it cannot convert
        raise DataError(
            "estimator: expected a model that skl2onnx can convert, got "
            f"{type(estimator).__name__} with a part that it cannot ({' '.join(str(error).split())}"
            "); write it with save_model"
        ) from error
    _rename_inputs(model.graph, dict(zip((name for name, _ in inputs), names, strict=True)))
    _describe(model, estimator, schema, names)
    return model


def _is_beyond(label: Any) -> bool:
    return not isinstance(label, str) and not -(1 << 63) <= label < 1 << 63


def _is_text(schema: Schema, column: int) -> bool:
    known = schema.categories[column]
    if schema.kinds[column] == "identifier":
        return True
    return known is not None and not any(isinstance(value, (int, float)) for value in known)


def _input_names(columns: Sequence[str]) -> list[str]:
    """Return names that no other input, and no output, has."""
    names = list(columns)
    for position, name in enumerate(names):
        if name == "" or name in _OUTPUTS:
            new = f"column {name}".rstrip()
            while new in names:
                new += "_"
            names[position] = new
    return names


def _rename_inputs(graph: Any, names: dict[str, str]) -> None:
    """Give the inputs their names; skl2onnx itself takes only such as variables have."""
    inner = {output for node in graph.node for output in node.output}
    inner |= {value.name for value in graph.initializer}
    final, taken = dict(names), {*names.values(), *_OUTPUTS}
    for name in sorted(inner - set(_OUTPUTS)):
        new = name
        while new in taken:
            new += "_"
        taken.add(new)
        final[name] = new
    for node in graph.node:
        for place in (node.input, node.output):
            place[:] = [final.get(name, name) for name in place]
    for value in (*graph.input, *graph.initializer):
        value.name = final.get(value.name, value.name)


def _describe(model: Any, estimator: Any, schema: Schema, names: Sequence[str]) -> None:
    described = {
        "classes": estimator.classes_.tolist(),
        "columns": [
            {"name": name, "kind": kind, "input": names[0] if len(names) == 1 else names[j]}
            for j, (name, kind) in enumerate(zip(schema.names, schema.kinds, strict=True))
        ],
    }
    for key, value in described.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, json.dumps(value)


# -- the converters --------------------------------------------------------------------------------


def register_converters() -> None:
    """Tell skl2onnx how to convert Crossfade's estimators, also inside pipelines of yours.

    Examples
    --------
    >>> from crossfade.io import register_converters
    >>> register_converters()
    """
    update = import_optional("skl2onnx", "ONNX models").update_registered_converter
    options = {"zipmap": [True, False, "columns"], "nocl": [True, False]}
    options |= {"output_class_labels": [False, True]}
    for kind, convert in _converters().items():
        update(kind, f"Crossfade{kind.__name__}", _classifier_shape, convert, options=options)
    update(Preparation, "CrossfadePreparation", _preparation_shape, _convert_preparation)


def _converters() -> dict[type, Callable[[Any, Any, Any], None]]:
    return {
        NaiveBayes: _convert,
        GaussianDiscriminant: _convert,
        EntropicNaiveBayes: _convert_entropic,
        PooledClassifier: _convert_pool,
    }


def _classifier_shape(operator: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    n = operator.inputs[0].get_first_dimension()
    classes = operator.raw_operator.classes_
    text = isinstance(classes.tolist()[0], str)
    operator.outputs[0].set_type((StringTensorType if text else Int64TensorType)([n]))
    operator.outputs[1].set_type(DoubleTensorType([n, classes.size]))


def _preparation_shape(operator: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType

    n = operator.inputs[0].get_first_dimension()
    operator.outputs[0].set_type(DoubleTensorType([n, operator.raw_operator.means_.size]))


def _convert(scope: Any, operator: Any, container: Any) -> None:
    graph = Graph(scope, container)
    model: TradeoffClassifier = operator.raw_operator
    refuse_derived(model)
    X = _encoded(graph, operator, model.schema_)
    natural, offset = model.parameters_.natural, model.parameters_.offset
    density = model.density_
    if model.schema_.sparse and isinstance(density, Product):
        density = density.parts[0][0]  # over all columns, which are one to the product
    partition = density.log_partition(natural)
    if model.parameters_.absent is not None:
        partition = model.parameters_.absent
    elif not np.isfinite(partition).all():
        partition = np.zeros_like(partition)  # a posterior without densities
    # log p_k = c_k + A(η_k); a factor's -A(η_k) is left out with it.
    scores = graph.add(
        class_scores(graph, X, density, natural, partition),
        graph.constant(offset + partition.sum(axis=1)),
    )
    n_components = natural.shape[0] // model.classes_.size
    if n_components > 1:
        parts = graph.reshape(scores, [-1, model.classes_.size, n_components])
        scores = graph.node("ReduceLogSumExp", parts, graph.integers([2]), keepdims=0)
    scale, base = posterior_power(model)
    scores = graph.add(graph.node("Mul", scores, graph.constant(scale)), graph.constant(base))
    posterior = graph.node("Softmax", scores, axis=1)
    graph.name(posterior, operator.outputs[1].full_name)
    _decide(graph, posterior, model, operator.outputs[0].full_name)


def _decide(graph: Graph, posterior: str, model: Any, output: str) -> None:
    selection = getattr(model, "selection", "log_loss")
    if isinstance(selection, str):
        position = graph.node("ArgMax", posterior, axis=1, keepdims=0)
    else:
        _, costs = check_criterion(selection, model.classes_.size)
        expected = graph.node("MatMul", posterior, graph.constant(np.asarray(costs)))
        position = graph.node("ArgMin", expected, axis=1, keepdims=0)
    labels = model.classes_.tolist()
    known = graph.text(labels) if isinstance(labels[0], str) else graph.integers(map(int, labels))
    graph.name(graph.node("Gather", known, position, axis=0), output)


def _convert_entropic(scope: Any, operator: Any, container: Any) -> None:
    from skl2onnx._supported_operators import sklearn_operator_name_map
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    graph = Graph(scope, container)
    model: EntropicNaiveBayes = operator.raw_operator
    matrix = _encoded(graph, operator, model.schema_)
    log_prior = graph.constant(model.log_prior_)
    label_type = StringTensorType if isinstance(model.classes_[0], str) else Int64TensorType
    scores = graph.constant(np.log(model.class_prior_))
    for classifier, columns in model.column_classifiers_:
        part = graph.node("Gather", matrix, graph.integers(columns), axis=1)
        filled, present = split_missing(graph, part)
        given = scope.declare_local_variable("part", DoubleTensorType([None, len(columns)]))
        graph.name(filled, given.onnx_name)
        inner = scope.declare_local_operator(
            sklearn_operator_name_map[type(classifier)], classifier
        )
        inner.inputs.append(given)
        inner.outputs.append(scope.declare_local_variable("column_label", label_type()))
        found = scope.declare_local_variable("column_posterior", DoubleTensorType())
        inner.outputs.append(found)
        known = list(classifier.classes_)
        order = graph.integers([known.index(label) for label in model.classes_.tolist()])
        posterior = graph.node("Gather", graph.double(found.onnx_name), order, axis=1)
        floor = graph.constant(np.array(LEAST_POSTERIOR))
        factor = graph.node(
            "Sub", graph.node("Log", graph.node("Max", posterior, floor)), log_prior
        )
        whole = graph.node("ReduceMin", present, graph.integers([1]), keepdims=1)
        scores = graph.add(scores, graph.node("Mul", factor, whole))
    posterior = graph.node("Softmax", scores, axis=1)
    graph.name(posterior, operator.outputs[1].full_name)
    _decide(graph, posterior, model, operator.outputs[0].full_name)


def _convert_pool(scope: Any, operator: Any, container: Any) -> None:
    graph = Graph(scope, container)
    posterior = pool_posterior(graph, scope, operator)
    graph.name(posterior, operator.outputs[1].full_name)
    _decide(graph, posterior, operator.raw_operator, operator.outputs[0].full_name)


def _convert_preparation(scope: Any, operator: Any, container: Any) -> None:
    graph = Graph(scope, container)
    model: Preparation = operator.raw_operator
    matrix = _encoded(graph, operator, model.schema_)
    wide = graph.node("Gather", matrix, graph.integers(model.source_columns_), axis=1)
    is_level = np.concatenate(
        [np.full(1 if one is None else one.size, one is not None) for one in model.levels_]
    )
    levels = np.concatenate([[np.nan] if one is None else one for one in model.levels_])
    seen = graph.double(graph.node("Equal", wide, graph.constant(levels)))
    wide = graph.node("Where", graph.truths(is_level), seen, wide)
    missing = graph.node("IsNaN", wide)
    filled = graph.node("Where", missing, graph.constant(model.medians_), wide)
    centred = graph.node("Sub", filled, graph.constant(model.means_))
    scaled = graph.node("Mul", centred, graph.constant(1.0 / model.scales_))
    graph.name(scaled, operator.outputs[0].full_name)


# -- from inputs to the matrix ---------------------------------------------------------------------


def _encoded(graph: Graph, operator: Any, schema: Schema) -> str:
    """Return the matrix that the schema makes of a table."""
    inputs = [variable.full_name for variable in operator.inputs]
    if len(inputs) == 1 and not _is_text(schema, 0):
        whole = graph.double(inputs[0])
        if all(kind in ("continuous", "count") for kind in schema.kinds):
            return whole
        inputs = [
            graph.node("Gather", whole, graph.integers([j]), axis=1)
            for j in range(schema.n_features)
        ]
    columns = [_encoded_column(graph, name, schema, j) for j, name in enumerate(inputs)]
    return columns[0] if len(columns) == 1 else graph.node("Concat", *columns, axis=1)


def _encoded_column(graph: Graph, name: str, schema: Schema, column: int) -> str:
    known, kind = schema.categories[column], schema.kinds[column]
    if known is None and kind not in ("boolean", "identifier"):
        return graph.double(name)
    text = schema.texts[column] if schema.texts else None
    if text is not None:
        counts = graph.words[column] = count_words(graph, name, text, known or ())
        return graph.node("ReduceSum", counts, graph.integers([1]), keepdims=1)
    nan = graph.constant(np.array(np.nan))
    if _is_text(schema, column):
        # Identifiers, and a column of text without a cell, have no categories: none is known.
        known = known or ()
        code = graph.double(graph.positions(name, list(known) or [""]))
        if not known:
            code = graph.node("Sub", code, graph.constant(np.array(1.0)))
        unseen = graph.node("Less", code, graph.constant(np.array(0.0)))
        return graph.node("Where", unseen, nan, code)
    values = np.array([(0.0, 1.0) if known is None else known], dtype=np.float64)
    if kind == "boolean" and known is not None:
        # As `in_pair`: cells of single precision are those of fit, too.
        away = graph.node("Abs", graph.node("Sub", graph.double(name), graph.constant(values)))
        near = graph.node("Less", away, graph.constant(np.array(NEAR * np.ptp(values) or 1e-300)))
        equal = graph.double(near)
    else:
        equal = graph.double(graph.node("Equal", graph.double(name), graph.constant(values)))
    codes = np.arange(values.size, dtype=np.float64)[:, None]
    code = graph.node("MatMul", equal, graph.constant(codes))
    seen = graph.node("ReduceSum", equal, graph.integers([1]), keepdims=1)
    unseen = graph.node("Less", seen, graph.constant(np.array(0.5)))
    return graph.node("Where", unseen, nan, code)


# -- densities: η_k·T(x) - A(η_k), factors with a missing cell left out ----------------------------
