"""Sequences: hidden Markov model, entropic forward-backward, and everything between."""

from __future__ import annotations

from crossfade.sequences.entropic import EntropicMarkovChain
from crossfade.sequences.hmm import HiddenMarkovModel

__all__ = ["EntropicMarkovChain", "HiddenMarkovModel"]
