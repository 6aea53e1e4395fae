"""Sequences: hidden Markov model, entropic forward-backward, random field, and between."""

from __future__ import annotations

from crossfade.sequences.crf import ConditionalRandomField
from crossfade.sequences.entropic import EntropicMarkovChain
from crossfade.sequences.hmm import HiddenMarkovModel

__all__ = ["ConditionalRandomField", "EntropicMarkovChain", "HiddenMarkovModel"]
