"""Hidden Markov model, entropic Markov chain, and what lies between likelihoods."""

from __future__ import annotations

from crossfade.hmm.entropic import EntropicMarkovChain
from crossfade.hmm.model import HiddenMarkovModel

__all__ = ["EntropicMarkovChain", "HiddenMarkovModel"]
