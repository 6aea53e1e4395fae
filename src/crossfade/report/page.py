"""The page as one HTML file that needs nothing but a browser."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from crossfade._checks import check_choice
from crossfade._optional import import_optional
from crossfade.charts.theme import DARK, LIGHT, STYLE_SHEET, Colours, altair, themed
from crossfade.errors import DataError
from crossfade.evidence.comparison import Comparison, TableOrigin
from crossfade.report.figures import CHARTS, Figures
from crossfade.report.view import FILTERS, model_table, sections


def render_page(
    result: Comparison,
    table: TableOrigin | None = None,
    *,
    command: str | None = None,
    controls: Mapping[str, Any] | None = None,
) -> str:
    """Return a comparison as one self-contained HTML page.

    No script but the page's own may run (a Content-Security-Policy names it by its hash), so that
    names in the data are text whatever they hold.
    """
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    figures = Figures(result, STYLE_SHEET, slider="#tradeoff", chooser="#score")
    specs = {name: _specification(chart) for name, chart in _drawn(figures)}
    return (
        _environment()
        .get_template("page.html")
        .render(
            sections(result, table, command) | _look(),
            start=figures.start,
            places=figures.places,
            specs=specs,
            script=script,
            script_hash=digest,
            controls=controls,
        )
    )


def render_message(
    heading: str,
    text: str,
    progress: tuple[int, int] | None = None,
    so_far: Comparison | None = None,
) -> str:
    """Return a page that says something, with the table of a comparison under way if given."""
    models = None if so_far is None else model_table(so_far)
    page: str = (
        _environment()
        .get_template("message.html")
        .render(_look(), heading=heading, text=text, progress=progress, models=models)
    )
    return page


def in_frame(page: str) -> str:
    """Return HTML that shows a page inside another one, neither touching the other's styles."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="Crossfade" '
        'style="width: 100%; height: 720px; border: 0; border-radius: 6px"></iframe>'
    )


def draw(result: Comparison, name: str, colours: Colours = LIGHT) -> Any:
    """Return one chart of a comparison."""
    check_choice("chart", name, CHARTS)
    chart = CHARTS[name](Figures(result, colours))
    if chart is None:
        possible = ", ".join(known for known, _ in _drawn(Figures(result, colours)))
        raise DataError(
            f"chart: expected one that this comparison has data for, got {name!r}; "
            f"there are {possible or 'none'}"
        )
    # Each of several has a width of its own.
    several = isinstance(chart, (altair().FacetChart, altair().ConcatChart))
    return themed(chart if several else chart.properties(width=560), colours)


def _drawn(figures: Figures) -> list[tuple[str, Any]]:
    charts = [(name, make(figures)) for name, make in CHARTS.items()]
    return [(name, chart) for name, chart in charts if chart is not None]


def _specification(chart: Any) -> dict[str, Any]:
    specification: dict[str, Any] = themed(chart, STYLE_SHEET).to_dict()
    data = specification.get("datasets", {})
    return specification | {"datasets": {name: json.loads(rows) for name, rows in data.items()}}


def _text(name: str) -> str:
    return resources.files("crossfade.report").joinpath(name).read_text(encoding="utf-8")


def _look() -> dict[str, str]:
    return {"style": _text("page.css"), "light": _variables(LIGHT), "dark": _variables(DARK)}


def _variables(colours: Colours) -> str:
    """Return the colours as custom properties of a style sheet."""
    names = ("paper", "ink", "soft", "faint", "generative", "discriminative")
    pairs = [(name, getattr(colours, name)) for name in names]
    pairs += [(f"class-{number}", hue) for number, hue in enumerate(colours.classes)]
    return " ".join(f"--{name}: {hue};" for name, hue in pairs)


def check_installed() -> None:
    """Raise a MissingExtraError where a page cannot be made, before hours of work and not after."""
    altair()
    _script()
    _environment()


@cache
def _script() -> str:
    """Return the libraries that draw charts, and the few lines that start them."""
    bundle: str = import_optional("vl_convert", "the page").javascript_bundle(_text("page.js"))
    # Inside <script> nothing is escaped: what would end it must not occur.
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


@cache
def _environment() -> Any:
    jinja2 = import_optional("jinja2", "the page")
    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(_text),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= FILTERS
    return found
