"""What a fit says, computed once and shown in several ways."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from crossfade._optional import import_optional
from crossfade._typing import Floats

__all__ = ["Predictions", "Summary"]


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

    def __str__(self) -> str:
        lines = [self.title, ""]
        width = max((len(name) for name, _ in self.facts), default=0)
        lines += [f"{name:<{width}}  {value}" for name, value in self.facts]
        table = [self._header(), *self._rows()]
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
        head = "".join(f"<th>{escape(cell)}</th>" for cell in self._header())
        body = "".join(
            "<tr>"
            + f"<th style='text-align:left'>{escape(row[0])}</th>"
            + "".join(f"<td style='text-align:right'>{escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in self._rows()
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return (
            f"<div><p><strong>{escape(self.title)}</strong></p><table>{facts}</table>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}</div>"
        )


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
        return import_optional("polars", "data frames").DataFrame(
            {
                "mean": self.mean,
                "linear_predictor": self.linear_predictor,
                "standard_error": self.standard_error,
                "lower": self.lower,
                "upper": self.upper,
            }
        )


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
