"""Choosing the density of each column: by its type, by the user's word, or by what its rows say."""

from crossfade.choice.columns import (
    DENSITY_OF_KIND,
    KIND_OF_DENSITY,
    ColumnChoice,
    Reason,
    as_chosen,
    by_evidence,
    by_type,
    in_words,
    kinds_of,
    report_of,
)

__all__ = [
    "DENSITY_OF_KIND",
    "KIND_OF_DENSITY",
    "ColumnChoice",
    "Reason",
    "as_chosen",
    "by_evidence",
    "by_type",
    "in_words",
    "kinds_of",
    "report_of",
]
