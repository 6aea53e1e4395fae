"""Tokens and their tags: column files, templates of features, accuracy and F1."""

from __future__ import annotations

from crossfade.tagging.features import shape_features, window_features, word_shape
from crossfade.tagging.metrics import TagCounts, TaggingReport, chunks, evaluate_tags
from crossfade.tagging.tokens import read_columns, write_columns

__all__ = [
    "TagCounts",
    "TaggingReport",
    "chunks",
    "evaluate_tags",
    "read_columns",
    "shape_features",
    "window_features",
    "word_shape",
    "write_columns",
]
