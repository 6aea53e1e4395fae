"""Pools of any classifiers: one posterior from several, weighted by out-of-fold losses."""

from __future__ import annotations

from crossfade.pools.pooled import PooledClassifier

__all__ = ["PooledClassifier"]
