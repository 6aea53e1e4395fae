"""A pool of classifiers as a graph: its members' graphs, drawn in, weighed and put together."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from crossfade.errors import DataError
from crossfade.io.graph import Graph
from crossfade.pools import PooledClassifier
from crossfade.pools.pooled import combination


def check_members(pool: PooledClassifier) -> None:
    """Refuse by name a member that has no graph."""
    from skl2onnx._supported_operators import sklearn_operator_name_map

    for name, model in zip(pool.member_names_, pool.estimators_, strict=True):
        kind = type(_itself(model))
        own = kind.__module__.startswith("crossfade.")
        plain = not pool.schema_.has_names and set(pool.schema_.kinds) <= {"continuous", "count"}
        known = kind in sklearn_operator_name_map and kind is not Pipeline
        if not (known and (own or plain)):
            raise DataError(
                "estimator: expected a pool of Crossfade's own classifiers (or, fitted to an array "
                "of numbers, of others that skl2onnx knows), got one with the member "
                f"{name!r}, {kind.__name__}, which has no operators here; leave it out of the "
                "pool, or write the pool with crossfade.io.save_model"
            )


def pool_posterior(graph: Graph, scope: Any, operator: Any) -> str:
    """Return the pool's posterior of the operator's inputs."""
    from skl2onnx._supported_operators import sklearn_operator_name_map
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    pool: PooledClassifier = operator.raw_operator
    check_members(pool)
    labels, (weighing, shares, n) = pool.classes_.tolist(), combination(pool)
    label_type = StringTensorType if isinstance(labels[0], str) else Int64TensorType
    linear = weighing.pooling == "linear"
    scores = graph.constant(np.zeros(len(labels)) if linear else np.log(shares))
    for model, w in zip(pool.estimators_, weighing.weights, strict=True):
        member = _itself(model)
        inner = scope.declare_local_operator(sklearn_operator_name_map[type(member)], member)
        inner.inputs.extend(operator.inputs)
        inner.outputs.append(scope.declare_local_variable("member_label", label_type()))
        found = scope.declare_local_variable("member_posterior", DoubleTensorType())
        inner.outputs.append(found)
        # A class that the member does not know has probability 0.
        known = list(member.classes_)
        posterior = graph.double(found.onnx_name)
        padded = graph.node("Mul", posterior, graph.constant(np.zeros(len(known))))
        padded = graph.node("Concat", posterior, padded, axis=1)
        places = [known.index(one) if one in known else len(known) for one in labels]
        posterior = graph.node("Gather", padded, graph.integers(places), axis=1)
        more = pool.pseudo_count
        drawn = graph.node("Mul", posterior, graph.constant(np.array(n / (n + more))))
        drawn = graph.add(drawn, graph.constant(more * shares / (n + more)))
        if not linear:
            drawn = graph.node("Sub", graph.node("Log", drawn), graph.constant(np.log(shares)))
        scores = graph.add(scores, graph.node("Mul", drawn, graph.constant(np.asarray(w))))
    if linear:
        scores = graph.node("Log", scores)
    scores = graph.add(scores, graph.constant(np.log(pool.class_prior_ / shares)))
    return graph.node("Softmax", scores, axis=1)


def _itself(model: Any) -> Any:
    """Return the estimator that one was frozen of."""
    return model.estimator if type(model).__name__ == "FrozenEstimator" else model
