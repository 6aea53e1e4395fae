"""Standard errors of a fitted classifier: its coefficients, and intervals of its probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from crossfade._checks import check_choice, check_number
from crossfade._typing import Floats, Integers
from crossfade.classifiers.interactions import DerivedColumns
from crossfade.classifiers.labelled import labelled_rows
from crossfade.densities.base import Density
from crossfade.errors import DataError
from crossfade.inference.sandwich import (
    PosteriorCovariance,
    posterior_interval,
    quadratic_forms,
)
from crossfade.inference.summary import (
    CoefficientSummary,
    code_of_reference,
    of_coefficients,
)
from crossfade.table import Schema, check_weights
from crossfade.table.cluster import comes_in_parts, is_lazy
from crossfade.table.columns import count_rows
from crossfade.table.documents import block_of
from crossfade.table.groups import encode_groups
from crossfade.table.part_by_part import part_by_part
from crossfade.tradeoff.fitting import Fitted
from crossfade.tradeoff.influence import MOST_ASKED_FOR

#: What has no standard errors has intervals of probabilities all the same.
_BY_REFITS = (
    'a pool of this one model has intervals by refits: PooledClassifier([("name", model)]), '
    "crossfade fit --model pool:nb --intervals"
)

#: What the numbers of a mixture are of.
_OF_COMPONENTS = (
    "A number in brackets is a component of its class. Components have no names: errors are of "
    "these as the fit found them. A column's test is that no two components differ in it.",
)

#: What the columns of Johnson's S_U are called.
_OF_TAILS = (
    "asinh(x): asinh of x less its mean, over its standard deviation, which draws in long tails.",
)

#: Rows of a component, so many at least, that its coefficients need: more than one.
_ROWS_OF_A_COMPONENT = 1.5

#: Rows for each coefficient of a text column, so many at least, that a test of it needs.
_ROWS_OF_A_COEFFICIENT = 5

#: Parameters whose covariance is computed from rows that are given: matrices of 800 MB.
_MOST_PARAMETERS = 10_000

#: Doubles of the gradients of a block of rows: 8 MB.
_BLOCK_DOUBLES = 1 << 20


class StandardErrors(ABC):
    """The summary of coefficients, and intervals of probabilities."""

    classes_: NDArray[Any]
    class_weight: Any
    density_: Density
    n_features_in_: int
    schema_: Schema
    tradeoff_: float
    unlabelled: Any
    _derived: DerivedColumns | None
    _fitted: Fitted

    @abstractmethod
    def _encoded(self, X: Any) -> NDArray[Any]:
        """Return rows as the model's schema encodes them."""

    @abstractmethod
    def _log_odds_linear(self, reference: int | None) -> tuple[Floats, Floats]:
        """Return coefficients and intercepts of the other classes."""

    def summary(
        self,
        X: Any = None,
        y: Any = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        level: float = 0.95,
        reference: Any = None,
        covariance: str = "HC3",
        errors: bool = True,
    ) -> CoefficientSummary:
        """Return the coefficients of the log-odds with standard errors, intervals and tests.

        The errors are those of the sandwich H⁻¹ J H⁻¹ (Huber 1967, White 1982) of the objective at
        its λ: they hold where the model is wrong, for what the fit then tends to. Of few rows, each
        draws the fit towards itself: its gradient in J is divided by one less its leverage ("HC3":
        MacKinnon & White 1985), at any λ. Of a pool
        (``tradeoff="auto"``) they are the sandwich of the stacked equations of its fits and of
        their weights. With the `groups` of fit they are cluster-robust (Liang & Zeger 1986), by the
        leverage of whole groups (CR3: Bell & McCaffrey 2002). They are computed when first asked
        for.

        Parameters
        ----------
        X, y, sample_weight, groups
            Rows of fit, only where the model does not have them any more: of a table with many
            cells or parameters. Errors of "HC3" are then kept. Of a sample of the rows, the weights
            must sum to the number of all.
        level : float, default=0.95
            Coverage of the intervals.
        reference : label, optional
            The class that the others are compared with; the first by default.
        covariance : {"HC3", "HC0"}, default="HC3"
            "HC0" leaves gradients as they are: errors of few rows are then too small. Intervals of
            probabilities, and files, have "HC3".
        errors : bool, default=True
            False: the coefficients alone, which models of many words have, too.

        Returns
        -------
        CoefficientSummary
            Prints as text; ``.frame()`` gives the coefficients, ``.tests`` the Wald test of each
            column.

        Raises
        ------
        DataError
            If there are no standard errors, for more words than 3,000 parameters have, or for
            components of a mixture that are equal or have no more than a row; or if the rows are
            needed.

        Notes
        -----
        Densities that rows chose, derived columns, and which members a pool gives no weight are
        taken as given, and so is the penalty, which draws the estimates towards zero: an interval
        is for what the penalised fit tends to. Errors of fits without any penalty and λ = 0 are
        those of a logistic regression with robust errors of the same name.

        A mixture's log-odds are not linear, those of its components are: there is one row for each
        component and term, against the first component of the class of `reference`. Components of
        a class can change places, and the likelihood has a maximum for each order: errors are
        local to the one that the fit found, and say nothing of whether there are so many
        components. Intervals of probabilities do not depend on the order.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from crossfade import NaiveBayes
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> X = X[["mean texture", "mean smoothness"]]
        >>> model = NaiveBayes(tradeoff=0, l2=0, shared_variance=True).fit(X, y)
        >>> model.summary().frame()["estimate"].to_numpy().round(2)
        array([ 13.8 ,  -0.29, -78.2 ])
        """
        check_is_fitted(self)
        level = check_number("level", level, above=0.0, below=1.0, remedy="use 0.95")
        check_choice("covariance", covariance, ("HC3", "HC0"))
        against = code_of_reference(reference, self.classes_.tolist())
        found = None
        if X is not None:
            found = self._learn_errors(X, y, sample_weight, groups, covariance)
        elif not (y is None and sample_weight is None and groups is None):
            raise DataError(
                "X: expected the rows of fit with y, sample_weight or groups, got None; give all "
                "of them, or none where the model has its rows"
            )
        self._refuse_empty_components()
        if not errors:
            return self._summarised(None, against, level)
        return self._summarised(found or self._errors(covariance), against, level)

    # -- where they come from --------------------------------------------------------------------

    def _errors(self, kind: str = "HC3") -> PosteriorCovariance:
        """Return errors: those that are kept by default, whatever they are in an older file."""
        found = self._fitted.errors
        if kind == "HC0" and found is not None and found.kind != kind:
            found = self._fitted.computed_errors(kind)
            if found is None:
                raise DataError(
                    "covariance: expected 'HC3', which a model without its rows of fit has, got "
                    "'HC0'; ask for it before the model is saved, or give the rows, where they "
                    "are many: summary(X, y, covariance='HC0')"
                )
        if found is None:
            raise DataError(self._why_without())
        return found

    def _why_without(self) -> str:
        fitted = self._fitted
        if self.density_.reads_words and fitted.evidence is not None:
            return (
                f"X: expected at most {MOST_ASKED_FOR:,} parameters (words times classes) for "
                f"standard errors of words, got {fitted.evidence.n_influences:,}; leave rarer "
                f"words out, or {_BY_REFITS}"
            )
        if fitted.unlabelled_weight > 0.0 and self.density_.filled:
            return (
                "tradeoff: expected less than 1 for standard errors where rows without a label "
                "count and numbers are missing, got 1; give 0.99, or fill in the cells before"
            )
        if fitted.n_components > 1:
            if fitted.evidence is not None and fitted.evidence.rows.n_samples:
                return (
                    "components: expected ones that differ, got one that equals another, or no "
                    "maximum, so that there are no standard errors; fit fewer components"
                )
            return (
                "components: expected a mixture with its rows of fit for intervals (of at most 2 "
                f"million cells), or a file that was asked for one before, got none; {_BY_REFITS}"
            )
        if fitted.evidence is None:
            or_pool = f" (where words make more than 3,000, {_BY_REFITS})"
            return (
                "standard errors: expected a model that keeps what they need, got one that does "
                "not: it was fitted to batches, or saved with more than 300 parameters; fit it to "
                "all rows at once, with crossfade fit --intervals, or ask for summary(X, y)"
                + (or_pool if self.density_.reads_words else "")
            )
        if fitted.evidence.rows.n_samples:
            return (
                "standard errors: expected a likelihood that falls in every direction, got one "
                "that does not, beyond rounding; give l2 > 0, or leave out columns that follow "
                "from others"
            )
        return (
            "standard errors: fit keeps what they need of small tables in memory, and of rows in "
            "parts without groups or filled-in cells, got "
            f"{fitted.class_weights.sum():,.0f} rows and {fitted.evidence.n_influences:,} "
            "parameters; give the rows of fit: summary(X, y)"
        )

    def _learn_errors(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
        kind: str,
    ) -> PosteriorCovariance | None:
        """Compute the standard errors from rows, and keep those of "HC3"."""
        evidence = self._fitted.evidence
        if evidence is None or (self.density_.reads_words and not evidence.rows.n_samples):
            raise DataError(self._why_without())
        if self.density_.reads_words:
            return None  # its rows are at hand, made smaller by what their words have in common
        if evidence.n_influences > _MOST_PARAMETERS:
            raise DataError(
                f"X: expected a model of at most {_MOST_PARAMETERS:,} parameters for standard "
                f"errors, got {evidence.n_influences:,}; leave columns out, or choose a covariance "
                "that has fewer, such as 'diagonal'"
            )
        if comes_in_parts(X):
            raise DataError(
                f"X: expected a table in memory, got {type(X).__name__}; give a sample of the rows "
                "with sample_weight that sums to their number"
            )
        n = count_rows(X)
        given = None if sample_weight is None else check_weights(sample_weight, n)
        numbers = None if groups is None else encode_groups(groups, n)
        rows, _, numbers, _ = labelled_rows(
            self._encoded(X),
            y,
            given,
            numbers,
            unlabelled=self.unlabelled,
            class_weight=self.class_weight,
            classes=self.classes_,
        )
        total = float(rows.class_weights.sum())
        of_fit = float(self._fitted.class_weights.sum())
        if not np.isclose(total, of_fit, rtol=1e-6, atol=0.0):
            raise DataError(
                f"X: expected the rows of fit, whose weights sum to {of_fit:g}, got rows whose "
                f"weights sum to {total:g}; give all rows of fit, or a sample of them with "
                "sample_weight that sums to their number"
            )
        found = evidence.over(rows, numbers).covariance(kind)
        if kind == "HC3":
            self._fitted = self._fitted.with_errors(found)
        return found

    # -- coefficients ----------------------------------------------------------------------------

    def _summarised(
        self, errors: PosteriorCovariance | None, against: int, level: float
    ) -> CoefficientSummary:
        against *= self._fitted.n_components
        coefficients, intercepts = self._log_odds_linear(against)
        values = np.column_stack([intercepts, coefficients])
        terms, columns = self._terms()
        unknown = None
        if errors is None:
            unknown = np.ones(values.size, dtype=bool)
            covariance = np.broadcast_to(np.nan, (values.size, values.size))
            sizes, tested = np.ones(values.size), None
        else:
            gradients = self._coefficient_gradients()
            of_classes = np.delete(gradients, against, axis=0) - gradients[against]
            flat = of_classes.reshape(-1, of_classes.shape[-1])
            sizes = np.abs(flat).max(axis=1, initial=0.0)
            sizes = np.where(sizes > 0.0, sizes, 1.0)  # columns may be of 1e100, or of 1e-100
            flat = flat / sizes[:, None]
            covariance = flat @ errors.covariance @ flat.T
            tested = self._tested(flat, errors.covariance)
        names = self._longer_schema.names
        # Of next to as many coefficients as rows there is no test of all at once.
        most = np.inf if errors is None else errors.n_rows / _ROWS_OF_A_COEFFICIENT
        of_columns = {
            name: [t for t, of in enumerate(columns) if column in of]
            for column, name in enumerate(names)
        }
        return of_coefficients(
            name=type(self).__name__,
            facts=self._facts(errors),
            notes=(*(_OF_TAILS if any("asinh(" in t for t in terms) else ()), *self._notes(errors)),
            labels=self._state_labels(),
            against=against,
            terms=terms,
            columns={
                name: own
                for name, own in of_columns.items()
                if not self.density_.reads_words or len(own) * len(coefficients) <= most
            },
            values=values,
            covariance=covariance,
            sizes=sizes,
            tested=tested,
            level=level,
            unknown=unknown,
        )

    def _tested(
        self, flat: Floats, covariance: Floats
    ) -> Callable[[Integers], tuple[Floats, Floats]]:
        """Return what gives combinations of coefficients that are apart, and their covariance.

        Far from zero the coefficients of a column and of its square are next to the same.
        """
        found = np.zeros(flat.shape[1])
        found[: self._fitted.optimum.natural.size] = self._fitted.optimum.natural.ravel()

        def tested(own: Integers) -> tuple[Floats, Floats]:
            basis, R, _ = scipy.linalg.qr(flat[own].T, mode="economic", pivoting=True)
            spread = np.abs(np.diagonal(R))
            basis = basis[:, spread > 1e-12 * spread.max(initial=0.0)]
            return basis.T @ found, basis.T @ covariance @ basis

        return tested

    def _refuse_empty_components(self) -> None:
        """Refuse components that have closed in on a row, or are left without any."""
        scorer = self._fitted.whole.scorer
        if self._fitted.n_components == 1 or not scorer.is_density:
            return
        rows = np.exp(scorer.log_prior) * self._fitted.class_weights.sum()
        if rows.min() < _ROWS_OF_A_COMPONENT:
            raise DataError(
                f"components: expected more than a row in each for coefficients, got "
                f"{rows.min():.2g} in {self._state_labels()[rows.argmin()]}; fit fewer "
                "components; probabilities have intervals: predict_proba(X, interval=0.95)"
            )

    def _state_labels(self) -> list[Any]:
        """Return what is compared: the classes, or the components of each."""
        labels, c = self.classes_.tolist(), self._fitted.n_components
        if c == 1:
            return labels
        return [f"{label} ({number})" for label in labels for number in range(1, c + 1)]

    @property
    def _longer_schema(self) -> Schema:
        """The table's columns, and those derived from them."""
        return self.schema_ if self._derived is None else self._derived.schema(self.schema_)

    def _terms(self) -> tuple[list[str], list[tuple[int, ...]]]:
        """Return what intercepts and coefficients are of, in words, and their columns."""
        schema = self._longer_schema
        terms = self.density_.terms(schema.names, schema.categories)
        return ["intercept", *(term.name for term in terms)], [(), *(one.columns for one in terms)]

    def _coefficient_gradients(self) -> Floats:
        """Return gradients of intercepts and coefficients by class.

        Shapes: → (n_classes, n_terms, q).
        """
        density, fitted = self.density_, self._fitted
        k, p = fitted.optimum.natural.shape
        free = np.flatnonzero(~density.tied)
        slopes, constants = density.column_units_coefficients(np.eye(free.size))
        found = np.zeros((k, slopes.shape[1] + 1, fitted.offset_gradients.shape[1]))
        found[:, 0] = fitted.offset_gradients
        for c in range(k):
            found[c, 0, c * p + free] += constants
            found[c, 1:, c * p + free] = slopes
        return found

    def _facts(self, errors: PosteriorCovariance | None) -> tuple[tuple[str, str], ...]:
        facts = [("tradeoff λ", f"{self.tradeoff_:.3g}")]
        if errors is None:
            return tuple(facts)
        facts.insert(0, ("observations", f"{errors.n_rows:g}"))
        if errors.n_unlabelled:
            counted = f"{errors.n_unlabelled:g}, counting {self._fitted.unlabelled_weight:.2g} each"
            facts.insert(1, ("of them without a label", counted))
        elif without := getattr(self, "n_unlabelled_", 0):
            facts.insert(1, ("beside them without a label", f"{without:g}, counting 0"))
        if errors.weighed is not None:
            facts.append(("scale of the pool", f"{self._fitted.scale:.3g}"))
        if errors.n_groups is not None:
            facts.append(("groups", f"{errors.n_groups}"))
        return tuple(facts)

    def _notes(self, errors: PosteriorCovariance | None) -> tuple[str, ...]:
        if errors is None:
            return ()
        if np.isnan(errors.covariance).all():
            return (
                "No standard errors: the columns separate the classes and l2=0, so that no finite "
                "optimum exists; set l2 > 0.",
            )
        kind = f"Standard errors: sandwich ({errors.kind})"
        if errors.weighed is not None:
            kind += " of the stacked equations of the pool's fits"
            kind += " and weights" if errors.weighed else "; their weights taken as given"
        if errors.n_groups is not None:
            kind += ", cluster-robust"
        return (f"{kind}.", *(_OF_COMPONENTS if self._fitted.n_components > 1 else ()))

    # -- probabilities ---------------------------------------------------------------------------

    def _with_interval(self, X: Any, interval: float) -> tuple[Floats, Floats, Floats]:
        """Return posteriors and their limits."""
        interval = check_number("interval", interval, above=0.0, below=1.0, remedy="0.95 is usual")
        check_is_fitted(self)
        if is_lazy(X):
            self._errors()  # before the model goes to workers, without its rows
        found = self._intervals(X, interval=interval)
        return found[:, 0], found[:, 1], found[:, 2]

    @part_by_part
    def _intervals(self, X: Any, *, interval: float) -> Floats:
        """Return posteriors and their limits, (n_rows, 3, n_classes)."""
        return self._limits(self._encoded(X), interval)

    @abstractmethod
    def _log_posterior(self, matrix: NDArray[Any]) -> Floats:
        """Return log-posteriors of encoded rows."""

    @abstractmethod
    def _finite(self, values: Floats, matrix: NDArray[Any]) -> Floats:
        """Refuse cells that cannot be used; they show as NaN in what was computed from them."""

    def _limits(self, matrix: NDArray[Any], interval: float) -> Floats:
        """Return posteriors, lower and upper limits, (n_rows, 3, n_classes)."""
        errors, fitted = self._errors(), self._fitted
        log_posterior = self._log_posterior(matrix)
        gradients = fitted.score_gradients()
        k, known = self.classes_.size, not np.isnan(errors.covariance).any()
        unknown = self._unknown_if_missing(errors)
        found = np.empty((len(matrix), 3, k))
        size = max(1, _BLOCK_DOUBLES // (k * len(errors.covariance)))
        for first in range(0, len(matrix), size):
            rows = slice(first, first + size)
            X = block_of(matrix, rows)
            own = log_posterior[rows]
            found[rows, 0] = np.exp(own)
            with np.errstate(over="ignore", invalid="ignore"):
                limits = posterior_interval(own, gradients(X), errors.covariance, interval)
            found[rows, 1:] = np.stack(limits, axis=1)
            missing = np.isnan(X)
            if known:
                self._finite(found[rows, 1:][~missing.any(axis=1)], X[~missing.any(axis=1)])
            found[rows, 1:][missing[:, unknown].any(axis=1)] = np.nan
        return found

    def _unknown_if_missing(self, errors: PosteriorCovariance) -> NDArray[np.bool_]:
        """Return the columns whose missing cells have no known errors, (n_features,).

        Where densities are open that is of all that say something and are not filled in; else of
        those that are filled in, by moments of rows that had no such cell.
        """
        fitted, density = self._fitted, self.density_
        fills = density.fills_statistics
        if density.filling.size:
            fills = np.zeros_like(fills)
        path = fitted.path
        open_densities = ((path["tradeoff"] == 0.0) & (path["weight"] > 0.0)).any()
        is_open = open_densities and density.allows_missing and not errors.settled
        if fitted.optimum.absent is not None or not is_open:
            return fills
        gradients, (_, columns) = self._coefficient_gradients(), self._terms()
        spread = quadratic_forms(gradients - gradients[:1], errors.covariance)
        free = (spread != 0.0).any(axis=0)
        used = {j for of, said in zip(columns, free, strict=True) if said for j in of}
        telling = np.isin(np.arange(fills.size), list(used))
        return fills | (telling & ~density.fills_statistics)


def options_that_keep(model: Any) -> str | None:
    """Return options of crossfade fit by which a file keeps errors, None where it does anyhow."""
    fitted = model._fitted
    if fitted.without_search().errors is not None:
        return None
    evidence = fitted.evidence if model.density_.reads_words else None
    by_refits = evidence is not None and evidence.n_influences > MOST_ASKED_FOR
    return "--model pool:nb --intervals" if by_refits else "--intervals"
