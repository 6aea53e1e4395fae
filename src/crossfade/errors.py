"""Named errors and warnings, so that callers can catch exactly what they mean to.

Every message says which parameter, what was expected, what came, and the remedy.
"""

from __future__ import annotations

from collections.abc import Sequence

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning

__all__ = [
    "AliasedColumnsWarning",
    "CellTypeError",
    "ClusterError",
    "ConvergenceWarning",
    "CountsWarning",
    "CrossfadeWarning",
    "DataError",
    "DomainError",
    "IgnoredRowsWarning",
    "LeftOutWarning",
    "MissingExtraError",
    "NotADensityError",
    "NumeralsWarning",
    "SeparationWarning",
    "TradeoffWarning",
    "UnseenNumbersWarning",
]


class ClusterError(ConnectionError):
    """The cluster that holds the rows is gone, or lost them; nothing was fitted."""


class DataError(ValueError):
    """The data or a parameter cannot be used as given."""


class CellTypeError(DataError, TypeError):
    """A cell holds something that is neither a number nor text (a list, a dict, a date, …)."""


class DomainError(DataError):
    """Cells of some columns lie outside what a density can take.

    Parameters
    ----------
    columns : tuple of int or str
        The columns, by number or by name.
    expected : str
        What the density takes.
    got : float
        The first offending value.
    remedy : str
        What to do about it.

    Examples
    --------
    >>> from crossfade.errors import DomainError
    >>> str(DomainError((2,), "counts", -1.0, "use 'gaussian' for this column"))
    "X: column 2: expected counts, got -1.0; use 'gaussian' for this column"
    """

    def __init__(self, columns: tuple[int | str, ...], expected: str, got: float, remedy: str):
        super().__init__(columns, expected, got, remedy)
        self.columns, self.expected, self.got, self.remedy = columns, expected, got, remedy

    def __str__(self) -> str:
        shown = ", ".join(repr(c) if isinstance(c, str) else str(c) for c in self.columns[:10])
        more = f" and {len(self.columns) - 10} more" if len(self.columns) > 10 else ""
        noun = "column" if len(self.columns) == 1 else "columns"
        return f"X: {noun} {shown}{more}: expected {self.expected}, got {self.got!r}; {self.remedy}"

    def renamed(self, names: Sequence[int | str]) -> DomainError:
        """Return the same error with column number j written as ``names[j]``."""
        columns = tuple(names[int(j)] for j in self.columns)
        return DomainError(columns, self.expected, self.got, self.remedy)


class MissingExtraError(ImportError):
    """Something needs a library that only an extra of Crossfade installs."""


class NotADensityError(ValueError, AttributeError):
    """The fitted parameters define a posterior, but no density of the inputs.

    An AttributeError too: to ``hasattr`` and ``dir``, what needs a density is then not there.
    """


class CrossfadeWarning(UserWarning):
    """Parent of the warnings that Crossfade raises itself."""


class AliasedColumnsWarning(CrossfadeWarning):
    """Some columns are determined by those before them and have no coefficient of their own."""


class CountsWarning(CrossfadeWarning):
    """Columns of a sparse table, all of which are read as counts of words, do not look like it."""


class IgnoredRowsWarning(CrossfadeWarning):
    """Some rows carry no information (no trials, a missing cell) and were left out."""


class LeftOutWarning(CrossfadeWarning):
    """A member of a pool could not be fitted and was left out."""


class NumeralsWarning(CrossfadeWarning):
    """A column of text holds numbers, which count as names of categories, or of rows."""


class SeparationWarning(CrossfadeWarning):
    """The classes are separated by the columns: no finite unpenalised estimate exists."""


class TradeoffWarning(CrossfadeWarning):
    """The tradeoff that was given has no fit here; `tradeoff_` holds the near one that was used."""


class UnseenNumbersWarning(CrossfadeWarning):
    """A column that held two different numbers in fit holds a third, which counts as missing."""


class ConvergenceWarning(CrossfadeWarning, _SklearnConvergenceWarning):
    """A solver stopped before its tolerance was met."""
