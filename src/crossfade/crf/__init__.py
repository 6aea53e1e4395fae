"""Conditional random field, and the maximum-entropy classifier of single tokens."""

from __future__ import annotations

from crossfade.crf.maximum_entropy import MaximumEntropyClassifier
from crossfade.crf.model import ConditionalRandomField

__all__ = ["ConditionalRandomField", "MaximumEntropyClassifier"]
