"""A pool's prediction as a sum: over its members, and over the columns of the row."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from crossfade._typing import Floats
from crossfade.classifiers.explanation import Explanation, explain
from crossfade.errors import DataError
from crossfade.pools.members import is_fitted_already, probabilities
from crossfade.pools.weights import drawn_in
from crossfade.table.decoding import decoded_table
from crossfade.table.schema import Schema

if TYPE_CHECKING:
    from crossfade.pools.pooled import PooledClassifier

#: Rows over which columns that are not known are averaged; orders of columns, each also reversed.
_BACKGROUND_ROWS: Final = 20
_ORDERS: Final = 5


def shuffled_cells(matrix: Any, schema: Schema, seed: int) -> Floats | None:
    """Return rows of cells as the columns have them, but no row of the table; None of words.

    Each column's cells are drawn on their own. Shapes: matrix (n_rows, n_features).
    """
    if schema.sparse or schema.texts:
        return None
    rng, n = np.random.default_rng(seed), matrix.shape[0]
    picked = [
        matrix[rng.permutation(n)[: min(n, _BACKGROUND_ROWS)], j] for j in range(matrix.shape[1])
    ]
    return np.column_stack(picked).astype(np.float64)


def explain_pool(pool: PooledClassifier, X: Any) -> Explanation:
    """Return what members and columns add to the log-posterior, as :func:`~crossfade.explain`."""
    scores, log_prior = pool._member_scores(X), np.log(pool._row_shares)
    shape = (scores.shape[1], pool.schema_.n_features, pool.classes_.size)
    baseline, contributions = np.tile(np.log(pool.class_prior_), (shape[0], 1)), np.zeros(shape)
    if pool.pooling_ == "linear" and len(scores) > 1:
        # The log of a sum has no part for each member.
        columns = _shapley(pool, X, pool.predict_log_proba)
        whole = pool.predict_log_proba(X) - columns.sum(axis=1)
        return Explanation(pool.classes_, pool.schema_.names, whole, columns)
    words: dict[str, Any] = {}
    members: dict[str, Floats] = {}
    names, weights = pool.member_names_, pool._weighing.weights
    for name, model, w, own in zip(names, pool.estimators_, weights, scores, strict=True):
        members[name] = w * (own - log_prior)
        # Weights by class: what is common to the classes is no longer, and it is no sum.
        found = _additive(model, X, pool.classes_) if np.ndim(w) == 0 else None
        if found is None:
            columns = w * _shapley(pool, X, _scores_of(pool, model))
        else:
            power = _power(found.scores - log_prior, own - log_prior)
            words |= {
                column: (known, [one.multiply(w * power).tocsr() for one in by_class])
                for column, (known, by_class) in found.words.items()
            }
            columns = w * power[:, :, None] * found.contributions
        contributions += columns
        baseline += members[name] - columns.sum(axis=1)
    return Explanation(pool.classes_, pool.schema_.names, baseline, contributions, words, members)


def _additive(model: Any, X: Any, classes: Any) -> Explanation | None:
    """Return a member's own explanation, None where it has none."""
    try:
        found = explain(model.estimator if is_fitted_already(model) else model, X)
    except DataError:
        return None
    return found if np.array_equal(found.classes, classes) else None


def _power(scores: Floats, drawn: Floats) -> Floats:
    """Return what a member's log-odds are multiplied with by drawing in, (n_rows, 1)."""
    scores = scores - scores.mean(axis=1, keepdims=True)
    drawn = drawn - drawn.mean(axis=1, keepdims=True)
    size = (scores**2).sum(axis=1, keepdims=True)
    inner = (scores * drawn).sum(axis=1, keepdims=True)
    return np.divide(inner, size, out=np.ones_like(size), where=size > 0.0)


def _scores_of(pool: PooledClassifier, model: Any) -> Callable[[Any], Floats]:
    def scores(X: Any) -> Floats:
        posterior = probabilities(model, X, pool.classes_)
        return drawn_in(posterior, pool._n_rows, pool._row_shares, pool.pseudo_count)

    return scores


def _shapley(pool: PooledClassifier, X: Any, scores: Callable[[Any], Floats]) -> Floats:
    """Return Shapley values of the columns (Štrumbelj & Kononenko 2014).

    Shapes: → (n_rows, n_features, n_classes).
    """
    background, schema = pool.background_, pool.schema_
    if background is None:
        raise DataError(
            "model: expected members whose log-odds are a sum over columns where a table has free "
            "text or is sparse, got others in the pool; explain a pool of naive Bayes alone"
        )
    matrix = np.asarray(schema.encode(X), dtype=np.float64)
    n, d = matrix.shape
    rng = np.random.default_rng(pool.random_state)
    orders = [rng.permutation(d) for _ in range(_ORDERS)]
    # An order and its reverse: exact where no more than two columns act together.
    orders = [order for one in orders for order in (one, one[::-1])]
    found = np.zeros((n, d, pool.classes_.size))
    for row, own in zip(matrix, found, strict=True):
        for order in orders:
            # Columns become known one after the other.
            known = np.argsort(order) < np.arange(d + 1)[:, None]
            cells = np.where(known[:, None, :], row, background)
            table = decoded_table(schema, cells.reshape(-1, d), pool._table_library)
            with warnings.catch_warnings():
                # Of names of columns, where there are none.
                warnings.simplefilter("ignore")
                value = scores(table).reshape(d + 1, len(background), -1).mean(axis=1)
            own[order] += np.diff(value, axis=0) / len(orders)
    return found
