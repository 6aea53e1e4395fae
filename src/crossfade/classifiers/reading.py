"""From a user's table, or rows in parts, to what a classifier with a tradeoff learns from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing

from crossfade._typing import Floats, Integers
from crossfade.choice import ColumnChoice, Reason, as_chosen, by_type, kinds_of
from crossfade.classifiers.interactions import Derived, DerivedColumns
from crossfade.classifiers.labelled import labelled_rows
from crossfade.classifiers.views import FittedViews
from crossfade.densities.base import Density
from crossfade.errors import DataError
from crossfade.table import Schema, check_weights, read_features
from crossfade.table.decoding import table_library
from crossfade.table.groups import encode_groups
from crossfade.table.read import check_same_columns
from crossfade.table.rows import present_rows, rows_at
from crossfade.table.source import RowSource
from crossfade.table.survey import SAMPLE_ROWS, Encoder, Unforeseen, foresee, survey
from crossfade.tradeoff.choosing import ByFold
from crossfade.tradeoff.folds import drawn_one_by_one
from crossfade.tradeoff.labelled_rows import LabelledRows
from crossfade.tradeoff.source_rows import SourceRows


class Read(NamedTuple):
    """Rows as numbers, with their schema and each column's density.

    `groups` (n_samples,): Numbers of the rows' groups, None for rows on their own.
    `by_fold`: Chooses densities without the held-out rows, None if rows have no say in them.
    """

    rows: LabelledRows
    schema: Schema
    choices: Sequence[ColumnChoice]
    groups: Integers | None
    by_fold: ByFold | None


class TableReader(FittedViews, ABC):
    """Reads tables, labels and weights; a subclass says which densities columns have."""

    tradeoff: float | str
    class_weight: Mapping[Any, float] | str | None
    unlabelled: Any

    # -- what a subclass says --------------------------------------------------------------------

    @abstractmethod
    def _density(self, schema: Schema, choices: Sequence[ColumnChoice]) -> Density:
        """Return the unbound density of a table with these columns."""

    def _declared_kinds(self, X: Any) -> Mapping[Any, str] | str | None:
        """Return the kinds of columns that the user's choice of density implies."""
        return None

    def _choices(
        self,
        schema: Schema,
        rows: LabelledRows | None = None,
        groups: Integers | None = None,
        like: Sequence[ColumnChoice] | None = None,
    ) -> Sequence[ColumnChoice]:
        """Return each column's density, where columns have densities of their own."""
        return ()

    def _set_choices(self, choices: Sequence[ColumnChoice]) -> None:
        """Tell the user of them."""

    def _begin_batches(self, X: Any, schema: Schema, weights: Floats | None, matrix: Any) -> None:
        """Note what later batches must agree with."""

    def _densities(self, schema: Schema, choices: Sequence[ColumnChoice]) -> list[Density]:
        """Return what a choice is made among: variants with the same statistics, widest first."""
        return [self._density(schema, choices)]

    def _derives(
        self, rows: LabelledRows, schema: Schema, train: Integers | None
    ) -> Sequence[Derived]:
        """Return the derived columns that some of these rows (all if None) ask for."""
        return ()

    # -- tables and sources ----------------------------------------------------------------------

    def _read(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None = None,
        one_by_one: bool = False,
    ) -> Read:
        X, y, given, numbers, _ = present_rows(X, y, sample_weight, groups)
        declared = self._declared_kinds(X)
        # A copy by rows pays where they are read again and again.
        in_place = self.tradeoff == 1
        matrix, schema = read_features(
            self, X, reset=True, declared=declared, sample_weight=given, in_place=in_place
        )
        self._table_library = table_library(X)
        plain, self.classes_, numbers, order = labelled_rows(
            matrix, y, given, numbers, unlabelled=self.unlabelled, class_weight=self.class_weight
        )
        drawn = drawn_one_by_one(plain) if one_by_one and given is not None else None
        if drawn is not None and given is not None:
            index, share = drawn
            n = plain.n_samples
            every = np.arange(n) if order is None else order
            places = np.concatenate([every[:n][index], every[n:]])
            parts = given[places] * np.append(share, np.ones(places.size - share.size))
            return self._read(rows_at(X, places), _safe_indexing(y, places), parts)
        rows, longer = self._with_derived(plain, schema)
        choices = self._choices(longer, rows, numbers)
        self._set_choices(choices[: schema.n_features])
        self._begin_batches(X, schema, given, matrix)
        by_fold = self._choice_by_fold(schema, plain, numbers, choices)
        better: dict[int, Any] | None = kinds_of(choices[: schema.n_features], schema.kinds)
        if better:
            # How text is cut into words stays as it was.
            better |= {j: text for j, text in enumerate(schema.texts) if text is not None}
            matrix, schema = read_features(
                self, X, reset=True, declared=better, sample_weight=given
            )
            if self._derived is not None:
                self._derived = self._derived.recoded(schema)
                longer = self._derived.schema(schema)
                matrix = np.column_stack([matrix, rows.X[:, schema.n_features :]])
            rows = rows.recoded(matrix if order is None else matrix[order])
        return Read(rows, schema if self._derived is None else longer, choices, numbers, by_fold)

    def _with_derived(
        self, rows: LabelledRows, schema: Schema, train: Integers | None = None
    ) -> tuple[LabelledRows, Schema]:
        """Return rows and schema with derived columns behind the table's own."""
        columns = self._derives(rows, schema, train)
        derived = DerivedColumns.of(columns, rows.X, schema, rows.weights) if columns else None
        if train is None:
            self._derived = derived
        if derived is None:
            return rows, schema
        longer = replace(rows, X=derived.appended(rows.X), n_own=schema.n_features)
        return longer, derived.schema(schema)

    def _read_source(
        self, source: RowSource, known: Sequence[Unforeseen], *, grouped: bool
    ) -> Read:
        """Return the rows of a source, their schema and the columns' densities.

        `known`: What was found where the first rows had said something else.
        """
        table = source.head().table
        declared = self._declared_kinds(table)
        rows, schema = self._coded(source, declared, known)
        numbers = encode_groups(rows.beside("groups"), rows.at_hand.n_samples) if grouped else None
        choices = self._choices(schema, rows, numbers)
        by_fold = None
        # Where the sample is all rows, the tradeoff is chosen as in memory.
        if isinstance(self.tradeoff, str) and rows.n_samples <= SAMPLE_ROWS:
            by_fold = self._choice_by_fold(schema, rows.at_hand, numbers, choices)
        better = kinds_of(choices, schema.kinds)
        if better:
            rows, schema = self._coded(source, better, known)
        self._set_choices(choices)
        self._derived = None
        self.__dict__.pop("_cells", None)  # what batches would have to agree with is not known
        self.schema_, self._table_library = schema, table_library(table)
        check_same_columns(self, table, reset=True)
        return Read(rows, schema, choices, numbers, by_fold)

    def _coded(
        self, source: RowSource, declared: Any, known: Sequence[Unforeseen]
    ) -> tuple[SourceRows, Schema]:
        """Return the rows of a source as numbers: as surveyed, else as the first rows promise."""
        found = next((one.found for one in known if one.declared == declared), None)
        expected = by_class = None
        # What classes weigh in the balance, all rows tell.
        if found is None and not isinstance(self.class_weight, str):
            expected = foresee(source, declared)
        if expected is not None:
            encoder = expected.encoder
            try:
                by_class = self._by_class(encoder.classes)
            except DataError:  # perhaps only because later rows have other classes
                expected = None
        if expected is None:
            found = survey(source, declared) if found is None else found
            encoder = Encoder(found.schema(source, declared), found.classes())
            balanced = isinstance(self.class_weight, str)
            weights = found.class_weights(encoder.classes) if balanced else None
            by_class = self._by_class(encoder.classes, weights)
        self.classes_ = encoder.classes
        told = found if expected is None else expected
        assert told is not None
        return SourceRows.of(source, encoder, told, by_class), encoder.schema

    def _by_class(self, classes: NDArray[Any], weights: Floats | None = None) -> Floats | None:
        """Return the factor of each class's rows, (n_classes,); `weights`: of all of a class."""
        every = np.arange(classes.size)
        found = check_weights(weights, every.size, self.class_weight, every, classes)
        if weights is None:
            return found
        return (1.0 if found is None else found) / weights

    def _choice_by_fold(
        self,
        schema: Schema,
        rows: LabelledRows,
        groups: Integers | None,
        choices: Sequence[ColumnChoice],
    ) -> ByFold | None:
        """Return what chooses densities without the held-out rows, None if rows have no say."""
        by_rows = (Reason.EVIDENCE, Reason.NEAR_ZERO_VARIANCE)
        if self._derived is None and not any(
            one.reason in by_rows or one.spread != 1.0 for one in choices
        ):
            return None
        known = {one.column: one for one in choices}

        def chosen_by(train: Integers) -> tuple[LabelledRows, Sequence[Density]]:
            own = None if groups is None else np.unique(groups[train], return_inverse=True)[1]
            longer, names = self._with_derived(rows, schema, train)
            like = by_type(names.names, names.kinds, {})
            like = [known.get(one.column, one) for one in like]
            part = self._choices(names, longer.take(train), own, like)
            recoded, found = as_chosen(longer, names, part)
            if not isinstance(self.tradeoff, str):
                return recoded, [self._density(found, part)]
            return recoded, self._densities(found, part)

        return chosen_by
