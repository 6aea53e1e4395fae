"""Names that another may have been meant for; loads nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

#: Share of letters that names have in common from which one may be meant for the other, and where
#: they begin alike, as nearly all mistyped names do: then a letter of three may be wrong.
_ALIKE, _ALIKE_FROM_THE_FIRST = 0.75, 0.65

#: Letters of a name from which it may stand for a longer one that holds it.
_SHORTEST_PART = 4


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three names that this one may have been meant for, the likeliest first."""
    wanted = name.strip().lower()
    plain: dict[str, str] = {}
    for other in known:
        plain.setdefault(other.strip().lower(), other)
    found = [wanted] if wanted in plain else []
    if len(wanted) >= _SHORTEST_PART:
        found += sorted((one for one in plain if wanted in one), key=len)
    begins = [one for one in plain if one[:1] == wanted[:1]]
    found += get_close_matches(wanted, begins, n=3, cutoff=_ALIKE_FROM_THE_FIRST)
    found += get_close_matches(wanted, plain, n=3, cutoff=_ALIKE)
    return [plain[one] for one in dict.fromkeys(found)][:3]


#: The data sets that come with scikit-learn.
BUNDLED = ("breast-cancer", "digits", "iris", "wine")


def is_bundled(name: str) -> bool:
    """Return whether a name, however it is written, is that of a bundled data set."""
    return name.lower().replace("_", "-").replace(" ", "-") in BUNDLED


def no_such_data(name: str, others: Iterable[str] = ()) -> str:
    """Return that a name is that of no file here and no data set, and which is perhaps meant."""
    here = [file.name for file in Path().iterdir() if file.is_file()]
    near = near_names(name.lower(), [*BUNDLED, *others, *here])
    remedy = f"bundled are {', '.join(BUNDLED)}; a file is named with its suffix"
    if near:
        remedy = f"did you mean {' or '.join(map(repr, near))}?"
    return f"data: expected the name of a data set or a file, got {name!r}; {remedy}"
