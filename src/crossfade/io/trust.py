"""Which types a model file may hold, and the check of a file against that list.

skops trusts all of scikit-learn's estimators by default, far more than Crossfade's models are made
of. Here every type that a file names is looked at before skops builds anything, and each must be
in :data:`TRUSTED` or be named by the caller. skops then checks once more, by its own rules.

A default pool holds scikit-learn's forest and boosting: exactly the types that these are made of
are on the list, too, and each way of building that is more than plain data is tied to one name.
Their predictions follow indices of nodes in compiled code that does not look at them, so that
:func:`check_trees` does before anything is predicted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from crossfade.densities import (
    DENSITIES,
    BinaryWords,
    Constant,
    JohnsonSU,
    Multinomial,
    MultivariateGaussian,
    Product,
)
from crossfade.densities.covariance import STRUCTURES
from crossfade.errors import DataError

_DENSITIES: Final[tuple[type, ...]] = (
    *DENSITIES.values(),
    *STRUCTURES.values(),
    BinaryWords,
    Constant,
    JohnsonSU,
    Multinomial,
    MultivariateGaussian,
    Product,
)

#: What the members of a default pool are made of besides: trees, and what prepares their columns.
_OF_MEMBERS: Final = (
    "crossfade.pools.boosting.Boosting",
    "crossfade.table.preparation.Indicators",
    "sklearn._loss.link.Interval",
    "sklearn._loss.link.LogitLink",
    "sklearn._loss.link.MultinomialLogit",
    "sklearn._loss.loss.HalfBinomialLoss",
    "sklearn._loss.loss.HalfMultinomialLoss",
    "sklearn.compose._column_transformer.ColumnTransformer",
    "sklearn.ensemble._forest.RandomForestClassifier",
    "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
    "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.feature_extraction.text.TfidfTransformer",
    "sklearn.preprocessing._encoders.OrdinalEncoder",
    "sklearn.preprocessing._function_transformer.FunctionTransformer",
    "sklearn.preprocessing._label.LabelEncoder",
    "sklearn.tree._classes.DecisionTreeClassifier",
    "numpy.uint64",
)

#: The same where more than plain data is built: how skops builds it, and the only types so built.
_BUILT: Final = frozenset(
    {
        ("TreeNode", "sklearn.tree._tree.Tree"),
        ("LossNode", "sklearn._loss._loss.CyHalfBinomialLoss"),
        ("LossNode", "sklearn._loss._loss.CyHalfMultinomialLoss"),
        ("FunctionNode", "sklearn.utils.validation.check_array"),
        ("PartialNode", "functools.partial"),
    }
)

#: What Crossfade's own estimators, fitted in any way, are made of.
TRUSTED: Final = (
    *_OF_MEMBERS,
    *(name for _, name in _BUILT),
    "crossfade.classifiers.entropic_naive_bayes.EntropicNaiveBayes",
    "crossfade.classifiers.gaussian_discriminant.GaussianDiscriminant",
    "crossfade.classifiers.naive_bayes.NaiveBayes",
    *(f"{kind.__module__}.{kind.__qualname__}" for kind in _DENSITIES),
    "crossfade.classifiers.interactions.Derived",
    "crossfade.classifiers.interactions.DerivedColumns",
    "crossfade.densities.categorical.Tally",
    "crossfade.pools.jackknife.Jackknife",
    "crossfade.pools.jackknife.Replica",
    "crossfade.pools.pooled.PooledClassifier",
    "crossfade.pools.training.Weighed",
    "crossfade.pools.weights.Weighing",
    "crossfade.inference.held_out.HeldOut",
    "crossfade.inference.held_out.Moved",
    "crossfade.inference.sandwich.PosteriorCovariance",
    "crossfade.inference.shares.ClassShares",
    "crossfade.inference.strangers.Usual",
    "crossfade.optim.solver.Solution",
    "crossfade.tradeoff.fitting.Fitted",
    "crossfade.tradeoff.fitting.Sums",
    "crossfade.tradeoff.joint.JointDensity",
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
    built = {
        (str(node["__loader__"]), f"{node.get('__module__')}.{node.get('__class__')}")
        for node in _nodes(schema)
    }
    names = {name for _, name in built}
    wrong = sorted(names - accepted)
    if wrong:
        shown = ", ".join(ascii(name)[1:-1] for name in wrong[:5])
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise DataError(
            f"{path}: expected only types that Crossfade's models are made of, got {shown}{more}; "
            "nothing was loaded or written. Where you know and trust them, give trusted=[…] to "
            "crossfade.io.load_model or save_model"
        )
    other = sorted({loader for loader, _ in built - _BUILT} - _LOADERS)
    mixed = {name for _, name in _BUILT} & {name for _, name in built - _BUILT}
    if (other or mixed) and not trusted:
        shown = ", ".join(ascii(name)[1:-1] for name in [*other, *sorted(mixed)][:5])
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


def check_trees(estimator: Any) -> None:
    """Raise an error where a tree anywhere in an estimator would be read out of its bounds."""
    for one in _objects(estimator):
        forest = [one, *getattr(one, "estimators_", ())] if hasattr(one, "n_features_in_") else []
        for tree in (getattr(member, "tree_", None) for member in forest):
            if tree is not None:
                leaf = np.asarray(tree.children_left) == -1
                children = tree.children_left, tree.children_right
                _check_nodes(leaf, children, tree.feature, one.n_features_in_)
        if hasattr(one, "_predictors"):
            _check_boosting(one)


def _check_boosting(model: Any) -> None:
    categorical = np.asarray(model._bin_mapper.is_categorical_)
    n_columns = model._preprocess_X(np.zeros((1, model.n_features_in_)), reset=False).shape[1]
    if categorical.shape != (n_columns,):
        raise ValueError("a boosting model does not fit its columns")
    for predictor in (one for step in model._predictors for one in step):
        nodes, sets = predictor.nodes, predictor.raw_left_cat_bitsets
        _check_nodes(nodes["is_leaf"], (nodes["left"], nodes["right"]), nodes["feature_idx"],
                     n_columns)  # fmt: skip
        named = nodes[(nodes["is_leaf"] == 0) & (nodes["is_categorical"] != 0)]
        if not categorical[named["feature_idx"]].all() or sets.shape[1:] != (8,):
            raise ValueError("a tree has categories of a column without any")
        if (named["bitset_idx"] >= len(sets)).any():
            raise ValueError("a tree has a category out of its bounds")


def _check_nodes(
    leaf: ArrayLike, children: tuple[ArrayLike, ArrayLike], feature: ArrayLike, n_features: int
) -> None:
    """Raise an error unless every path ends, inside the tree, and asks for columns that exist."""
    inner = np.flatnonzero(~np.asarray(leaf, dtype=bool))
    n_nodes, feature = np.size(leaf), np.asarray(feature)[inner].astype(np.int64)
    for child in (np.asarray(one)[inner].astype(np.int64) for one in children):
        if not ((child > inner) & (child < n_nodes)).all():
            raise ValueError("a tree has a node out of its bounds")
    if not n_nodes or not ((feature >= 0) & (feature < n_features)).all():
        raise ValueError("a tree asks for a column out of its bounds")


def _objects(root: Any) -> Iterator[Any]:
    """Yield every object that a model holds, itself included."""
    left, seen = [root], set()
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, (str, int, float, type)):
            continue
        seen.add(id(one))
        if isinstance(one, dict):
            left.extend(one.values())
        elif isinstance(one, (list, tuple)):
            left.extend(one)
        elif isinstance(one, np.ndarray):
            left.extend(one.ravel().tolist() if one.dtype == object else ())
        else:
            yield one
            left.extend(vars(one).values() if hasattr(one, "__dict__") else ())
