"""The error of a linear rule between two Gaussian classes, exactly."""

from __future__ import annotations

from scipy.special import ndtr

__all__ = ["rule_error"]


def rule_error(signal: float, intercept: float, deviation: float) -> float:
    """Return the error of a rule whose score is Gaussian, ±signal + intercept on the average.

    Parameters
    ----------
    signal : float
        Half the distance of the mean scores of the two classes, which are equally probable.
    intercept : float
        The rule decides by the sign of the score.
    deviation : float
        Standard deviation of the score within a class.

    Examples
    --------
    >>> from crossfade.experiments.rules import rule_error
    >>> round(rule_error(1.0, 0.0, 1.0), 4), rule_error(0.0, 5.0, 1.0)
    (0.1587, 0.5)
    """
    missed = ndtr(-(signal + intercept) / deviation) + ndtr(-(signal - intercept) / deviation)
    return 0.5 * float(missed)
