"""Check what a release needs before it is built: version, tag, change log."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def faults(version: str, changelog: str, citation: str, tags: list[str]) -> list[str]:
    """Return what stands in the way of a release, a sentence each."""
    found = []
    entry = re.search(rf"^## {re.escape(version)} \((.*)\)$", changelog, re.MULTILINE)
    if entry is None:
        found.append(f"CHANGELOG.md: expected '## {version} (YYYY-MM-DD)', got none")
    elif not re.fullmatch(r"\d{4}-\d{2}-\d{2}", entry[1]):
        found.append(f"CHANGELOG.md: expected the date of {version}, got {entry[1]!r}")
    if f"\nversion: {version}\n" not in citation:
        found.append(f"CITATION.cff: expected 'version: {version}'")
    if f"v{version}" not in tags:
        found.append(f"git: expected the tag v{version} on this commit, got {tags or 'none'}")
    return found


def main() -> int:
    """Say what stands in the way of a release."""
    source = (ROOT / "src" / "crossfade" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    assert match is not None
    git = ["git", "-C", str(ROOT), "tag", "--points-at", "HEAD"]
    tags = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split()
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "CITATION.cff")]
    found = faults(match[1], *texts, tags)
    print("\n".join(found) or f"{match[1]} can be released")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
