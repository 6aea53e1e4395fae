"""Learning curves: models on nested training sets, and what more labels promise."""

from __future__ import annotations

from crossfade.evaluation.learning_curve import learning_curve
from crossfade.evaluation.result import LearningCurve

__all__ = ["LearningCurve", "learning_curve"]
