"""The algebra of a Gaussian's second moments: a full matrix, a diagonal, or one number.

Each structure works in standardised coordinates z with natural parameters (a, b), a the part of
z and b that of the second statistics, and with means m and covariances C in its own
representation: (n_classes, d, d) for :class:`Full`, (n_classes, d) for the others.
"""

from __future__ import annotations

from crossfade.densities.covariance.diagonal import Diagonal, Spherical
from crossfade.densities.covariance.full import Full
from crossfade.densities.covariance.moments import PowerSums, fourth_moments
from crossfade.densities.covariance.structure import Structure

__all__ = [
    "STRUCTURES",
    "Diagonal",
    "Full",
    "PowerSums",
    "Spherical",
    "Structure",
    "fourth_moments",
]

#: By the name that users give.
STRUCTURES: dict[str, type[Structure]] = {
    "full": Full,
    "diagonal": Diagonal,
    "spherical": Spherical,
}
