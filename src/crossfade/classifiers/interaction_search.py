"""Naive Bayes with derived columns: given ones, the most telling ones, or those that pay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from crossfade._checks import show
from crossfade._typing import Floats, Integers
from crossfade.classifiers.interactions import Derived, Screened, named, names_of, screened, taken
from crossfade.errors import DataError
from crossfade.table import Schema, encode_labels, read_features
from crossfade.table.rows import present_rows, rows_at
from crossfade.tradeoff.choice import paired_gain
from crossfade.tradeoff.folds import drawn_one_by_one, folds
from crossfade.tradeoff.labelled_rows import LabelledRows

if TYPE_CHECKING:
    from crossfade.classifiers.naive_bayes import NaiveBayes

_FOLDS = 5

#: Tests that are kept for people to look at.
_SHOWN = 10


def check_interactions(model: NaiveBayes) -> None:
    """Refuse interactions and thresholds that are neither "auto" nor a number nor named ones."""
    pairs: Any = model.interactions
    places: Any = model.thresholds
    fine = _is_sequence(pairs) and all(_is_sequence(one) and len(one) == 2 for one in pairs)
    if not fine and not _is_searched(pairs):
        raise DataError(
            "interactions: expected None, 'auto', a number of at least 1 or pairs of columns, got "
            f"{show(pairs)}; for example [('age', 'income')]"
        )
    fine = isinstance(places, Mapping) and all(
        _is_sequence(some) and all(map(_is_finite, some)) for some in places.values()
    )
    if not fine and not _is_searched(places):
        raise DataError(
            "thresholds: expected None, 'auto', a number of at least 1 or a mapping of columns to "
            f"numbers, got {show(places)}; for example {{'age': [30, 65]}}"
        )
    searched = {
        isinstance(one, str) for one in (pairs, places) if one is not None and _is_searched(one)
    }
    if len(searched) > 1:
        raise DataError(
            f"interactions, thresholds: expected 'auto' or a number for both, got {pairs!r} and "
            f"{places!r}; give both in one way"
        )
    if True in searched and not isinstance(model.tradeoff, str):
        name = "interactions" if isinstance(pairs, str) else "thresholds"
        raise DataError(
            f"{name}: expected a number or named columns with tradeoff={model.tradeoff!r}, got "
            "'auto', which needs tradeoff 'auto' or 'best'"
        )


def _is_searched(wanted: Any) -> bool:
    """Whether the columns are looked for, or there are none."""
    if wanted is None or isinstance(wanted, str):
        return wanted in (None, "auto")
    whole = isinstance(wanted, (int, np.integer)) and not isinstance(wanted, bool)
    return whole and wanted >= 1


def _is_sequence(one: Any) -> bool:
    """Whether it has an order: a list, a tuple, an array or a series of any library."""
    ordered = hasattr(one, "__getitem__") and hasattr(one, "__len__") and np.ndim(one) > 0
    return ordered and not isinstance(one, (str, bytes, Mapping))


def _is_finite(one: Any) -> bool:
    number = isinstance(one, (int, float, np.number)) and not isinstance(one, bool)
    return number and bool(np.isfinite(one))


@dataclass
class Search:
    """Which columns are derived for which rows.

    `pairs`, `places`: `interactions` and `thresholds` of the model.
    `posterior` (n_samples, n_classes): Of rows by fits that did not see them; None where all is
        given.
    `held` (n_samples,): Rows that have one.
    `squares`: Whether the model has squares of numbers.
    """

    pairs: Any
    places: Any
    posterior: Floats | None = None
    held: Integers | None = None
    squares: bool = True

    def tests(
        self, rows: LabelledRows, schema: Schema, train: Integers | None = None
    ) -> list[Screened]:
        """Return all candidates, by what these rows (all if None) say of them."""
        assert self.posterior is not None
        assert self.held is not None
        some = self.held if train is None else np.intersect1d(self.held, train)
        return screened(
            rows.X[some],
            schema,
            rows.codes[some],
            self.posterior[some],
            None if rows.weights is None else rows.weights[some],
            together=self.pairs is not None and _is_searched(self.pairs),
            alone=self.places is not None and _is_searched(self.places),
            squares=self.squares,
        )

    def asked(self, tests: Sequence[Screened]) -> list[Derived]:
        """Return the columns that tests ask for."""
        pairs, places = (
            int(one) if isinstance(one, (int, np.integer)) else None
            for one in (self.pairs, self.places)
        )
        return taken(tests, pairs, places)

    def derives(
        self, rows: LabelledRows, schema: Schema, train: Integers | None = None
    ) -> Sequence[Derived]:
        """Return the derived columns that are given, and those that these rows ask for."""
        _refuse_words(schema)
        given: dict[Any, Derived] = {}
        if not _is_searched(self.pairs):
            # The same pair, however it is given, is evidence once.
            for pair in self.pairs:
                one = _given(pair, schema)
                given.setdefault(frozenset((one.first, one.second)), one)
        if not _is_searched(self.places):
            given |= {one: one for one in _given_steps(self.places, schema)}
        found = [] if self.posterior is None else self.asked(self.tests(rows, schema, train))
        return [*given.values(), *found]


def _refuse_words(schema: Schema) -> None:
    if schema.reads_words:
        raise DataError(
            "interactions, thresholds: expected a table of numbers and categories, got one with "
            "words; leave both out"
        )


def _given_steps(places: Mapping[Any, Sequence[float]], schema: Schema) -> Iterator[Derived]:
    for column, some in places.items():
        j = schema.index(column, "thresholds")
        if schema.kinds[j] not in ("continuous", "count"):
            raise DataError(
                f"thresholds: expected columns of numbers, got {show(column)}, which is "
                f"{schema.kinds[j]}; leave it out"
            )
        for at in some:
            yield Derived("step", j, j, float(at))


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
    pairs, places = model.interactions, model.thresholds
    sought = {
        name: None
        for name, one in (("interactions", pairs), ("thresholds", places))
        if one is not None and _is_searched(one)
    }
    if not sought:
        model._search = Search(pairs, places)
        found = fit(X, y, sample_weight, groups, fold)
        _tell(model, [])
        return found
    automatic = isinstance(getattr(model, next(iter(sought))), str)
    X, y, weights, groups, _ = present_rows(X, y, sample_weight, groups)
    plain = clone(model).set_params(**sought)
    matrix, schema = read_features(clone(plain), X, reset=True, sample_weight=weights)
    _refuse_words(schema)
    classes, codes = encode_labels(y, n_samples=matrix.shape[0])
    rows = LabelledRows(matrix, codes, weights, classes.size)
    given = fold is not None
    drawn = drawn_one_by_one(rows) if fold is None and groups is None else None
    if drawn is not None and weights is not None:
        index, share = drawn
        X, y = rows_at(X, index), _safe_indexing(y, index)
        weights = weights[index] * share
        rows = replace(rows.take(index), weights=weights)
        codes = rows.codes
    if fold is None:
        fold = folds(rows, _FOLDS, groups)
    held = plain.fit_out_of_fold(X, y, weights, groups, fold)
    if held is None:
        held = _by_fold(plain, X, classes[codes], weights, fold, classes)
    which = np.flatnonzero(fold >= 0)
    search = Search(pairs, places, np.exp(held), which, not model.shared_variance)
    tests = search.tests(rows, schema)
    asked = search.asked(tests)
    why = f"no derived columns: none of {len(tests)} tested can be told from chance"
    if asked:
        model._search = search
        found = fit(X, y, weights, groups, fold)
        gain, error = _gain(held, found, codes, weights, groups, which)
        moved = f"{-gain:+z.4f} in out-of-fold log-loss (standard error {error:.4f})"
        if not automatic or gain > error:
            _tell(model, tests, f"{{}} derived columns taken of {len(tests)} tested: {moved}")
            return found if isinstance(model.tradeoff, str) else None
        why = f"no derived columns: the {len(asked)} that tests ask for would be worth {moved}"
    if not given and isinstance(model.tradeoff, str):
        # As without looking for columns: perhaps chosen by leave-one-out.
        plain.fit(X, y, weights, groups)
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
    columns = () if derived is None else derived.columns
    for name, wanted in (("interaction", model.interactions), ("threshold", model.thresholds)):
        if wanted is None:
            continue
        alone = name == "threshold"
        own = names_of([one for one in columns if one.alone == alone], schema)
        told = [
            {"column": named(one.derived, schema), "statistic": one.statistic,
             "p_value": float(one.p_value)}
            for one in tests if one.derived.alone == alone
        ]  # fmt: skip
        model.__dict__ |= {f"{name}s_": own, f"{name}_tests_": told[:_SHOWN]}


def _by_fold(
    plain: NaiveBayes, X: Any, labels: Any, weights: Floats | None, fold: Integers, classes: Any
) -> Floats:
    """Return log-posteriors of each fold by a fit at this λ to the others."""
    held = np.full((len(labels), classes.size), -np.log(classes.size))
    for number in np.unique(fold[fold >= 0]):
        train, own = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        of_part = None if weights is None else weights[train]
        part = clone(plain).fit(rows_at(X, train), labels[train], of_part)
        place = np.searchsorted(classes, part.classes_)
        posterior = np.zeros((own.size, classes.size))
        posterior[:, place] = part.predict_proba(rows_at(X, own))
        held[own] = np.log(np.maximum(posterior, 1e-300))
    return held


def _gain(
    before: Floats,
    after: Floats | None,
    codes: Integers,
    weights: Floats | None,
    groups: Integers | None,
    held: Integers,
) -> tuple[float, float]:
    """Return by how much the log-loss of held-out rows falls, and its standard error."""
    if after is None:
        return 0.0, float("nan")
    now, then = -after[held, codes[held]], -before[held, codes[held]]
    weights = None if weights is None else weights[held]
    return paired_gain(now, then, weights, None if groups is None else groups[held])
