"""Columns that give the class away, and numbers that stand for missing cells."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from crossfade.errors import DataError
from crossfade.evaluation.column_notes import column_notes
from crossfade.evaluation.inputs import read_table

RNG = np.random.default_rng(0)
Y = np.repeat(["left", "stays"], [30, 170])
GONE = Y == "left"
THREE = np.repeat(["a", "b", "c"], [40, 50, 60])


def notes(column, y=Y):
    frame = pl.DataFrame({"x": column, "z": np.random.default_rng(1).normal(size=len(y))})
    table = read_table(frame, y)
    return column_notes(table, np.asarray(table.schema.encode(table.columns)))


@pytest.mark.parametrize(
    ("column", "y"),
    [
        (np.where(GONE, "closed", "open"), Y),
        (GONE, Y),
        (GONE.astype(int), Y),
        # Several values of a class, and a missing cell as one of them.
        (["moved", "price"] * 15 + [None] * 170, Y),
        ([None] * 30 + RNG.normal(size=170).tolist(), Y),
        ([f"2020-01-{day:02}" for day in range(1, 31)] + [None] * 170, Y),
        # A number that was cut into the classes.
        (RNG.normal(size=200) + 20.0 * GONE, Y),
        (np.repeat([1.5, -2.0, 7.0], [40, 50, 60]) + RNG.uniform(size=150), THREE),
        (np.repeat(["u", "v", "w"], [40, 50, 60]), THREE),
        # Patients of four rows each.
        ([f"P{i // 4}" for i in range(200)], np.repeat(["ill", "well"], 100)),
    ],
)
def test_a_column_that_tells_every_class_is_named_in_any_order_of_rows(column, y):
    order = RNG.permutation(len(y))
    found = notes(np.array(column, dtype=object)[order].tolist(), y[order])
    (told,) = (one for one in found if "tells the class of every row" in one)
    assert told.startswith("column 'x': tells the class of every row. ")


@pytest.mark.parametrize(
    ("column", "y"),
    [
        # One row is another: no column that tells all of them.
        ([*np.where(GONE, "closed", "open").tolist()[:-1], "closed"], Y),
        ([None] * 31 + RNG.normal(size=169).tolist(), Y),
        (np.append(RNG.normal(size=199) + 20.0 * GONE[:-1], 20.0), Y),
        # Values of their own for all rows, of words, codes and numbers.
        ([f"C{i}" for i in RNG.permutation(200)], Y),
        (RNG.permutation(200), Y),
        (RNG.normal(size=200), Y),
        ([f"word {i} of a long text" for i in range(200)], Y),
        # Which of three, but not which of the two others.
        ((THREE == "a").tolist(), THREE),
        # So few rows that chance does as well.
        (["u", "u", "u", "v", "v", "v"], np.repeat(["a", "b"], 3)),
        (["same"] * 200, Y),
    ],
)
def test_other_columns_are_not(column, y):
    assert not [one for one in notes(column, y) if "class of every row" in one]


def test_measurements_in_text_are_named():
    (told,) = notes([f"{i / 7:.2f}" for i in range(200)])
    assert told.startswith("column 'x' ('9.86'): numbers in text are categories, left out where")
    assert not notes([f"{i:03d}" for i in range(200)])


def test_chance_alone_names_no_column():
    """Of 1,000 columns of halves, with 12 rows, some tell the class by chance."""
    rng = np.random.default_rng(2)
    y = np.repeat(["a", "b"], 6)
    frame = pl.DataFrame({f"x{i}": rng.integers(0, 2 + 2 * (i % 2), size=12) for i in range(2000)})
    table = read_table(frame, y)
    assert not column_notes(table, np.asarray(table.schema.encode(table.columns)))


@pytest.mark.parametrize(
    ("mark", "others"),
    [
        (-999, RNG.normal(size=200)),
        (-999.0, RNG.normal(50, 10, size=200).round(1)),
        (999, RNG.integers(18, 90, size=200)),
        (-9, RNG.integers(0, 6, size=200)),
        (99, RNG.integers(0, 4, size=200)),
    ],
)
def test_numbers_that_stand_for_missing_cells_are_named(mark, others):
    column = np.where(np.arange(200) % 20 == 3, mark, others)
    (told,) = (one for one in notes(column) if "far from all other" in one)
    assert told.startswith(f"column 'x' ({int(mark)} in 10 rows): far from all other numbers.")
    assert f" --missing={int(mark)};" in told


@pytest.mark.parametrize(
    ("marks", "others"),
    [
        ([98, 99], RNG.integers(1, 6, size=200)),
        ([777, 888, 999], RNG.integers(18, 90, size=200)),
        ([-9999, 9999], RNG.integers(18, 90, size=200)),
        ([-99, -98], RNG.normal(size=200)),
    ],
)
def test_several_numbers_that_stand_for_missing_cells_are_all_named(marks, others):
    column = others.copy()
    for place, mark in enumerate(marks):
        column[place::20] = mark
    (told,) = (one for one in notes(column) if "far from all other" in one)
    for mark in marks:
        assert f"({mark} in 10 rows)" in told
        assert f" --missing={mark}" in told


def frame_of(rng, n=120):
    return pl.DataFrame(
        {
            "x": rng.normal(size=n).round(1),
            "k": rng.choice(["u", "v", "w"], n),
            "n": rng.integers(0, 40, n),
            "y": np.where(np.arange(n) % 2, "a", "b"),
        }
    )


def copies(frame):
    table = read_table(frame.drop("y"), frame["y"])
    found = column_notes(table, np.asarray(table.schema.encode(table.columns)))
    return [one for one in found if "copies of others" in one]


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("names", [False, True])
def test_rows_that_are_copies_of_others_are_counted(share, names):
    rng = np.random.default_rng(3)
    frame = frame_of(rng).with_columns(pl.col("x") + pl.Series(rng.uniform(size=120)))
    frame = pl.concat([frame, frame.sample(int(share * len(frame)), seed=4)])
    frame = frame.sample(fraction=1.0, shuffle=True, seed=5)
    if names:  # copied rows got names of their own
        frame = frame.with_columns(id=pl.Series([f"P{i}" for i in range(len(frame))]))
    (told,) = copies(frame)
    assert told.startswith(f"{int(share * 120)} of {len(frame)} rows are copies of others, in all")


def test_copies_of_texts_are_counted():
    texts = [f"word {i % 150} of a text that comes again" for i in range(200)]
    (told,) = copies(pl.DataFrame({"t": texts, "y": ["ab"[i % 2] for i in range(200)]}))
    assert told.startswith("50 of 200 rows are copies of others")


@pytest.mark.parametrize(
    "change",
    [
        lambda frame, rng: frame,
        lambda frame, rng: pl.concat([frame, frame[:4]]),  # a few
        lambda frame, rng: frame.select("k", "y"),  # few values
        lambda frame, rng: frame.select("k", pl.col("n") % 5, "y"),
        lambda frame, rng: frame.select(pl.col("x").round(0), "n", "y")[:40],
        lambda frame, rng: frame.select("n", "y"),  # one column: no wonder
        # Draws of cells that tell the class in part.
        lambda frame, rng: pl.concat([frame, frame.with_columns(pl.col("y").shuffle(1))]),
    ],
)
def test_rows_that_are_equal_otherwise_are_not(change):
    rng = np.random.default_rng(3)
    assert not copies(change(frame_of(rng), rng))


@pytest.mark.parametrize(
    ("end", "n", "others"),
    [
        (99, 10, RNG.integers(18, 98, size=200)),  # an age
        (999, 1, RNG.integers(18, 90, size=200)),  # once only
        (9, 10, RNG.integers(0, 3, size=200)),
        (98, 10, RNG.integers(0, 3, size=200)),
        (1000, 10, RNG.integers(0, 3, size=200)),
        (-99.5, 10, RNG.normal(size=200)),
        (99, 10, np.full(200, 7)),
        (-999, 10, 300 * RNG.normal(size=200)),
    ],
)
def test_ends_of_a_scale_are_not(end, n, others):
    column = np.where(np.arange(200) < n, float(end), others)[RNG.permutation(200)]
    assert not [one for one in notes(column) if "far from all other" in one]


def of_target(y):
    table = read_table(pl.DataFrame({"x": np.arange(len(y)) % 7}), y)
    found = column_notes(table, np.asarray(table.schema.encode(table.columns)))
    return [note for note in found if "PoissonRegression" in note]


def test_counts_as_classes_are_told():
    rng = np.random.default_rng(0)
    counts = np.minimum(rng.poisson(1.5, 500), 6)
    assert of_target(counts) == [
        "The classes are numbers from 0 to 6, the larger rare: if they are counts, crossfade glm "
        "--family poisson (PoissonRegression) knows their order."
    ]
    assert of_target(counts + 1.0)
    assert not of_target(counts + 2)  # such as grades
    assert not of_target([f"{count}" for count in counts])
    assert not of_target(rng.integers(10, size=500))  # digits
    assert not of_target(np.minimum(counts, 3))
    assert not of_target(6 - counts)
    with pytest.raises(DataError, match=r"fit counts with crossfade glm --family poisson \(Poi"):
        of_target(rng.poisson(np.exp(rng.normal(3, 1, 60))))
