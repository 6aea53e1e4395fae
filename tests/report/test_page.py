"""The page without a browser: every figure is one of the dictionary, and names are escaped."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import vl_convert
from sklearn.dummy import DummyClassifier
from sklearn.naive_bayes import GaussianNB

from crossfade import NaiveBayes, compare
from crossfade.charts.theme import labels, shown, themed
from crossfade.charts.tradeoff import weight_ends, weight_path
from crossfade.cli import main
from crossfade.errors import DataError
from crossfade.evidence.comparison import TableOrigin
from crossfade.report.figures import CHARTS
from crossfade.report.markdown import to_markdown
from crossfade.report.page import draw, render_message, render_page
from crossfade.report.surfaces import boundary_lines, posterior_cells
from crossfade.report.view import sections
from tests.report.cases import HOSTILE


class Figures(HTMLParser):
    """Collects the page's figures: (value, text) of every <data>."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._inside = False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag == "data":
            self.found.append((dict(attrs)["value"], ""))
            self._inside = True

    def handle_endtag(self, tag):
        self._inside = self._inside and tag != "data"

    def handle_data(self, data):
        if self._inside:
            value, text = self.found[-1]
            self.found[-1] = (value, text + data)


def numbers(content) -> set[float]:
    if isinstance(content, dict):
        return set().union(*map(numbers, content.values()), set())
    if isinstance(content, list):
        return set().union(*map(numbers, content), set())
    return {content} if isinstance(content, (int, float)) else set()


@pytest.mark.parametrize("which", ["result", "hostile_result", "text_result"])
def test_every_figure_on_the_page_is_one_of_the_dictionary_rounded(which, request, page_of):
    known = numbers(json.loads(json.dumps(request.getfixturevalue(which).to_dict())))
    found = Figures(page_of(which)).found
    assert len(found) > 60
    for value, text in found:
        number = float(value)
        assert number in known
        digits = text.replace(",", "").removesuffix(" %")
        places = len(digits.partition(".")[2])
        if "e" in digits:
            continue
        scales = (1.0, 100.0, 1000.0)  # as it is, in per cent, in milliseconds
        assert any(abs(float(digits) - s * number) <= 0.5001 * 10.0**-places for s in scales)


@pytest.mark.parametrize("which", ["result", "hostile_result", "text_result"])
def test_every_section_but_the_first_is_one_of_the_links(which, page_of):
    page = page_of(which)
    links = page.partition("<nav")[2].partition("</nav>")[0]
    found = re.findall(r'<section id="(\w+)"', page)
    assert ["verdict", *re.findall(r'href="#(\w+)"', links)] == found


def test_the_commands_that_the_page_names_are_there(page_of, capsys):
    page = unescape(page_of("result"))
    named = re.findall(r"<code>crossfade (\w+)([^<]*)</code>(?:, or <code>(--[^<]*)</code>)?", page)
    assert {"fit", "explain", "predict"} <= {name for name, *_ in named}
    for name, *more in named:
        with pytest.raises(SystemExit, match=r"^0$"):
            main([name, "--help"])
        said = capsys.readouterr().out
        assert all(option in said for option in re.findall(r"--[\w-]+", " ".join(more)))


def test_words_are_told_by_class_with_their_column_and_are_text_whatever_they_hold(
    text_result, page_of
):
    page, words = page_of("text_result"), text_result.details.words
    assert {one.label for one in words} == set(text_result.data.classes)
    assert {one.column for one in words} == {"said", "title"}
    top = {
        label: next(one.word for one in words if one.label == label)
        for label in text_result.data.classes
    }
    assert set(top.values()) <= {"one", "two", "three", "one for", "two for", "three for"}
    section = page.partition('<section id="words"')[2].partition("</section>")[0]
    assert section.count("<table") == 3
    assert section.count("<bdi>") == len(words)
    assert "<b>" not in section


def test_the_page_has_the_same_size_whatever_the_rows_and_says_what_is_a_sample(result):
    assert len(result.details.view.points) <= 400
    page = replace(result, data=replace(result.data, n_rows=1_000_000)).to_html()
    assert 900_000 < len(page.encode()) < 2_000_000
    said = 'come from a stratified sample of <data value="160">160</data> rows'
    assert page.count(said) == 1
    assert page.count(said.removeprefix("come from ")) == 2


def test_the_page_tells_the_density_that_was_chosen_and_the_evidence_for_it():
    rng = np.random.default_rng(0)
    n = 300
    y = rng.integers(2, size=n)
    frame = pl.DataFrame(
        {
            "code": 2 * rng.integers(2, size=n) + (rng.random(n) < 0.3 + 0.4 * y),
            "size": rng.normal(size=n) + y,
            "given": rng.integers(2, size=n),
            "visits": rng.poisson(1 + y),
            "nothing": pl.Series([None] * n, dtype=pl.Float64),
        }
    )
    model = NaiveBayes({"given": "gaussian"})
    models = {"own": model, "guess": DummyClassifier(strategy="prior")}
    result = compare(frame, y, models=models, n_splits=2)
    data = result.to_dict()["data"]
    report = model.fit(frame, y).density_report_
    assert data["column_densities"] == [one["density"] for one in report]
    assert data["density_reasons"] == [one["reason"] for one in report]
    rows = {row.name: row for row in sections(result)["columns"]}
    assert [row.reason for row in rows.values()] == data["density_reasons"]
    assert rows["code"].density == "categorical"
    assert rows["code"].reason.startswith("out-of-fold log-loss of the column alone: gaussian")
    assert rows["given"].density == "Gaussian"
    assert rows["given"].reason == "given"
    assert rows["size"].density == "Johnson's S_U"
    assert rows["size"].reason.startswith("out-of-fold log-loss of the column alone: johnson")
    assert "poisson 0." in rows["visits"].reason
    assert rows["nothing"].reason.startswith("no two rows with different values")
    assert rows["nothing"].missing == n


def test_it_is_safe_json_inside_html(hostile_result):
    page = render_page(hostile_result, TableOrigin(HOSTILE[1], HOSTILE[0], 0, ()))
    assert "<img src=x" not in page
    # One policy, one script that may run, the data, and nothing else.
    assert page.count("<script>") == 1
    assert page.count("<script") == 1 + page.count('<script type="application/json"')
    assert page.count("</script>") == page.count("<script")


def test_an_interrupted_run_still_has_a_page(result):
    stopped = replace(result, ended="keyboard", curve=None, ends=None, details=None)
    page = stopped.to_html()
    assert "stopped early" in page
    assert page.count("data-chart=") == 1 + bool(result.interactions)


def test_a_run_under_way_shows_the_table_so_far():
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.tile([0, 1], 20)
    models = {"<b>one</b>": GaussianNB(), "two": GaussianNB(var_smoothing=0.1)}
    pages = []

    def watch(status):
        if (found := status.partial()) is not None:
            steps = (status.done, status.total)
            pages.append((status.done, render_message("Now", status.doing, steps, found), found))

    compare(X, y, models=models, n_splits=3, evidence=False, watch=watch)
    for done, page, found in pages:
        assert "The table so far" in page
        assert "<b>one</b>" not in page
        assert "None" not in page
        assert "nan" not in page
        assert {float(value) for value, _ in Figures(page).found} <= numbers(found.to_dict())
        # One split has no spread.
        assert ("±" in page) == (done > 2)


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_is_drawn_by_itself(result, name):
    import vl_convert

    specification = result.plot(name).to_dict()
    svg = vl_convert.vegalite_to_svg(specification)
    assert svg.count("<path") > 3
    assert specification["config"]["background"] == "#ffffff"
    for control in (one for one in specification.get("params", []) if "bind" in one):
        bind = control["bind"]
        assert control["value"] in bind.get(
            "options", [str(k) for k in range(bind.get("max", -1) + 1)]
        )


def test_a_chart_that_is_not_there_is_refused_by_name(result, hostile_result):
    with pytest.raises(DataError, match=r"chart: expected one of 'differences', .* 'pie'"):
        result.plot("pie")
    with pytest.raises(DataError, match="one that this comparison has data for, got 'roc'; there"):
        draw(hostile_result, "roc")


def test_cells_hold_the_most_probable_class_and_its_posterior():
    rng = np.random.default_rng(0)
    surfaces = rng.normal(size=(2, 6, 3))
    low, high = np.array([-1.0, -2.0]), np.array([1.0, 3.0])
    for cell in posterior_cells(surfaces, low, high)[::97]:
        u, v = (cell["x"] + cell["x2"]) / 2, (cell["y"] + cell["y2"]) / 2
        for place in (0, 1):
            scores = np.array([1, u, v, u * u, u * v, v * v]) @ surfaces[place]
            posterior = np.exp(scores) / np.exp(scores).sum()
            assert cell["k"][place] == posterior.argmax()
            assert cell["p"][place] == pytest.approx(posterior.max(), abs=2e-3)


def test_boundaries_run_where_two_classes_are_equally_probable():
    # s_0 - s_1 = u² + v² - 1: the unit circle.
    surfaces = np.zeros((1, 6, 2))
    surfaces[0, :, 0] = [-1, 0, 0, 1, 0, 1]
    lines = boundary_lines(surfaces, np.array([-2.0, -2.0]), np.array([2.0, 2.0]))
    ends = np.array([[line["x"], line["y"]] for line in lines])
    np.testing.assert_allclose(np.hypot(*ends.T), 1.0, atol=5e-3)
    length = sum(np.hypot(a["x2"] - a["x"], a["y2"] - a["y"]) for a in lines)
    assert length == pytest.approx(2 * np.pi, rel=5e-3)


def test_three_classes_meet_in_a_point():
    surfaces = np.zeros((1, 6, 3))
    angles = 2 * np.pi * np.arange(3) / 3
    surfaces[0, 1], surfaces[0, 2] = np.cos(angles), np.sin(angles)
    lines = boundary_lines(surfaces, np.array([-1.0, -1.0]), np.array([1.0, 1.0]))
    nearest = min(np.hypot(line["x2"], line["y2"]) for line in lines)
    assert nearest < 0.03


def test_labels_differ_and_show_what_cannot_be_seen():
    names = ["x" * 99, "x" * 98, "", " ", "a\nb", "valueOf"]
    found = labels(names, 9)
    assert found[:5] == ["xxxxxxxx…", "xxxxxxxx… (2)", "(empty)", "(1 spaces)", "a\\nb"]
    assert found[5] == "valueOf\u200b"
    assert shown("\u202e") == "\\u202e"


def test_markdown_has_verdict_and_table(result, hostile_result):
    text = to_markdown(result)
    assert text.startswith("1. ")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 4  # three models, and their pool
    assert len({line.count("|") for line in rows}) == 1
    hostile = hostile_result.to_markdown()
    assert "<script" not in hostile.replace("\\<script", "")


def test_the_command_writes_page_and_json_with_the_same_numbers(tmp_path, capsys, monkeypatch):
    data = tmp_path / "small.csv"
    rng = np.random.default_rng(0)
    lines = [f"{x:.3f},{x + e:.3f},{'ab'[int(x > 0)]}" for x, e in rng.normal(size=(60, 2))]
    data.write_text("\n".join(["one,two,kind", *lines]) + "\n")
    page, numbers_file = tmp_path / "page.html", tmp_path / "numbers.json"
    command = ["compare", str(data), "--target", "kind", "--models", "nb:generative,majority"]
    command += ["--splits", "2", "--out", str(page), "--json", str(numbers_file)]
    monkeypatch.setattr("sys.argv", ["crossfade", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0, capsys.readouterr().err
    content = json.loads(numbers_file.read_text(encoding="utf-8"))
    html = page.read_text(encoding="utf-8")
    assert "<h1>small.csv</h1>" in html
    assert content["command"].startswith("crossfade compare ")
    assert {float(value) for value, _ in Figures(html).found} <= numbers(content)
    assert sorted(p.name for p in Path(tmp_path).iterdir()) == [
        "numbers.json",
        "page.html",
        "small.csv",
    ]


def test_one_huge_weight_does_not_squeeze_the_others_flat():
    names = [f"c{j}" for j in range(7)]
    small = [0.5, -1.0, 2.0, 0.2, -0.7, 1.5]

    def drawn(weights):
        ends = [
            {"name": n, "score": 0, "end": e, "value": w, "low": w - 0.1, "high": w + 0.1}
            for n, w in zip(names, weights, strict=True)
            for e in ("generative", "discriminative")
        ]
        path = [
            {"name": n, "score": 0, "w": [w, w / 2]} for n, w in zip(names, weights, strict=True)
        ]
        span = (min(weights), max(weights))
        charts = (
            weight_ends(ends, names, title="log-odds"),
            weight_path(path, names, span, title="log-odds", places=["1", "0"]),
        )
        specs = [themed(chart.properties(width=300)).to_dict() for chart in charts]
        text = json.dumps(specs)
        return specs, text

    specs, text = drawn([*small, 213.0])
    assert text.count("(logarithmic beyond \\u00b11)") == text.count('"symlog"') == 2
    assert '"values": [-1.0, 0.0, 1.0, 10.0, 100.0]' in text
    assert all(vl_convert.vegalite_to_svg(json.dumps(spec)).startswith("<svg") for spec in specs)
    for weights in ([*small, 20.0], [0.0] * 7):
        assert "symlog" not in drawn(weights)[1]
