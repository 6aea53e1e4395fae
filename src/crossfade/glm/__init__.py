"""Generalised linear models with inference: grouped binomial, Poisson and multinomial regression.

Fits are iteratively reweighted least squares (Sarkar, Lecture 14, section 14.3); standard errors,
tests, intervals and diagnostics come with them.
"""

from __future__ import annotations

from crossfade.glm.binomial_estimator import BinomialRegression
from crossfade.glm.grouping import Collapsed, collapse
from crossfade.glm.multinomial_estimator import MultinomialRegression
from crossfade.glm.nested import compare_nested
from crossfade.glm.poisson_estimator import PoissonRegression

__all__ = [
    "BinomialRegression",
    "Collapsed",
    "MultinomialRegression",
    "PoissonRegression",
    "collapse",
    "compare_nested",
]
