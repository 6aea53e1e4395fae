"""What a pool and its members are worth on rows that they were not fitted to."""

from __future__ import annotations

from dataclasses import dataclass, field

from crossfade._typing import Floats
from crossfade.inference import HeldOut
from crossfade.pools.training import MemberFits, Weighed
from crossfade.pools.weights import cross_fitted, weights_covariance


@dataclass(frozen=True)
class Worth:
    """Losses of members and pool by name, and by how much the pool's rises without a member.

    `covariance`: Of the weights, and the rows by weight; None where too few rows were held out.
    """

    members: dict[str, dict[str, float]] = field(default_factory=dict)
    pool: dict[str, float] = field(default_factory=dict)
    gains: dict[str, float] = field(default_factory=dict)
    held_out: HeldOut | None = None
    covariance: tuple[Floats | None, float] = (None, 0.0)


def worth(fits: MemberFits, found: Weighed) -> Worth:
    """Return what the held-out rows say; the pool's losses are cross-fitted."""
    names, settings = found.names, fits.settings
    evidence = fits.evidence(names)
    if not evidence.codes.size:
        return Worth()
    joint = cross_fitted(evidence, settings.poolings)
    once = evidence.first_of_rows()
    gains: dict[str, float] = {}
    if len(names) > 1:
        used, criterion = [found.weighing.pooling], settings.selection
        with_all = evidence.losses(cross_fitted(evidence, used))[criterion]
        for g, name in enumerate(names):
            others = evidence.members([k for k in range(len(names)) if k != g])
            gains[name] = others.losses(cross_fitted(others, used))[criterion] - with_all
    return Worth(
        {name: evidence.losses(own) for name, own in zip(names, evidence.scores, strict=True)},
        evidence.losses(joint),
        gains,
        HeldOut.of(joint[once], evidence.codes[once], evidence.weights[once]),
        weights_covariance(evidence, found.weighing.pooling, fits.data.groups),
    )
