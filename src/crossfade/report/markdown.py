"""A comparison as Markdown, for issues, notes and mails."""

from __future__ import annotations

from crossfade.evidence.comparison import Comparison
from crossfade.report.view import Around, ModelRow, model_table


def to_markdown(result: Comparison) -> str:
    """Return verdict and table of a comparison as Markdown."""
    models = model_table(result)
    said = enumerate(result.verdict_sentences, start=1)
    lines = [f"{number}. {escaped(text)}" for number, text in said]
    headings = ["model", "λ", *(f"{heading} ↓" for heading in models.headings.values())]
    headings += [f"{models.label} above the best, 95 % interval", "splits"]
    headings.append(f"fit, {models.unit} ↓")
    lines += ["", _row(headings), _row(["---"] + ["---:"] * (len(headings) - 1))]
    for row in models.rows:
        name = escaped(row.full_name)
        cells = [f"**{name}**" if row.best else name]
        cells.append(row.tradeoff.text if row.tradeoff else "")
        cells += [_plus(score) for score in row.scores.values()]
        cells.append(_gap(row))
        cells.append(row.splits.text)
        cells.append(row.seconds.text if row.seconds else "")
        lines.append(_row(cells))
    lines += [
        "",
        "≈ cannot be told apart from the best: the interval of the difference contains 0.",
    ]
    lines += ["", *(f"- {escaped(note)}" for note in result.notes)]
    return "\n".join(lines).rstrip() + "\n"


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is, on one line."""
    marks = "\\`*_{}[]<>()#+!|~&$"
    line = "".join(" " if not c.isprintable() else c for c in text)
    return "".join(f"\\{c}" if c in marks else c for c in line)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plus(found: Around | None) -> str:
    if found is None:
        return ""
    error = found.standard_error
    return f"{found.mean.text} ± {error.text}" if error else found.mean.text


def _gap(row: ModelRow) -> str:
    if row.failure is not None:
        return f"failed: {escaped(row.failure)}"
    if row.gap is None:
        return "the best" if row.best else ""
    gap = row.gap
    if gap.low is None or gap.high is None:
        return gap.mean.text
    interval = f"{gap.mean.text} ({gap.low.text} to {gap.high.text})"
    return f"≈ {interval}" if row.tied else interval
