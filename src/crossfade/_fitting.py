"""A fit is whole or did not happen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

Estimator = TypeVar("Estimator")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Fit = Callable[Concatenate[Estimator, Arguments], Result]


def whole_or_not_at_all(
    fit: Fit[Estimator, Arguments, Result],
) -> Fit[Estimator, Arguments, Result]:
    """Make a method that sets attributes leave all of them as they were if it raises.

    The method may bind attributes anew, but not write into what they hold.
    """

    @functools.wraps(fit)
    def guarded(self: Estimator, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Any:
        before = dict(vars(self))
        try:
            return fit(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return guarded
