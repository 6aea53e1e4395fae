"""The page in a real browser: it opens from a file, asks for nothing, and moves with λ."""

from __future__ import annotations

import json
import re

import pytest

from tests.report.cases import HOSTILE, HOSTILE_CLASSES


@pytest.fixture(scope="module")
def html(page_of):
    return page_of("result")


@pytest.fixture
def wide(opened, html):
    """The page on a wide screen, as each test leaves it to the next; charts stay as drawn."""
    watched = opened(html, viewport={"width": 1600, "height": 900})
    watched.page.emulate_media(media="screen", color_scheme="light")
    return watched


@pytest.fixture
def hostile(opened, page_of):
    return opened(page_of("hostile_result"))


def weights_drawn(watched) -> dict[str, float]:
    """Return the weights that the bars stand for, as screen readers are told them."""
    labels = watched.page.eval_on_selector_all(
        "[data-chart=weights] .mark-rect path",
        "bars => bars.map(bar => bar.ariaLabel).filter(label => label)",
    )
    found = {}
    for label in labels:
        name, weight = label.rsplit(": ", 1)
        found[name] = float(weight.replace("−", "-"))
    return found


def test_it_opens_from_a_file_and_asks_for_nothing(wide):
    assert wide.said == []
    assert [url.split(":")[0] for url in wide.asked] == ["file"]
    assert wide.page.locator("[data-drawn] svg").count() == 14


def test_the_slider_moves_boundary_colours_and_bars_by_mouse_and_by_keys(wide, result):
    details = result.to_dict()["details"]
    watched = wide
    slider = watched.page.locator("#tradeoff")
    at_place = {}
    start = int(slider.input_value())
    slider.focus()
    for _ in range(start):
        watched.page.keyboard.press("ArrowLeft")
    assert slider.input_value() == "0"
    assert slider.get_attribute("aria-valuetext") == "λ = 1"
    watched.page.wait_for_timeout(300)
    at_place[0] = (watched.marks("view"), watched.marks("weights"), watched.marks("log_loss"))
    generative = weights_drawn(watched)
    box = slider.bounding_box()
    watched.page.mouse.click(box["x"] + box["width"] - 9, box["y"] + box["height"] / 2)
    assert slider.input_value() == "10"
    watched.page.wait_for_timeout(300)
    at_place[10] = (watched.marks("view"), watched.marks("weights"), watched.marks("log_loss"))
    discriminative = weights_drawn(watched)
    for before, after in zip(at_place[0], at_place[10], strict=True):
        assert before != after
    for group in ("mark-rule", "mark-rect"):  # the boundary, the posterior
        parts = [re.search(f'class="{group}.*?</g>', at_place[p][0], re.S)[0] for p in (0, 10)]
        assert parts[0] != parts[1]
    assert len(generative) == len(details["weights"]["bars"]) == 6
    for place, drawn in ((0, generative), (10, discriminative)):
        for bar, (weight,) in zip(
            details["weights"]["bars"], details["weights"]["path"][place], strict=True
        ):
            column = ["size", "length", "age", "colour", "ripe"][bar["column"]]
            name = column if bar["level"] is None else f"{column} = {bar['level']}"
            assert drawn[name] == pytest.approx(weight, abs=5.1e-4)
    assert watched.said == []


@pytest.mark.parametrize("width", [pytest.param(400, marks=pytest.mark.slow), 1600])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out_and_text_stands_out(opened, html, width, scheme):
    watched = opened(html, viewport={"width": width, "height": 900})
    watched.page.emulate_media(media="screen", color_scheme=scheme)
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
    ink, paper = watched.page.evaluate(
        "[getComputedStyle(document.documentElement).color,"
        " getComputedStyle(document.documentElement).backgroundColor]"
    )
    assert contrast(ink, paper) > 7
    soft = watched.page.evaluate("getComputedStyle(document.querySelector('.brand')).color")
    assert contrast(soft, paper) > 4.5
    wide = watched.page.eval_on_selector_all(
        "svg", "all => all.map(svg => svg.getBoundingClientRect().right)"
    )
    assert max(wide) <= width


def test_names_of_models_break_at_spaces_alone_and_the_best_nowhere(opened, html):
    cell = '<th scope="row" title="x" class="inside">discriminative'
    longest, n_best = re.subn(
        r'<th [^>]*>[^<]*( <span class="tag">best)', cell + r"\1", html, count=1
    )
    assert n_best == 1
    watched = opened(longest, viewport={"width": 800, "height": 900})
    lines = watched.page.eval_on_selector_all(
        ".models tbody th.inside",
        "all => all.map(th => { const name = document.createRange(); "
        "name.selectNodeContents(th.firstChild); return name.getClientRects().length; })",
    )
    assert set(lines) == {1}
    best = watched.page.locator("tr.best:has(th.inside) > th").bounding_box()["height"]
    assert (
        best <= watched.page.locator("tr.best:has(th.inside) > td").nth(1).bounding_box()["height"]
    )
    tag = watched.page.locator("tr.best:has(th.inside) .tag").bounding_box()
    assert tag["y"] < watched.page.locator("tr.best:has(th.inside) > th").bounding_box()["y"] + 20
    assert watched.page.evaluate("document.documentElement.scrollWidth") <= 800


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two CSS colours (WCAG 2, relative luminance)."""

    def luminance(colour: str) -> float:
        parts = [int(number) / 255 for number in re.findall(r"\d+", colour)[:3]]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_every_chart_says_what_it_shows_and_every_input_has_a_label(hostile):
    texts = hostile.page.eval_on_selector_all(
        "[data-chart] svg",
        "all => all.map(svg => svg.getAttribute('aria-label') ||"
        " svg.querySelector('[aria-label]')?.ariaLabel || svg.parentElement.ariaLabel || '')",
    )
    assert len(texts) == 11
    assert min(map(len, texts)) > 20
    unlabelled = hostile.page.eval_on_selector_all(
        "input, select", "all => all.filter(e => !e.labels.length).map(e => e.outerHTML)"
    )
    assert unlabelled == []


def test_hostile_names_are_only_text(hostile):
    watched = hostile
    assert watched.said == []
    assert [url.split(":")[0] for url in watched.asked] == ["file"]
    assert watched.page.title() == "Comparison of models · Crossfade"
    assert watched.page.locator("img, b[onclick]").count() == 0
    text = watched.page.locator("body").inner_text()
    for name in (*HOSTILE[:7], "🐙 emoji \\u202e turned", "(empty)", "line\\nbreak\\ttab"):
        assert name in text, name
    for name in HOSTILE_CLASSES:
        assert name in text, name
    chooser = watched.page.locator("#score")
    before = watched.marks("weights")
    chooser.select_option("2")
    watched.page.wait_for_timeout(300)
    assert watched.marks("weights") != before
    assert watched.said == []


@pytest.mark.slow
def test_a_notebook_shows_the_page_in_a_frame(opened, result):
    bundle = result._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/markdown", "text/html"}
    watched = opened(f"<!doctype html><title>notebook</title>{bundle['text/html']}")
    frame = watched.page.frames[1]
    n_charts = bundle["text/html"].count("data-chart=")
    assert n_charts > 10
    frame.locator("[data-drawn]").nth(n_charts - 1).wait_for(state="attached")
    assert frame.locator("h1").inner_text() == "Comparison of models"
    assert not [url for url in watched.asked if url.startswith("http")]
    assert watched.said == []


def test_paper_shows_light_colours_and_what_was_chosen_but_no_controls(wide):
    watched = wide
    watched.page.emulate_media(media="print", color_scheme="dark")
    paper = watched.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert paper == "rgb(255, 255, 255)"
    assert not watched.page.locator("#tradeoff").is_visible()
    assert not watched.page.locator("nav").is_visible()
    said = watched.page.locator("#tradeoff-now")
    assert said.is_visible()
    assert said.inner_text().startswith("λ = ")


def test_the_specifications_on_the_page_hold_the_numbers_of_the_dictionary(html, result):
    content = result.to_dict()
    specs = {
        name: json.loads(text)
        for name, text in re.findall(
            r'<script type="application/json" id="chart-(\w+)">(.*?)</script>', html, re.S
        )
    }

    def rows(name: str, key: str) -> list[dict]:
        (found,) = (rows for rows in specs[name]["datasets"].values() if key in rows[0])
        return found

    for row in rows("differences", "verdict"):
        model = next(m for m in content["models"] if m["name"] == row["model"])
        gap = model["difference_to_best"]["log_loss"] or {"mean": 0, "low": 0, "high": 0}
        assert [row[key] for key in ("mean", "low", "high")] == [
            gap[key] for key in ("mean", "low", "high")
        ]
    for row in rows("log_loss", "place"):
        path = content["details"]["path"]
        at = sorted(set(path["tradeoff"]), reverse=True)[int(row["place"])]
        here = [t == at for t in path["tradeoff"]]
        assert row["loss"] in [v for v, yes in zip(path["log_loss"], here, strict=True) if yes]
    for row in rows("reliability", "frequency"):
        found = content["details"]["calibration"][row["model"]]
        assert row["frequency"] in found["frequency"]
        assert row["mean"] in found["mean"]
    for row in rows("ends", "end"):
        assert [row["value"]] in content["details"]["weights"][row["end"]]["value"]
    curve = content["curve"]
    for row in rows("learning", "high"):
        place = curve["sizes"].index(row["size"])
        assert row["mean"] == curve["mean"][row["model"]]["log_loss"][place]
