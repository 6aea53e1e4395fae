"""Names that another may have been meant for; loads nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

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
