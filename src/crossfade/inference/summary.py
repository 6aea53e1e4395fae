"""Coefficients and their standard errors, computed once and shown in several ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from crossfade._checks import listed, show
from crossfade._optional import import_optional
from crossfade._typing import Floats, Integers
from crossfade.errors import DataError
from crossfade.inference.sandwich import wald_test

#: Coefficients without errors that are shown, and how many of more: those of words.
_MOST, _LARGEST = 300, 50


@dataclass(frozen=True, repr=False)
class Summary:
    """A table of coefficients with what belongs above and below it.

    Attributes
    ----------
    title : str
    facts : tuple of (name, value) pairs
    names : tuple of str
        Terms, intercept first.
    estimates, standard_errors, statistics, p_values, lower, upper : ndarray of shape (n_names,)
    level : float
        Coverage of the intervals.
    statistic_name : str
        "z", or "t" where the dispersion was estimated.
    notes : tuple of str
        What the numbers mean, and what to be wary of.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    estimates: Floats
    standard_errors: Floats
    statistics: Floats
    p_values: Floats
    lower: Floats
    upper: Floats
    level: float
    statistic_name: str
    notes: tuple[str, ...]

    def frame(self) -> Any:
        """Return the table as a polars data frame, one row a term."""
        return import_optional("polars", "data frames").DataFrame(
            {
                "term": list(self.names),
                "estimate": self.estimates,
                "standard_error": self.standard_errors,
                "statistic": self.statistics,
                "p_value": self.p_values,
                "lower": self.lower,
                "upper": self.upper,
            }
        )

    def _header(self) -> list[str]:
        percent = f"{100.0 * self.level:g}%"
        return [
            "",
            "estimate",
            "std. error",
            self.statistic_name,
            f"P>|{self.statistic_name}|",
            f"lower {percent}",
            f"upper {percent}",
        ]

    def _rows(self) -> list[list[str]]:
        columns = (self.estimates, self.standard_errors, self.statistics)
        return [
            [
                name,
                *(_number(column[i]) for column in columns),
                _p_value(self.p_values[i]),
                _number(self.lower[i]),
                _number(self.upper[i]),
            ]
            for i, name in enumerate(self.names)
        ]

    def _tables(self) -> list[list[list[str]]]:
        """Return tables of cells, each with its head."""
        table = [self._header(), *self._rows()]
        if not np.isnan(self.standard_errors).all():
            return [table]
        table = [row[:2] for row in table]
        if len(self.names) > _MOST:
            order = np.argsort(-np.abs(self.estimates), kind="stable")[:_LARGEST]
            table = [["", f"largest of {len(self.names):,}"], *(table[1 + i] for i in order)]
        return [table]

    def __str__(self) -> str:
        lines = [self.title, ""]
        width = max((len(name) for name, _ in self.facts), default=0)
        lines += [f"{name:<{width}}  {value}" for name, value in self.facts]
        for table in self._tables():
            widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
            lines.append("")
            for row in table:
                cells = [row[0].ljust(widths[0])]
                cells += [cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)]
                lines.append("  ".join(cells).rstrip())
        if self.notes:
            lines += ["", *self.notes]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        facts = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{escape(value)}</td></tr>"
            for name, value in self.facts
        )
        tables = "".join(map(html_table, self._tables()))
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return (
            f"<div><p><strong>{escape(self.title)}</strong></p><table>{facts}</table>"
            f"{tables}{notes}</div>"
        )


@dataclass(frozen=True)
class ColumnTest:
    """The Wald test that a column says nothing of the class.

    Attributes
    ----------
    column : str
    statistic : float
        Compared with χ² on `df` degrees of freedom.
    df : int
        Coefficients of the column that vary freely.
    p_value : float
        NaN for a column without any coefficient.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade import NaiveBayes
    >>> y = np.repeat([0, 1], 200)
    >>> X = np.random.default_rng(0).normal(size=(400, 1)) + 2 * y[:, None]
    >>> (test,) = NaiveBayes(tradeoff=0).fit(X, y).summary().tests
    >>> test.column, test.df, test.p_value < 1e-6
    ('x0', 2, True)
    """

    column: str
    statistic: float
    df: int
    p_value: float


@dataclass(frozen=True, repr=False)
class CoefficientSummary(Summary):
    """Coefficients of a classifier's log-odds with standard errors, and a test of each column.

    It prints as text and shows as a table in notebooks.

    Attributes
    ----------
    title, facts, estimates, standard_errors, statistics, p_values, lower, upper, level, notes
        As for a regression: a coefficient each. The intercept of a class comes first.
    names : tuple of str
        Terms; with more than two classes the class and the term.
    classes : tuple
        The class of each coefficient: it is of the log-odds of this class against `reference`.
    terms : tuple of str
        The statistic of each coefficient: a column, its square, a product of two, a category.
    reference : label
        The class that all are compared with.
    covariance : ndarray of shape (n_names, n_names)
        Of the estimates; of columns of 1e80 and the like as far as numbers reach.
    tests : tuple of ColumnTest
        The Wald test, for every column, that all of its coefficients are zero.

    Examples
    --------
    >>> import numpy as np
    >>> from crossfade import NaiveBayes
    >>> y = np.repeat([0, 1], 200)
    >>> X = np.random.default_rng(0).normal(size=(400, 1)) + 2 * y[:, None]
    >>> summary = NaiveBayes(tradeoff=0).fit(X, y).summary()
    >>> for row in zip(summary.terms, summary.estimates.round(1), summary.standard_errors.round(1)):
    ...     print(*row)
    intercept -1.9 0.2
    x0 1.6 0.3
    x0² 0.2 0.2
    """

    classes: tuple[Any, ...]
    terms: tuple[str, ...]
    reference: Any
    covariance: Floats
    tests: tuple[ColumnTest, ...]

    def frame(self) -> Any:
        """Return the coefficients as a polars data frame, one row for each class and term."""
        polars = import_optional("polars", "data frames")
        return (
            super()
            .frame()
            .with_columns(term=polars.Series(list(self.terms)))
            .insert_column(0, polars.Series("class", list(self.classes)))
        )

    def tests_frame(self) -> Any:
        """Return the tests as a polars data frame, one row for each column."""
        return import_optional("polars", "data frames").DataFrame(
            {name: [getattr(one, name) for one in self.tests] for name in _OF_TEST}
        )

    def _tables(self) -> list[list[list[str]]]:
        tables = super()._tables()
        if all(one.df <= 1 for one in self.tests):
            return tables  # the same as P>|z|
        head = ["test: no effect", "χ²", "df", "P"]
        rows = [
            [one.column, _number(one.statistic), str(one.df), _p_value(one.p_value)]
            for one in self.tests
            if one.df  # a column left out has no coefficient to test
        ]
        return [*tables, [head, *rows]]


def code_of_reference(reference: Any, labels: list[Any]) -> int:
    """Return the number of the class that others are compared with, the first one's by default."""
    if reference is None:
        return 0
    if not (np.isscalar(reference) and reference in labels):
        raise DataError(
            f"reference: expected one of the classes {listed(labels)}, got {show(reference)}; "
            "give a label of y"
        )
    return labels.index(reference)


def wald_columns(
    estimates: Floats, errors: Floats, level: float, law: Any = norm
) -> dict[str, Floats]:
    """Return the columns of a :class:`Summary` that follow from estimates and standard errors.

    An error of zero or NaN gives no statistic; where it is infinite, so are the limits.

    Shapes: estimates, errors (n_names,).
    """
    known = np.isfinite(errors) & (errors > 0.0)
    statistics = np.divide(estimates, errors, out=np.full_like(estimates, np.nan), where=known)
    with np.errstate(invalid="ignore"):
        width = law.ppf(0.5 + 0.5 * level) * errors
        lower, upper = estimates - width, estimates + width
    return {
        "estimates": estimates,
        "standard_errors": errors,
        "statistics": statistics,
        "p_values": 2.0 * law.sf(np.abs(statistics)),
        "lower": np.where(np.isinf(errors), -np.inf, lower),
        "upper": np.where(np.isinf(errors), np.inf, upper),
    }


def of_coefficients(
    *,
    name: str,
    facts: tuple[tuple[str, str], ...],
    notes: tuple[str, ...],
    labels: list[Any],
    against: int,
    terms: Sequence[str],
    columns: Mapping[str, Sequence[int]],
    values: Floats,
    covariance: Floats,
    level: float,
    unknown: NDArray[np.bool_] | None = None,
    sizes: Floats | None = None,
    tested: Callable[[Integers], tuple[Floats, Floats]] | None = None,
) -> CoefficientSummary:
    """Return the coefficients of log-odds of the other classes against one, with their tests.

    `columns`: Which terms belong to a column, by its name.
    `values` (n_classes - 1, n_terms), `covariance` (n, n) and `unknown` (n,) of all of these;
    `sizes` (n,): What the covariance is in, ones if not given. `tested`: From coefficients to what
    is zero exactly where they are, with its covariance; themselves if not given.
    """
    k, n_terms = len(labels), len(terms)
    others = np.delete(np.arange(k), against)
    classes = np.repeat(others, n_terms)
    values = values.ravel()
    sizes = np.ones(values.size) if sizes is None else sizes
    spread = np.sqrt(np.maximum(np.diagonal(covariance), 0.0)) * sizes
    if unknown is not None:
        spread[unknown] = np.nan
    tests = []
    for column, used in columns.items():
        own = np.add.outer(np.arange(k - 1) * n_terms, np.array(used, dtype=np.int64)).ravel()
        own = own if unknown is None else own[~unknown[own]]
        asked = values[own] / sizes[own], covariance[np.ix_(own, own)]
        tests.append(ColumnTest(column, *wald_test(*(asked if tested is None else tested(own)))))
    with np.errstate(over="ignore", under="ignore"):
        whole = covariance * sizes[:, None] * sizes
    title = f"{name}: log-odds against {labels[against]}"
    if k == 2:
        title = f"{name}: log-odds of {labels[others[0]]} against {labels[against]}"
    names = [
        term if k == 2 else f"{labels[c]}: {term}"
        for c, term in zip(classes, list(terms) * others.size, strict=True)
    ]
    return CoefficientSummary(
        title=title,
        facts=facts,
        names=tuple(names),
        **wald_columns(values, spread, level),
        level=level,
        statistic_name="z",
        notes=notes,
        classes=tuple(labels[c] for c in classes),
        terms=tuple(terms) * others.size,
        reference=labels[against],
        covariance=whole,
        tests=tuple(tests),
    )


#: Attributes of a test, in order.
_OF_TEST = ("column", "statistic", "df", "p_value")


@dataclass(frozen=True)
class Predictions:
    """Predicted means with intervals.

    Attributes
    ----------
    mean : ndarray of shape (n_rows,)
    linear_predictor, standard_error : ndarray of shape (n_rows,)
        On the link's scale.
    lower, upper : ndarray of shape (n_rows,)
        Limits of the mean.
    level : float
    """

    mean: Floats
    linear_predictor: Floats
    standard_error: Floats
    lower: Floats
    upper: Floats
    level: float

    def frame(self) -> Any:
        """Return a polars data frame, one row a prediction."""
        columns = ("mean", "linear_predictor", "standard_error", "lower", "upper")
        return import_optional("polars", "data frames").DataFrame(
            {name: getattr(self, name) for name in columns}
        )


def html_table(table: list[list[str]]) -> str:
    """Return rows of cells as a table of HTML, the first row its head."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table[0])
    body = "".join(
        "<tr>"
        + f"<th style='text-align:left'>{escape(row[0])}</th>"
        + "".join(f"<td style='text-align:right'>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in table[1:]
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _number(value: float) -> str:
    if np.isnan(value):
        return "-"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    return f"{value:.5g}" if abs(value) >= 1e5 or 0 < abs(value) < 1e-3 else f"{value:.4f}"


def _p_value(value: float) -> str:
    if np.isnan(value):
        return "-"
    return "<1e-16" if value < 1e-16 else f"{value:.3g}" if value < 1e-3 else f"{value:.4f}"
