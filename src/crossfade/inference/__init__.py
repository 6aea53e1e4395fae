"""What probabilities allow to be said of rows to come: class shares, prediction sets, strangers."""

from crossfade.inference.held_out import HeldOut
from crossfade.inference.shares import ClassShares, estimate_shares

__all__ = ["ClassShares", "HeldOut", "estimate_shares"]
