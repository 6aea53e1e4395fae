"""Formulas become MathML while the pages are built, so that no page fetches a script to show them.

``$…$`` is a formula in the line, ``$$ … $$`` between other lines a displayed one; code is left
alone.
"""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

# Code first: what stands in it is not a formula.
_TOKEN = re.compile(
    r"(?P<code>^```.*?^```$|`[^`\n]+`)"
    r"|^\$\$\s*(?P<block>.*?)\s*\$\$$"
    r"|(?<![\\$])\$(?P<inline>[^\s$](?:[^$\n]*[^\s$])?)\$",
    re.MULTILINE | re.DOTALL,
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the formulas of a page."""

    def formula(match: re.Match[str]) -> str:
        if match["code"]:
            return match[0]
        if match["block"]:
            return f'<div class="formula">{convert(match["block"], display="block")}</div>'
        # Markdown ends a paragraph at a line that begins with <math>, not at one with <span>.
        return f"<span>{convert(match['inline'])}</span>"

    return _TOKEN.sub(formula, markdown)
