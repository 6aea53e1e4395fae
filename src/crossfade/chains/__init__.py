"""What models of sequences share: the recursions as functions on arrays, input, decoding."""

from __future__ import annotations

from crossfade.chains.recursions import (
    ForwardBackward,
    edge_marginals,
    forward_backward,
    log_partition,
    viterbi,
)

__all__ = ["ForwardBackward", "edge_marginals", "forward_backward", "log_partition", "viterbi"]
