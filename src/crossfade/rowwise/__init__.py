"""Posteriors from scores, losses, weighted rows: a block's work beyond its matrix products.

What a block of scores costs beyond its matrix products is a dozen short array operations, between
which threads wait for the interpreter's lock. Here each is one compiled loop, free of the lock,
beside its NumPy twin.
"""

from crossfade.rowwise.entries import (
    FEW_ENTRIES,
    SMALLEST_BOUND,
    add_by_class,
    add_curvature,
    add_entry_sums,
    aligned_table,
    centre_rounded,
    decide,
    entry_posteriors,
    entry_scores,
    many_entries,
)
from crossfade.rowwise.losses import (
    Pass,
    logistic_information,
    logistic_loss,
    logistic_pass,
    poisson_pass,
)
from crossfade.rowwise.posteriors import log_sums, softmax, two_classes
from crossfade.rowwise.rows import (
    add_products,
    add_rows,
    group_rows,
    scale_rows,
    squared_images,
    standardise_rows,
)

__all__ = [
    "FEW_ENTRIES",
    "SMALLEST_BOUND",
    "Pass",
    "add_by_class",
    "add_curvature",
    "add_entry_sums",
    "add_products",
    "add_rows",
    "aligned_table",
    "centre_rounded",
    "decide",
    "entry_posteriors",
    "entry_scores",
    "group_rows",
    "log_sums",
    "logistic_information",
    "logistic_loss",
    "logistic_pass",
    "many_entries",
    "poisson_pass",
    "scale_rows",
    "softmax",
    "squared_images",
    "standardise_rows",
    "two_classes",
]
