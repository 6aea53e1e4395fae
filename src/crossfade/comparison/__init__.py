"""Which model fits this table, how sure is that, and would more labels change the answer?"""

from __future__ import annotations

from crossfade.comparison.compare import compare
from crossfade.comparison.models import all_models, choose_models, default_models
from crossfade.comparison.results import ComparisonResult
from crossfade.evidence.comparison import ModelResult

__all__ = [
    "ComparisonResult",
    "ModelResult",
    "all_models",
    "choose_models",
    "compare",
    "default_models",
]
