"""Naive Bayes with derived columns: given ones, the most telling ones, or those that pay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from crossfade._checks import show
from crossfade._typing import Floats, Integers
from crossfade.classifiers.interactions import Derived, Screened, named, screened, taken
from crossfade.errors import DataError
from crossfade.table import Schema, check_weights, encode_labels, read_features
from crossfade.table.documents import indexable
from crossfade.table.groups import encode_groups
from crossfade.tradeoff.choice import paired_gain
from crossfade.tradeoff.folds import folds
from crossfade.tradeoff.labelled_rows import LabelledRows

if TYPE_CHECKING:
    from crossfade.classifiers.naive_bayes import NaiveBayes

__all__ = ["Search", "check_interactions", "fit_with_interactions"]

_FOLDS = 5

#: Tests that are kept for people to look at.
_SHOWN = 10


def check_interactions(wanted: Any) -> None:
    """Refuse what is neither "auto" nor a number nor pairs."""
    pairs = not isinstance(wanted, str) and isinstance(wanted, Sequence)
    whole = isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool)
    named = wanted is None or (isinstance(wanted, str) and wanted == "auto")
    fine = all(map(_is_pair, wanted)) if pairs else named
    if not fine and not (whole and wanted >= 1):
        raise DataError(
            "interactions: expected None, 'auto', a number of at least 1 or pairs of columns, got "
            f"{show(wanted)}; for example [('age', 'income')]"
        )


def _is_pair(one: Any) -> bool:
    return not isinstance(one, str) and isinstance(one, Sequence) and len(one) == 2


@dataclass
class Search:
    """Which columns are derived for which rows.

    `posterior` (n_samples, n_classes): Of rows by fits that did not see them; None where pairs are
        given.
    `held` (n_samples,): Rows that have one.
    """

    wanted: Any
    posterior: Floats | None = None
    held: Integers | None = None

    def tests(
        self, rows: LabelledRows, schema: Schema, train: Integers | None = None
    ) -> list[Screened]:
        """Return all candidates, by what these rows (all if None) say of them."""
        assert self.posterior is not None
        assert self.held is not None
        some = self.held if train is None else np.intersect1d(self.held, train)
        weights = None if rows.weights is None else rows.weights[some]
        return screened(rows.X[some], schema, rows.codes[some], self.posterior[some], weights)

    def derives(
        self, rows: LabelledRows, schema: Schema, train: Integers | None = None
    ) -> Sequence[Derived]:
        """Return the derived columns that these rows ask for."""
        _refuse_words(schema)
        if self.posterior is None:
            # The same pair, however it is given, is evidence once.
            given: dict[frozenset[int], Derived] = {}
            for pair in self.wanted:
                one = _given(pair, schema)
                given.setdefault(frozenset((one.first, one.second)), one)
            return list(given.values())
        number = None if self.wanted == "auto" else int(self.wanted)
        return taken(self.tests(rows, schema, train), number)


def _refuse_words(schema: Schema) -> None:
    if schema.reads_words:
        raise DataError(
            "interactions: expected a table of numbers and categories, got one with words; "
            "leave interactions out"
        )


def _given(pair: Sequence[Any], schema: Schema) -> Derived:
    first, second = (schema.index(column, "interactions") for column in pair)
    kinds = {schema.kinds[first], schema.kinds[second]}
    if first == second:
        raise DataError(
            f"interactions: expected pairs of two columns, got {show(pair)}, one column twice; "
            "name two"
        )
    if "identifier" in kinds:
        raise DataError(
            f"interactions: expected pairs of two columns with values that recur, got {show(pair)}"
        )
    if kinds <= {"continuous", "count", "boolean"}:
        return Derived("product", first, second)
    if kinds <= {"categorical", "boolean"}:
        return Derived("pair", first, second)
    raise DataError(
        f"interactions: expected pairs of numbers or pairs of categories, got {show(pair)}, a "
        "number and a category; cut the number into categories first"
    )


def fit_with_interactions(
    model: NaiveBayes,
    fit: Callable[..., Floats | None],
    X: Any,
    y: Any,
    sample_weight: Any,
    groups: Any,
    fold: Integers | None,
) -> Floats | None:
    """Fit; return log-posteriors of held-out rows where there are any."""
    model._check_parameters()
    if not isinstance(model.interactions, (str, int, np.integer)):
        model._search = Search(model.interactions)
        found = fit(X, y, sample_weight, groups, fold)
        _tell(model, [])
        return found
    automatic = model.interactions == "auto"
    if automatic and not isinstance(model.tradeoff, str):
        raise DataError(
            f"interactions: expected a number or pairs with tradeoff={model.tradeoff!r}, got "
            "'auto', which needs tradeoff 'auto' or 'best'"
        )
    n = _num_samples(X)
    weights = check_weights(sample_weight, n) if sample_weight is not None else None
    groups = None if groups is None else encode_groups(groups, n)
    if weights is not None and not weights.all():
        kept = np.flatnonzero(weights)
        X, y, weights = _safe_indexing(indexable(X), kept), _safe_indexing(y, kept), weights[kept]
        groups = None if groups is None else np.unique(groups[kept], return_inverse=True)[1]
    plain = clone(model).set_params(interactions=None)
    matrix, schema = read_features(clone(plain), X, reset=True, sample_weight=weights)
    _refuse_words(schema)
    classes, codes = encode_labels(y, n_samples=matrix.shape[0])
    rows = LabelledRows(matrix, codes, weights, classes.size)
    if fold is None:
        fold = folds(rows, _FOLDS, groups)
    held = plain.fit_out_of_fold(X, y, weights, groups, fold)
    if held is None:
        held = _by_fold(model, X, classes[codes], weights, fold, classes)
    which = np.flatnonzero(fold >= 0)
    search = Search(model.interactions, np.exp(held), which)
    tests = search.tests(rows, schema)
    asked = taken(tests, None if automatic else int(model.interactions))
    why = f"no derived columns: none of {len(tests)} tested can be told from chance"
    if asked:
        model._search = search
        found = fit(X, y, weights, groups, fold)
        gain, error = _gain(held, found, codes, weights, which)
        moved = f"{-gain:+.4f} in out-of-fold log-loss (standard error {error:.4f})"
        if not automatic or gain > error:
            _tell(model, tests, f"{{}} derived columns taken of {len(tests)} tested: {moved}")
            return found if isinstance(model.tradeoff, str) else None
        why = f"no derived columns: the {len(asked)} that tests ask for would be worth {moved}"
    parameters = model.get_params(deep=False)
    own = {name: value for name, value in vars(plain).items() if name not in parameters}
    model.__dict__.update(own)
    _tell(model, tests, why)
    return held if isinstance(model.tradeoff, str) else None


def _tell(model: NaiveBayes, tests: Sequence[Screened], words: str | None = None) -> None:
    model.__dict__.pop("_search", None)
    derived, schema = model._derived, model.schema_
    if words is not None and isinstance(model.tradeoff, str):
        number = 0 if derived is None else len(derived.columns)
        model.selection_ = f"{model.selection_}; {words.format(number)}"
    model.interactions_ = [] if derived is None else [named(one, schema) for one in derived.columns]
    model.interaction_tests_ = [
        {"column": named(one.derived, schema), "statistic": float(one.statistic),
         "p_value": float(one.p_value)}
        for one in tests[:_SHOWN]
    ]  # fmt: skip


def _by_fold(
    model: NaiveBayes, X: Any, labels: Any, weights: Floats | None, fold: Integers, classes: Any
) -> Floats:
    """Return log-posteriors of each fold by a fit at this λ to the others."""
    held = np.full((len(labels), classes.size), -np.log(classes.size))
    for number in np.unique(fold[fold >= 0]):
        train, own = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        part = clone(model).set_params(interactions=None)
        part.fit(
            _safe_indexing(indexable(X), train),
            labels[train],
            None if weights is None else weights[train],
        )
        place = np.searchsorted(classes, part.classes_)
        posterior = np.zeros((own.size, classes.size))
        posterior[:, place] = part.predict_proba(_safe_indexing(indexable(X), own))
        held[own] = np.log(np.maximum(posterior, 1e-300))
    return held


def _gain(
    before: Floats, after: Floats | None, codes: Integers, weights: Floats | None, held: Integers
) -> tuple[float, float]:
    """Return by how much the log-loss of held-out rows falls, and its standard error."""
    if after is None:
        return 0.0, float("nan")
    now, then = -after[held, codes[held]], -before[held, codes[held]]
    return paired_gain(now, then, None if weights is None else weights[held])
