"""What a fit allows to be said: shares, sets and strangers among new rows, and its own errors."""

from crossfade.inference.density_fit import ColumnFit
from crossfade.inference.held_out import HeldOut
from crossfade.inference.shares import ClassShares, estimate_shares
from crossfade.inference.summary import CoefficientSummary, ColumnTest

__all__ = [
    "ClassShares",
    "CoefficientSummary",
    "ColumnFit",
    "ColumnTest",
    "HeldOut",
    "estimate_shares",
]
