"""What theory says about generative and discriminative classifiers, with constants.

Ng and Jordan (2001, "On discriminative vs. generative classifiers", NIPS 14) state their results
with orders of magnitude; here every constant is derived or cited, and every bound is tested against
simulations.
"""

from __future__ import annotations

from crossfade.theory.bayes import BayesClassifier, ErrorEstimate, PopulationGap, population_gap
from crossfade.theory.discriminative import (
    discriminative_excess_error,
    discriminative_sample_size,
    log_dichotomies,
)
from crossfade.theory.efficiency import relative_efficiency
from crossfade.theory.margins import (
    MarginGrowth,
    MarginMass,
    generative_excess_error,
    generative_sample_size,
    log_odds_perturbation,
    margin_growth,
    margin_mass,
)
from crossfade.theory.parameters import (
    parameter_accuracy,
    parameter_failure_probability,
    parameter_sample_size,
)
from crossfade.theory.zero_one import ZeroOneLinearClassifier

__all__ = [
    "BayesClassifier",
    "ErrorEstimate",
    "MarginGrowth",
    "MarginMass",
    "PopulationGap",
    "ZeroOneLinearClassifier",
    "discriminative_excess_error",
    "discriminative_sample_size",
    "generative_excess_error",
    "generative_sample_size",
    "log_dichotomies",
    "log_odds_perturbation",
    "margin_growth",
    "margin_mass",
    "parameter_accuracy",
    "parameter_failure_probability",
    "parameter_sample_size",
    "population_gap",
    "relative_efficiency",
]
