"""The error of a linear rule between two Gaussian classes, exactly."""

from __future__ import annotations

from scipy.special import ndtr


def rule_error(signal: float, intercept: float, deviation: float) -> float:
    """Return the error of a rule whose score is Gaussian, ±signal + intercept on the average."""
    missed = ndtr(-(signal + intercept) / deviation) + ndtr(-(signal - intercept) / deviation)
    return 0.5 * float(missed)
