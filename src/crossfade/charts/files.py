"""Charts as files' bytes."""

from __future__ import annotations

import io
import json
from typing import Any, Final

from crossfade._optional import import_optional
from crossfade.charts.theme import altair

#: What a chart can be written as.
ENDINGS: Final = ("png", "svg", "html", "json")


def check_available(ending: str = "png") -> None:
    """Raise a MissingExtraError where charts cannot be drawn, before hours of work."""
    altair()
    if ending not in ("png", "svg"):
        return
    import_optional("vl_convert", "pictures of charts")


def drawn(chart: Any, ending: str = "png", *, scale: float = 1.5) -> bytes:
    """Return a chart as the bytes of a file."""
    if ending == "json":
        return (json.dumps(chart.to_dict(), indent=2) + "\n").encode()
    if ending == "png":
        picture = io.BytesIO()
        chart.save(picture, format="png", scale_factor=scale)
        return picture.getvalue()
    page = io.StringIO()
    chart.save(page, format=ending)
    return page.getvalue().encode()
