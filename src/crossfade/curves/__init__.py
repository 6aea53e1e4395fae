"""Learning curves: models on nested training sets, and what more labels promise."""

from __future__ import annotations

from crossfade.curves.learning_curve import learning_curve
from crossfade.curves.result import LearningCurve

__all__ = ["LearningCurve", "learning_curve"]
