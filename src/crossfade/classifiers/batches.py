"""Fitting in batches: the generative fit is a sum over rows."""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from crossfade._checks import show
from crossfade._fitting import whole_or_not_at_all
from crossfade._typing import Floats
from crossfade.classifiers.base import TradeoffClassifier
from crossfade.classifiers.checks import derives_columns
from crossfade.densities.product import Product
from crossfade.errors import CountsWarning, DataError, UnseenNumbersWarning
from crossfade.table import Schema, check_weights, encode_labels, read_features
from crossfade.table.columns import read_columns
from crossfade.table.decoding import table_library
from crossfade.table.documents import unlike_counts
from crossfade.table.kinds import is_by_type, joined_cells, kinds_of_cells, seen_cells
from crossfade.table.rows import present_rows
from crossfade.tradeoff.fitting import Sums, add_rows
from crossfade.tradeoff.labelled_rows import LabelledRows


def _only_generative(estimator: Any) -> bool:
    components = getattr(estimator, "components", 1)
    if components > 1:
        raise AttributeError(
            f"partial_fit: expected components=1, got {components}; a mixture's fit needs all rows "
            "again and again: call fit on all rows"
        )
    if estimator.tradeoff == 1:
        return True
    raise AttributeError(
        f"partial_fit: expected tradeoff=1, got {estimator.tradeoff!r}; only the generative fit "
        "can be made in batches: set tradeoff=1 or call fit on all rows"
    )


class BatchClassifier(TradeoffClassifier, ABC):
    """A classifier with a tradeoff whose generative fit can be made in batches."""

    #: Kinds of columns between which the model makes no difference.
    _one_density: frozenset[str] = frozenset()

    _cells: Floats | None = None

    @available_if(_only_generative)
    @whole_or_not_at_all
    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit on one more batch of rows; batches give what one fit on all rows gives.

        Kinds of columns are settled by the first batch; new categories are learnt as they come.
        A batch is refused where it and those before it, as one table, would have given a column
        another kind: other numbers than 0 and 1 in a column that held only these, or whole numbers
        that no longer vary as counts do. Of two different numbers, only 0 and 1 are believed to
        stay two, in 20 cells of the first batch, or whole ones; other columns of two are numbers
        like any, where `fit` would take them as booleans. Missing numbers of a Gaussian
        discriminant are filled in by how columns go together in the first batch, not in all rows as
        by `fit`; where it has none, later batches with some are refused.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), optional
            All labels that will ever occur; needed in the first call if `y` does not hold them.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        AttributeError
            If `tradeoff` is not 1, or classes are mixtures: only the generative fit of one density
            per class is a sum over rows.
        DataError
            If a parameter, the columns or the labels cannot be used as given.
        """
        self._check_parameters()
        derives = derives_columns(self)
        if derives is not None:
            raise DataError(
                f"{derives}: expected None with partial_fit, got {getattr(self, derives)!r}; fit "
                "all rows at once"
            )
        if self.unlabelled is not None:
            raise DataError(
                f"unlabelled: expected None with partial_fit, got {self.unlabelled!r}; fit all "
                "rows at once"
            )
        fitted = getattr(self, "_fitted", None)
        before = None if fitted is None or fitted.sums is None else fitted
        X, y, given, *_ = present_rows(X, y, sample_weight)
        if before is None:
            matrix, schema = read_features(
                self,
                X,
                reset=True,
                declared=self._declared_kinds(X),
                sample_weight=given,
                of_all=False,
            )
            self._table_library = table_library(X)
            self.classes_, codes = encode_labels(y, classes, n_samples=matrix.shape[0])
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnseenNumbersWarning)  # refused below
                matrix, schema = read_features(self, X, reset=False, extend=True)
            self._check_batch(X, schema, given)
            known, _ = encode_labels(self.classes_)
            _, codes = encode_labels(y, known, minimum=1, n_samples=matrix.shape[0])
            if classes is not None and not np.array_equal(encode_labels(classes)[0], known):
                raise DataError(
                    f"classes: expected those of the first call, {known.tolist()!r}, got "
                    f"{np.asarray(classes).tolist()!r}; leave it out after the first call"
                )
        weights = check_weights(given, matrix.shape[0], self.class_weight, codes, self.classes_)
        rows = LabelledRows(matrix, codes, weights, self.classes_.size)
        if before is None:
            choices = self._choices(schema)
            self._set_choices(choices)
            self._begin_batches(X, schema, given, matrix)
            density = self._density(schema, choices)
        else:
            assert before.sums is not None
            before = replace(before, sums=self._widened(before.sums, schema))
            density = before.density
        with self._renamed(rows, density):
            self._set_fitted(add_rows(rows, density, self._fit_options(self.classes_), before))
        return self

    def _begin_batches(self, X: Any, schema: Schema, weights: Floats | None, matrix: Any) -> None:
        if schema.sparse:
            self._cells = None
            density = getattr(self, "density", None)
            auto = isinstance(density, str) and density == "auto" and not schema.signed
            odd = unlike_counts(matrix.words[0], schema.names) if auto else None
            if odd is not None:
                message = (
                    "X: expected counts of words in every column of a sparse table, as which all "
                    f"are read, got {odd}; give text, numbers and categories as columns of one "
                    "data frame, each with a density of its own, or density='multinomial' if these "
                    "are counts"
                )
                warnings.warn(message, CountsWarning, stacklevel=6)
            return
        declared = self._declared_kinds(X)
        by_type = np.full(schema.n_features, not isinstance(declared, str))
        if isinstance(declared, Mapping):
            by_type[[schema.index(column) for column in declared]] = False
        follow = hasattr(self, "partial_fit")
        self._cells = seen_cells(read_columns(X), by_type, weights) if follow else None

    def _check_batch(self, X: Any, schema: Schema, weights: Floats | None) -> None:
        """Refuse a later batch whose cells would have given a column another kind."""
        if self._cells is None:  # a model of an earlier version
            return
        columns, by_type = read_columns(X), is_by_type(self._cells)
        for j in np.flatnonzero(~by_type).tolist():
            known = schema.categories[j] or (0, 1)
            if schema.kinds[j] == "boolean":
                values = columns.columns[j].factorised[0]
                if new := [value for value in values if value not in known]:
                    expected = " and ".join(map(show, known))
                    raise self._other_kind(schema, j, expected, show(new[0]))
        cells = joined_cells(self._cells, seen_cells(columns, by_type, weights))
        kinds, pairs = kinds_of_cells(cells)
        for j, kind in enumerate(kinds):
            before = schema.kinds[j]
            if kind is None or {kind, before} <= self._one_density:
                continue
            if kind == before and pairs.get(j, (0, 1)) == (schema.categories[j] or (0, 1)):
                continue
            if j in pairs and before == "continuous":
                continue  # the first batch did not tell
            got = f"rows that with those before are {kind}"
            if np.isfinite(cells[3, j]):
                got += f" (from {cells[3, j]:g} to {cells[4, j]:g})"
            raise self._other_kind(schema, j, f"{before} cells", got)
        self._cells = cells

    def _other_kind(self, schema: Schema, j: int, expected: str, got: str) -> DataError:
        remedy = self._kind_remedy(schema.names[j] if schema.has_names else j)
        return DataError(
            f"{schema.where(j)}: expected {expected} as in the first batch, got {got}; {remedy}"
        )

    def _kind_remedy(self, column: Any) -> str:
        return "give the tables as arrays of numbers, or the column as floats from the first on"

    def _widened(self, sums: Sums, schema: Schema) -> Sums:
        """Return the density and its sums with room for the schema's new categories."""
        if not isinstance(sums.started, Product):
            return sums
        columns = [j for j, kind in enumerate(schema.kinds) if kind == "categorical"]
        levels = dict(zip(columns, schema.n_levels(columns), strict=True))
        return Sums(*sums.started.widen(sums.summary, levels))
