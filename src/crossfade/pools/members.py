"""Members of a pool: those that can be named, and what is asked of any of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, Final

import numpy as np
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import _num_samples

from crossfade._checks import show
from crossfade._typing import Floats, Integers
from crossfade.classifiers.base import TradeoffClassifier
from crossfade.classifiers.checks import derives_columns
from crossfade.classifiers.gaussian_discriminant import GaussianDiscriminant
from crossfade.classifiers.naive_bayes import NaiveBayes
from crossfade.errors import DataError
from crossfade.pools.boosting import Boosting
from crossfade.table.preparation import Indicators
from crossfade.table.rows import rows_at
from crossfade.table.schema import Schema
from crossfade.tradeoff.grid import MOST_JOINT_COLUMNS

#: Trees of the forest: scikit-learn's default.
_N_TREES: Final = 100


def random_forest(random_state: int = 0) -> Any:
    """Return scikit-learn's random forest, on 0/1 columns for text and numbers as they are."""
    forest = RandomForestClassifier(_N_TREES, random_state=random_state)
    return make_pipeline(Indicators(), forest)


def boosting(random_state: int = 0) -> Any:
    """Return scikit-learn's histogram gradient boosting, with categories as its own."""
    return Boosting(random_state=random_state)


#: Members by name: what makes one from a seed.
MEMBERS: Final[dict[str, Callable[[int], Any]]] = {
    "nb": lambda seed: NaiveBayes(),
    "shared": lambda seed: GaussianDiscriminant("shared"),
    "full": lambda seed: GaussianDiscriminant("full"),
    "forest": random_forest,
    "boosting": boosting,
}


#: Rows from which boosting is a member unasked. Its leaves hold 20 rows: of fewer than these it has
#: two or three, fewer on folds than on all rows, so that what it says there is not what it says
#: afterwards.
_FEWEST_BOOSTED: Final = 100


def default_names(schema: Schema, n_rows: float) -> list[str]:
    """Return the names of the default pool's members for a table."""
    d = sum(kind in ("continuous", "count") for kind in schema.kinds)
    joint = 1 < d <= MOST_JOINT_COLUMNS
    if "text" in schema.kinds:  # which the others do not read, or hardly
        return ["nb", "forest"]
    boosted = ["boosting"] if n_rows >= _FEWEST_BOOSTED else []
    return ["nb", *(["full"] if joint else []), "forest", *boosted]


def checked_pairs(given: Any, random_state: int, schema: Schema) -> list[tuple[str, Any]]:
    """Return (name, estimator) pairs of names and pairs, or refuse what is neither.

    `schema`: Of the table, which members by name are to know whatever a fold shows of it.
    """
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise DataError(
            f"estimators: expected 'default' or a list of names and of (name, estimator) pairs, "
            f"got {show(given)}; for example ['nb', ('svm', SVC())]"
        )
    pairs = [_pair(one, random_state, schema) for one in given]
    pairs = [(name, one) for name, one in pairs if not _is_drop(one)]
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    wrong = [name for name in names if "__" in name or name in _RESERVED]
    if twice:
        raise DataError(
            f"estimators: expected every member to have a name of its own, got {show(twice[0])} "
            f"{names.count(twice[0])} times in {show(names)}; rename it or leave it out"
        )
    if wrong or not names:
        expected = "at least one member, each with a name of its own, without '__'"
        raise DataError(
            f"estimators: expected {expected}, got {show(wrong or given)}; rename or add members"
        )
    return pairs


#: Names that set_params would take for the pool's own.
_RESERVED: Final = frozenset(
    {"estimators", "pooling", "weights", "selection", "cv", "pseudo_count", "n_jobs"}
    | {"random_state", "unlabelled"}
)


def _is_drop(one: Any) -> bool:
    return isinstance(one, str) and one == "drop"


def _is_classifier(one: Any) -> bool:
    return not isinstance(one, type) and hasattr(one, "fit") and bool(is_classifier(one))


def _pair(one: Any, random_state: int, schema: Schema) -> tuple[str, Any]:
    if isinstance(one, str) and one in MEMBERS:
        member = MEMBERS[one](random_state)
        learns = [key for key in member.get_params() if key.split("__")[-1] == "schema"]
        return one, member.set_params(**dict.fromkeys(learns, schema))
    pair = isinstance(one, (tuple, list)) and len(one) == 2 and isinstance(one[0], str)
    if not pair or not (_is_drop(one[1]) or _is_classifier(one[1])):
        raise DataError(
            f"estimators: expected one of {', '.join(map(repr, MEMBERS))} or a pair (name, "
            f"classifier), got {show(one)}; name a classifier: ('mine', classifier)"
        )
    return str(one[0]), one[1]


def is_fitted_already(estimator: Any) -> bool:
    """Return whether the estimator is frozen: `fit` leaves it as it is."""
    return isinstance(estimator, FrozenEstimator)


def check_says_probabilities(name: str, estimator: Any, prefit: bool) -> None:
    """Refuse a member that has no ``predict_proba``, nor a decision value to make some of."""
    if hasattr(estimator, "predict_proba"):
        return
    if hasattr(estimator, "decision_function") and not prefit:
        return
    remedy = "wrap it in CalibratedClassifierCV" if prefit else "leave it out"
    raise DataError(
        f"estimators: expected members with predict_proba{'' if prefit else ' or '}"
        f"{'' if prefit else 'decision_function'}, but {name!r}, {show(estimator)}, has none; "
        f"{remedy}"
    )


def is_own(estimator: Any) -> bool:
    """Return whether a member is one of Crossfade's with a tradeoff."""
    return isinstance(estimator, TradeoffClassifier)


def chooses_on_folds(estimator: Any) -> bool:
    """Return whether a member scores its own grid on folds, so that these can be the pool's."""
    return is_own(estimator) and isinstance(estimator.tradeoff, str)


def takes_unlabelled(estimator: Any) -> bool:
    """Return whether a member learns from rows without a label, too."""
    return is_own(estimator) and derives_columns(estimator) is None


def fit_argument(estimator: Any, argument: str, value: Any, name: str | None) -> dict[str, Any]:
    """Return the argument as the member's `fit` takes it; if it takes none, refuse where named."""
    last, prefix, for_splitter = estimator, "", False
    while isinstance(last, (Pipeline, GridSearchCV, RandomizedSearchCV)) and not for_splitter:
        if isinstance(last, Pipeline):
            step, last = last.steps[-1]
            prefix += f"{step}__"
        else:  # groups are its splitter's, whatever it searches
            for_splitter, last = argument == "groups", last.estimator
    if for_splitter or argument in signature(last.fit).parameters:
        # Where scikit-learn routes metadata, a pipeline passes on what its steps have asked for.
        routed = get_config()["enable_metadata_routing"]
        return {argument if routed else prefix + argument: value}
    if name is None:
        return {}
    raise DataError(
        f"{argument}: {name!r}, {type(last).__name__}, takes none; leave the weights out or choose "
        "another member"
    )


def probabilities(model: Any, X: Any, classes: Any, index: Integers | None = None) -> Floats:
    """Return a fitted member's probabilities of these classes, 0 for one that it does not know.

    Shapes: classes (n_classes,); → (n_rows, n_classes).
    """
    if index is None and not is_own(model):
        # A copy: who knows what a member of others does to its rows.
        index = np.arange(_num_samples(X))
    part = X if index is None else rows_at(X, index)
    with warnings.catch_warnings():
        # A class that a fold lacks: that is dealt with here.
        warnings.filterwarnings("ignore", message=".*(classes|labels)", category=UserWarning)
        found = np.asarray(model.predict_proba(part), dtype=np.float64)
    known = {label: k for k, label in enumerate(classes.tolist())}
    labels = np.asarray(model.classes_).tolist()
    if not known.keys() >= set(labels):
        raise DataError(f"it knows other classes than y has: {show(labels)}")
    if len(set(labels)) < len(labels):
        raise DataError(f"it names a class twice: {show(labels)}")
    if found.shape != (len(found), len(labels)) or len(found) != _num_samples(part):
        shape = (_num_samples(part), len(labels))
        raise DataError(f"its probabilities have the shape {found.shape}, not {shape}")
    place = [known[label] for label in labels]
    out = np.zeros((found.shape[0], len(known)))
    out[:, place] = found
    total = out.sum(axis=1, keepdims=True)
    if not (np.isfinite(total).all() and (total > 0.0).all() and (out >= 0.0).all()):
        raise DataError("its probabilities are not finite numbers of at least 0 that sum to 1")
    return out / total
