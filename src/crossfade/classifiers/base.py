"""What naive Bayes and the Gaussian discriminant share: everything but their density.

A subclass says which density its columns have (:meth:`TradeoffClassifier._density`); fitting,
choosing the tradeoff, predicting, sampling and the linear view follow from it.
"""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
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
from crossfade.choice import ColumnChoice
from crossfade.classifiers.checks import check_tradeoff, check_unlabelled, prior_shift
from crossfade.classifiers.reading import Read, TableReader
from crossfade.densities.base import Density
from crossfade.errors import DataError, DomainError
from crossfade.table import Schema, labelled_first
from crossfade.table.cluster import as_source
from crossfade.table.columns import Columns, count_rows
from crossfade.table.documents import MixedRows
from crossfade.table.groups import encode_groups
from crossfade.table.read import has_missing_cells
from crossfade.table.rows import rows_at
from crossfade.table.schema import check_handle_unknown
from crossfade.table.survey import Unforeseen
from crossfade.tradeoff.choosing import choose_tradeoff
from crossfade.tradeoff.criteria import check_criterion
from crossfade.tradeoff.fitting import FitOptions, Fitted, fit_tradeoff
from crossfade.tradeoff.grid import Points
from crossfade.tradeoff.joint import JointRows
from crossfade.tradeoff.labelled_rows import LabelledRows, OtherRows
from crossfade.tradeoff.source_rows import SourceRows
from crossfade.tradeoff.unseen import UnseenRows, kept_rows


@dataclass(frozen=True)
class Specification:
    """What a classifier at a given tradeoff fits to a table."""

    schema: Schema
    density: Density
    tradeoff: float
    options: FitOptions


class TradeoffClassifier(TableReader, ABC):
    """Parent of the classifiers with a tradeoff between the joint and conditional likelihood."""

    n_unlabelled_: int
    unlabelled_weight_: float
    selection_: str
    l2: float
    class_prior: str | ArrayLike | Mapping[Any, float]
    unlabelled_weight: str | float

    # -- what a subclass says --------------------------------------------------------------------

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
            found = self._fit_rows(self._read(X, y, sample_weight, groups, one_by_one), fold)
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
                return self._fit_rows(self._read_source(source, known, grouped=grouped), fold)
            except Unforeseen as found:
                known.append(found)

    def _fit_rows(self, read: Read, fold: Integers | None = None) -> Floats | None:
        rows, schema, choices, numbers, by_fold = read
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
        self._set_fitted(fitted if fitted.held_out is None else replace(fitted, held_out=None))
        self._keep(read, rows, options, learnt_words)
        for name in ("n_passes_", "n_unlabelled_", "unlabelled_weight_"):
            self.__dict__.pop(name, None)
        if self.unlabelled is not None:
            self._tell_unlabelled(rows.unlabelled)
        if isinstance(rows, SourceRows):
            rows.close()
            self.n_passes_ = rows.n_passes
        return fitted.held_out

    def _keep(
        self, read: Read, rows: LabelledRows, options: FitOptions, learnt_words: bool
    ) -> None:
        """Keep some rows for what is asked later of densities, and of rows not seen."""
        choices, fitted, groups = read.choices, self._fitted, read.groups
        evidence = fitted.evidence
        if isinstance(rows, SourceRows):
            some, labels = rows.drawn
            groups = None if labels is None else encode_groups(labels, some.n_samples)
            if evidence is not None:
                evidence = evidence.of_some(some, groups, rows)
                self._fitted = replace(fitted, evidence=evidence)
            rows = some
        n = rows.n_samples
        rows, groups = kept_rows(rows, groups, evidence)
        # Weights of complements are no density.
        if fitted.has_words_density or self.tradeoff != 1:
            self._joint = self._joint_rows(rows, choices, options, groups)
        if isinstance(self.tradeoff, str) or fitted.left_out is not None:
            return
        by_fold = None
        if self._derived is not None:
            if rows.n_samples < n:  # which columns to derive, all rows have said
                return
            own = replace(rows, X=rows.X[:, : rows.n_own], n_own=None)
            by_fold = copy(self)._choice_by_fold(self.schema_, own, groups, choices)
        self._unseen = UnseenRows(
            rows,
            groups,
            self._density(read.schema, choices),
            float(self.tradeoff),
            options,
            by_fold,
            fitted.unlabelled_weight,
            learnt_words,
        )

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
        X, y = rows_at(X, kept), _safe_indexing(y, kept)
        weights = None if sample_weight is None else _safe_indexing(sample_weight, kept)
        together = None if groups is None else _safe_indexing(groups, kept)
        self._fit_rows(self._read(X, y, weights, together, groups is None))
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

    def _set_fitted(self, fitted: Fitted) -> None:
        for warning in fitted.warnings:
            warnings.warn(warning, stacklevel=4)
        self._fitted = fitted
        for name in ("class_shares_", "_joint", "_unseen"):  # of other rows, of an earlier fit
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
