"""Print the oldest versions that pyproject.toml admits, as constraints for pip."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

#: Extras whose packages Crossfade imports or reads data from; test tools may be any version.
EXTRAS = ("cli", "formula", "interchange")


def floors(pyproject: Path) -> list[str]:
    """Return ``name==version`` for each dependency and each package of the extras above."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    requirements = list(project["dependencies"])
    for extra in EXTRAS:
        requirements += project["optional-dependencies"][extra]
    pinned = set()
    for requirement in requirements:
        match = re.fullmatch(r"([A-Za-z0-9._-]+)>=([0-9.]+)", requirement)
        if match is None:
            raise SystemExit(f"{requirement!r}: expected name>=version, so that its floor is known")
        pinned.add(f"{match[1]}=={match[2]}")
    return sorted(pinned)


if __name__ == "__main__":
    print("\n".join(floors(Path(__file__).parents[1] / "pyproject.toml")))
