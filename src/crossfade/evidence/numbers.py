"""Numbers as people read them."""

from __future__ import annotations

from math import floor, isfinite, log10

from crossfade.evaluation.scores import Estimate


def decimals(uncertainty: float) -> int:
    """Return how many decimals a number deserves: three, or more where it is surer than that."""
    return 1 - floor(log10(uncertainty)) if 1e-6 < uncertainty < 1e-3 else 3


def figure(value: float, uncertainty: float) -> str:
    """Return a number with three decimals, or more where its uncertainty is smaller than that."""
    text = f"{value:.{decimals(uncertainty)}f}"
    return text.lstrip("-") if float(text) == 0 else text


def around(found: Estimate) -> str:
    """Return a mean and its standard error, where that is known."""
    mean, error = (figure(v, found.standard_error) for v in (found.mean, found.standard_error))
    return f"{mean} ± {error}" if isfinite(found.standard_error) else mean


def quantity(value: float) -> str:
    """Return a number of rows, rounded to two digits above a hundred (1 234 becomes 1,200)."""
    rounded = round(value) if value < 100 else round(value, 1 - floor(log10(value)))
    return f"{rounded:,.0f}"
