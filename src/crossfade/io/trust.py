"""Which types a model file may hold, and the check of a file against that list.

skops trusts all of scikit-learn's estimators by default, far more than Crossfade's models are made
of. Here every type that a file names is looked at before skops builds anything, and each must be
in :data:`TRUSTED` or be named by the caller. skops then checks once more, by its own rules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from crossfade.densities import (
    DENSITIES,
    BinaryWords,
    JohnsonSU,
    Multinomial,
    MultivariateGaussian,
    Product,
)
from crossfade.densities.covariance import STRUCTURES
from crossfade.errors import DataError

__all__ = ["TRUSTED", "check_types"]

_DENSITIES: Final[tuple[type, ...]] = (
    *DENSITIES.values(),
    *STRUCTURES.values(),
    BinaryWords,
    JohnsonSU,
    Multinomial,
    MultivariateGaussian,
    Product,
)

#: What Crossfade's own estimators, fitted in any way, are made of.
TRUSTED: Final = (
    "crossfade.classifiers.entropic_naive_bayes.EntropicNaiveBayes",
    "crossfade.classifiers.gaussian_discriminant.GaussianDiscriminant",
    "crossfade.classifiers.naive_bayes.NaiveBayes",
    *(f"{kind.__module__}.{kind.__qualname__}" for kind in _DENSITIES),
    "crossfade.densities.categorical.Tally",
    "crossfade.pools.pooled.PooledClassifier",
    "crossfade.pools.weights.Weighing",
    "crossfade.optim.solver.Solution",
    "crossfade.tradeoff.fitting.Fitted",
    "crossfade.tradeoff.fitting.Sums",
    "crossfade.tradeoff.objective.Parameters",
    "crossfade.tradeoff.scoring.Scorer",
    "crossfade.table.preparation.Preparation",
    "crossfade.table.schema.Schema",
    "crossfade.table.text.Text",
    "sklearn.pipeline.Pipeline",
    "numpy.bool",
    "numpy.float64",
    "numpy.int64",
    "numpy.ndarray",
    "numpy.str_",
    "builtins.bool",
    "builtins.dict",
    "builtins.float",
    "builtins.int",
    "builtins.list",
    "builtins.slice",
    "builtins.str",
    "builtins.tuple",
)

#: How skops may build them: data and plain objects, no functions, methods or constructor calls.
_LOADERS: Final = frozenset(
    {"CachedNode", "DictNode", "JsonNode", "ListNode", "NdArrayNode", "ObjectNode"}
    | {"SliceNode", "TupleNode", "TypeNode"}
)


def check_types(schema: Any, path: str, trusted: Collection[str] = ()) -> None:
    """Refuse a file that names a type which is not trusted."""
    accepted = {*TRUSTED, *trusted}
    loaders, names = set(), set()
    for node in _nodes(schema):
        names.add(f"{node.get('__module__')}.{node.get('__class__')}")
        loaders.add(str(node["__loader__"]))
    wrong = sorted(names - accepted)
    if wrong:
        shown = ", ".join(ascii(name)[1:-1] for name in wrong[:5])
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise DataError(
            f"{path}: expected only types that Crossfade's models are made of, got {shown}{more}; "
            "nothing was loaded. Where you know and trust them, use "
            "crossfade.io.load_model(path, trusted=[…])"
        )
    if not trusted and not loaders <= _LOADERS:
        shown = ", ".join(ascii(name)[1:-1] for name in sorted(loaders - _LOADERS)[:5])
        raise DataError(
            f"{path}: expected a model of plain data, got one that is built by {shown}; nothing "
            "was loaded"
        )


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every part of a schema that skops would build something from."""
    left = [schema]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            # A mapping of the user's may have such keys too; then their values are parts.
            if "__loader__" in part and not isinstance(part["__loader__"], dict):
                yield part
            left.extend(part.values())
        elif isinstance(part, list):
            left.extend(part)
