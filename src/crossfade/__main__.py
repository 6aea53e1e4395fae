"""``python -m crossfade`` is the command ``crossfade``."""

from __future__ import annotations

from crossfade.cli import main

if __name__ == "__main__":
    main()
