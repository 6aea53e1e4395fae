"""Named errors and warnings, so that callers can catch exactly what they mean to.

Every message says which parameter, what was expected, what came, and the remedy.
"""

from __future__ import annotations

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning

__all__ = [
    "CellTypeError",
    "ConvergenceWarning",
    "CrossfadeWarning",
    "DataError",
    "MissingExtraError",
    "NotADensityError",
    "SeparationWarning",
]


class DataError(ValueError):
    """The data or a parameter cannot be used as given."""


class CellTypeError(DataError, TypeError):
    """A cell holds something that is neither a number nor text (a list, a dict, a date, …)."""


class MissingExtraError(ImportError):
    """Something needs a library that only an extra of Crossfade installs."""


class NotADensityError(ValueError):
    """The fitted parameters define a posterior, but no density of the inputs."""


class CrossfadeWarning(UserWarning):
    """Parent of the warnings that Crossfade raises itself."""


class SeparationWarning(CrossfadeWarning):
    """The classes are separated by the columns: no finite unpenalised estimate exists."""


class ConvergenceWarning(CrossfadeWarning, _SklearnConvergenceWarning):
    """A solver stopped before its tolerance was met."""
