"""Sequences: hidden Markov model, entropic forward-backward, and everything between."""

from __future__ import annotations

from crossfade.sequences.crf import ConditionalRandomField
from crossfade.sequences.hmm import HiddenMarkovModel

__all__ = ["ConditionalRandomField", "HiddenMarkovModel"]
