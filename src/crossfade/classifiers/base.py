"""What naive Bayes and the Gaussian discriminant share: everything but their density.

A subclass says which density its columns have (:meth:`TradeoffClassifier._density`); fitting,
choosing the tradeoff, predicting, sampling and the linear view follow from it.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from crossfade._checks import check_number
from crossfade._fitting import whole_or_not_at_all
from crossfade._typing import Floats, Integers
from crossfade.blocks import single_threaded_blas
from crossfade.choice import ColumnChoice, Reason, as_chosen, by_type, kinds_of
from crossfade.classifiers.checks import (
    check_tradeoff,
    check_unlabelled,
    class_factors,
    prior_shift,
)
from crossfade.classifiers.interactions import Derived, DerivedColumns
from crossfade.classifiers.views import FittedViews
from crossfade.densities.base import Density
from crossfade.errors import DataError, DomainError
from crossfade.table import Schema, check_weights, encode_labels, labelled_first, read_features
from crossfade.table.cluster import as_source
from crossfade.table.columns import Columns, count_rows
from crossfade.table.decoding import table_library
from crossfade.table.documents import MixedRows, indexable
from crossfade.table.groups import encode_groups, numbered_first
from crossfade.table.read import check_same_columns, has_missing_cells, without_cells
from crossfade.table.schema import check_handle_unknown
from crossfade.table.source import RowSource
from crossfade.table.survey import SAMPLE_ROWS, Encoder, Unforeseen, foresee, survey
from crossfade.tradeoff.choosing import ByFold, choose_tradeoff
from crossfade.tradeoff.criteria import check_criterion
from crossfade.tradeoff.fitting import FitOptions, Fitted, fit_tradeoff
from crossfade.tradeoff.folds import drawn_one_by_one
from crossfade.tradeoff.grid import Points
from crossfade.tradeoff.joint import JointRows
from crossfade.tradeoff.labelled_rows import LabelledRows, OtherRows
from crossfade.tradeoff.source_rows import SourceRows


@dataclass(frozen=True)
class Specification:
    """What a classifier at a given tradeoff fits to a table."""

    schema: Schema
    density: Density
    tradeoff: float
    options: FitOptions


class TradeoffClassifier(FittedViews, ABC):
    """Parent of the classifiers with a tradeoff between the joint and conditional likelihood."""

    n_unlabelled_: int
    unlabelled_weight_: float
    selection_: str
    tradeoff: float | str
    l2: float
    class_prior: str | ArrayLike | Mapping[Any, float]
    class_weight: Mapping[Any, float] | str | None
    unlabelled: Any
    unlabelled_weight: str | float

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

    def _begin_batches(self, X: Any, schema: Schema, weights: Floats | None) -> None:
        """Note what later batches must agree with."""

    def _densities(self, schema: Schema, choices: Sequence[ColumnChoice]) -> list[Density]:
        """Return what a choice is made among: variants with the same statistics, widest first."""
        return [self._density(schema, choices)]

    def _grid(self, schema: Schema) -> Sequence[Points] | None:
        """Return each variant's own points (λ, multiple of l2), None for the usual grid."""
        return None

    def _fit_options(self, classes: NDArray[Any]) -> FitOptions:
        """Return what is fitted, the density apart."""
        return FitOptions(self.l2, partial(prior_shift, self.class_prior, classes=classes))

    def _check_parameters(self) -> None:
        """Refuse constructor arguments that no data could make sense of."""
        check_tradeoff(self.tradeoff)
        check_number("l2", self.l2, 0.0, "0 for no penalty, 1 as scikit-learn's C=1")
        if isinstance(self.selection, str):
            check_criterion(self.selection, 0)
        check_handle_unknown(self.handle_unknown)
        check_unlabelled(self)

    # -- fitting ---------------------------------------------------------------------------------

    @whole_or_not_at_all
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            A pandas or polars data frame, a pyarrow table, a NumPy array or nested lists. NaN,
            None and NA are missing. Not changed, and not copied if it is a C-ordered array.
            Rows may also come in parts: files opened by :func:`crossfade.io.scan`, or a Dask data
            frame or array. λ of "auto" and "best", densities and weights of a pool are then
            chosen on 20,000 rows drawn evenly; all else is of all rows.
        y : array-like of shape (n_samples,)
            Labels of any one type, at least two different ones; for rows in parts also the name
            of their column. Rows may lack one where `unlabelled` says so.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 3 means the same as three equal rows, 0 the same as no row. For rows in
            parts the name of a column, which is then no feature.
        groups : array-like of shape (n_samples,), optional
            Rows that belong together (one patient's visits): the choice of "auto" and "best" then
            leaves out whole groups, and standard errors sum over each. Without a part in the fit
            itself. For rows in parts the name of a column.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If a parameter, the columns or the labels cannot be used as given.

        Warns
        -----
        TradeoffWarning
            If a cell is missing and a tradeoff below 1e-4 was given, for which 1e-4 then stands.
        SeparationWarning
            If there is no penalty and the columns separate the classes: no finite discriminative
            optimum exists.
        ConvergenceWarning
            If the solver stopped before its tolerance.
        """
        with single_threaded_blas():  # its threads would wait for each other over small products
            self._fit(X, y, sample_weight, groups)
        return self

    @whole_or_not_at_all
    def fit_out_of_fold(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, groups: Any, fold: Integers
    ) -> Floats | None:
        """Fit, the tradeoff chosen on these folds; return log-posteriors by what other folds say.

        None where λ is given, or chosen on a part of the rows. No weight may be zero.

        Shapes: fold (n_samples,), -1 for rows never held out; → (n_samples, n_classes).
        """
        with single_threaded_blas():
            return self._fit(X, y, sample_weight, groups, fold)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
        fold: Integers | None = None,
    ) -> Floats | None:
        self._check_parameters()
        source = as_source(X, y, sample_weight=sample_weight, groups=groups)
        if source is None:
            one_by_one = fold is None and groups is None
            found = self._fit_rows(*self._read(X, y, sample_weight, groups, one_by_one), fold)
            if self._found_no_use_of_others():
                self._fit_labelled(X, y, sample_weight, groups)
            return found
        components = getattr(self, "components", 1)
        if components > 1:
            raise DataError(
                f"components: expected 1 for rows that are read in parts, got {components}; "
                "fit mixtures to a table in memory"
            )
        if self.unlabelled is not None:
            raise DataError(
                f"unlabelled: expected None for rows that are read in parts, got "
                f"{self.unlabelled!r}; fit a table in memory, or leave out rows without a label"
            )
        grouped = groups is not None and isinstance(self.tradeoff, str)
        known: list[Unforeseen] = []
        while True:
            try:
                return self._fit_rows(*self._read_source(source, known, grouped=grouped), fold)
            except Unforeseen as found:
                known.append(found)

    def _fit_rows(
        self,
        rows: LabelledRows,
        schema: Schema,
        choices: Sequence[ColumnChoice],
        numbers: Integers | None,
        by_fold: ByFold | None,
        fold: Integers | None,
    ) -> Floats | None:
        options = self._fit_options(self.classes_)
        weights, grid = self._unlabelled_weights(rows), self._grid(schema)
        # A sparse table's words are its columns, whatever rows it has.
        learnt_words = not schema.sparse
        if learnt_words and rows.unlabelled is not None and isinstance(rows.X, MixedRows):
            rows = replace(rows, X=rows.X.told_by_own_words())  # the same folds as without others
        if isinstance(self.tradeoff, str) or len(weights) > 1:
            densities = [self._density(schema, choices)]
            if isinstance(self.tradeoff, str):
                densities = self._densities(schema, choices)
            else:
                grid = [[(float(self.tradeoff), 1.0)]]
            with self._renamed(rows, densities[0]):
                fitted = choose_tradeoff(
                    rows,
                    densities,
                    options,
                    pooled=self.tradeoff == "auto",
                    selection=self.selection,
                    groups=numbers,
                    by_fold=by_fold,
                    fold=fold,
                    grid=grid,
                    unlabelled_weights=weights,
                    learnt_words=learnt_words,
                )
        else:
            density = self._density(schema, choices)
            with self._renamed(rows, density):
                fitted = fit_tradeoff(
                    rows,
                    density,
                    float(self.tradeoff),
                    options,
                    groups=numbers,
                    unlabelled_weight=weights[0],
                    learnt_words=learnt_words,
                )
        self._set_fitted(replace(fitted, held_out=None))
        if not isinstance(rows, SourceRows) or self.tradeoff != 1:  # of which no sample was drawn
            self._joint = self._joint_rows(rows.at_hand, choices, options, numbers)
        for name in ("n_passes_", "n_unlabelled_", "unlabelled_weight_"):
            self.__dict__.pop(name, None)
        if self.unlabelled is not None:
            self._tell_unlabelled(rows.unlabelled)
        if isinstance(rows, SourceRows):
            rows.close()
            self.n_passes_ = rows.n_passes
        return fitted.held_out

    def _found_no_use_of_others(self) -> bool:
        """Return whether there were rows without a label, and held-out labels spoke against them.

        Of one tradeoff: a pool has members of both kinds, "best" takes what is best of either.
        """
        tried = self.unlabelled is not None and self.n_unlabelled_ and self.tradeoff != 0
        chosen = not isinstance(self.tradeoff, str) and isinstance(self.unlabelled_weight, str)
        return bool(tried and chosen and self.unlabelled_weight_ == 0.0)

    def _fit_labelled(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, groups: ArrayLike | None
    ) -> None:
        """Fit as if there were no others: all rows together had a say in what columns are."""
        told = self.n_unlabelled_, self.selection_
        order, n_labelled = labelled_first(y, self.unlabelled, count_rows(X))
        kept = np.arange(n_labelled) if order is None else order[:n_labelled]
        X, y = _safe_indexing(indexable(X), kept), _safe_indexing(y, kept)
        weights = None if sample_weight is None else _safe_indexing(sample_weight, kept)
        together = None if groups is None else _safe_indexing(groups, kept)
        self._fit_rows(*self._read(X, y, weights, together, groups is None), None)
        self.n_unlabelled_, self.selection_ = told

    def _tell_unlabelled(self, others: OtherRows | None) -> None:
        n, weight = 0 if others is None else others.X.shape[0], self._fitted.unlabelled_weight
        self.n_unlabelled_, self.unlabelled_weight_ = n, weight
        if not n:
            said = f"0 rows without a label to learn from (unlabelled={self.unlabelled!r})"
            self.selection_ = f"{self.selection_}; {said}"
            return
        if weight > 0.0:
            said = f"count {weight:.2g} rows each in the joint likelihood"
        elif self.tradeoff == 0 or self.unlabelled_weight == 0:
            said = "have no part in the likelihood"
        else:
            said = "have no part in the likelihood: held-out labels are no better predicted"
        self.selection_ = f"{self.selection_}; the {n:,} rows without a label {said}"

    def _unlabelled_weights(self, rows: LabelledRows) -> tuple[float, ...]:
        """Return what a row without a label may count, one number where nothing is chosen."""
        others = rows.unlabelled
        if others is None or self.tradeoff == 0:
            return (0.0,)
        if not isinstance(self.unlabelled_weight, str):
            return (float(self.unlabelled_weight),)
        # As many as they may be, they have no more say than the rows with a label.
        total = others.X.shape[0] if others.weights is None else others.weights.sum()
        return (0.0, min(1.0, float(rows.without_factors.sum() / total)))

    def _joint_rows(
        self,
        rows: LabelledRows,
        choices: Sequence[ColumnChoice],
        options: FitOptions,
        groups: Integers | None,
    ) -> JointRows:
        """Return what the joint density of the table's own columns is found from."""
        own, choices = self.n_features_in_, choices[: self.n_features_in_]
        if self._derived is not None:
            rows = replace(rows, X=np.ascontiguousarray(rows.X[:, :own]))
        generative = clone(self)
        generative.tradeoff, generative.classes_ = 1.0, self.classes_
        rows = replace(rows, unlabelled=None)
        densities = [generative._density(self.schema_, choices)]
        if isinstance(self.tradeoff, str) and not densities[0].reads_words:
            densities = generative._densities(self.schema_, choices)
        known = () if self.schema_.sparse else self.schema_.categories
        learnt = {j: len(one) for j, one in enumerate(known) if one is not None}
        return JointRows.of(rows, densities, options, learnt, groups)

    def specify(self, columns: Columns, schema: Schema, classes: NDArray[Any]) -> Specification:
        """Return what is fitted to a table, for who fits it to parts of it; λ must be a number.

        `schema` is the columns' own, which the user's choice of densities may overrule.
        """
        self._check_parameters()
        declared = self._declared_kinds(columns)
        schema = schema if declared is None else Schema.learn(columns, declared)
        density = self._density(schema, self._choices(schema))
        return Specification(schema, density, float(self.tradeoff), self._fit_options(classes))

    def _read(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None = None,
        one_by_one: bool = False,
    ) -> tuple[LabelledRows, Schema, Sequence[ColumnChoice], Integers | None, ByFold | None]:
        n = count_rows(X)
        given = check_weights(sample_weight, n) if sample_weight is not None else None
        numbers = None if groups is None else encode_groups(groups, n)
        if given is not None and not given.all():
            # Zero weight means absent, also for the categories and kinds that are learnt.
            kept = np.flatnonzero(given)
            X, y, given = _safe_indexing(indexable(X), kept), _safe_indexing(y, kept), given[kept]
            numbers = None if numbers is None else np.unique(numbers[kept], return_inverse=True)[1]
        declared = self._declared_kinds(X)
        matrix, schema = read_features(self, X, reset=True, declared=declared, sample_weight=given)
        self._table_library = table_library(X)
        order, n_labelled = labelled_first(y, self.unlabelled, matrix.shape[0])
        others, with_unlabelled = None, y
        if order is not None:
            kept, rest = order[:n_labelled], order[n_labelled:]
            # A row without a cell says nothing, whatever would be filled in.
            order = np.concatenate([kept, rest[~without_cells(matrix[rest])]])
            y, matrix = _safe_indexing(y, kept), matrix[order]
            together = None
            if numbers is not None:
                numbers, together = numbered_first(numbers[order], n_labelled)
            weights = None if given is None else given[order[n_labelled:]]
            if order.size > n_labelled:
                others = OtherRows(matrix[n_labelled:], weights, together)
        of_labelled = given if given is None or order is None else given[order[:n_labelled]]
        self.classes_, codes = encode_labels(y, n_samples=n_labelled)
        weights = check_weights(of_labelled, n_labelled, self.class_weight, codes, self.classes_)
        factors = class_factors(self.class_weight, weights, of_labelled, codes)
        plain = LabelledRows(
            matrix[:n_labelled],
            codes,
            weights,
            self.classes_.size,
            class_factors=factors,
            unlabelled=others,
        )
        drawn = drawn_one_by_one(plain) if one_by_one else None
        if drawn is not None and given is not None:
            index, share = drawn
            every = np.arange(n_labelled) if order is None else order
            places = np.concatenate([every[:n_labelled][index], every[n_labelled:]])
            parts = given[places] * np.append(share, np.ones(places.size - share.size))
            return self._read(
                _safe_indexing(indexable(X), places), _safe_indexing(with_unlabelled, places), parts
            )
        rows, longer = self._with_derived(plain, schema)
        choices = self._choices(longer, rows, numbers)
        self._set_choices(choices[: schema.n_features])
        self._begin_batches(X, schema, given)
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
        return rows, schema if self._derived is None else longer, choices, numbers, by_fold

    def _derives(
        self, rows: LabelledRows, schema: Schema, train: Integers | None
    ) -> Sequence[Derived]:
        """Return the derived columns that some of these rows (all if None) ask for."""
        return ()

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
    ) -> tuple[LabelledRows, Schema, Sequence[ColumnChoice], Integers | None, ByFold | None]:
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
        return rows, schema, choices, numbers, by_fold

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
        draws = self.tradeoff != 1
        told = found if expected is None else expected
        assert told is not None
        return SourceRows.of(source, encoder, told, by_class, draws=draws), encoder.schema

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
            return recoded, self._densities(found, part)

        return chosen_by

    def _set_fitted(self, fitted: Fitted) -> None:
        for warning in fitted.warnings:
            warnings.warn(warning, stacklevel=4)
        self._fitted = fitted
        for name in ("class_shares_", "_joint"):  # of other rows, of an earlier fit
            self.__dict__.pop(name, None)
        self.density_ = fitted.density
        self.class_count_ = fitted.class_weights
        self.tradeoff_ = fitted.tradeoff
        self.tradeoff_path_ = fitted.path
        self.selection_ = fitted.selection
        self.posterior_scale_ = fitted.scale
        self.solution_ = fitted.solution
        self.n_iter_ = max(1, fitted.solution.n_iter)

    @contextmanager
    def _renamed(self, rows: LabelledRows, density: Density) -> Iterator[None]:
        """Turn refusals of cells into errors in the columns' own names."""
        try:
            yield
        except DomainError as error:
            raise self._refused(error, rows, density) from None

    def _refused(self, error: DomainError, rows: LabelledRows, density: Density) -> DataError:
        """Return the error of cells that the density does not take, in the columns' own names."""
        if not density.allows_missing and has_missing_cells(rows.X):
            return self._missing_cells(rows)
        return error.renamed(self.schema_.names)
