"""Pages made once, and a real browser to open them in."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from tests.report import cases
from tests.support import choose_shortly

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def shortly(make: Callable[[], Any]) -> Any:
    """Make it as tests do, in a session's fixture too."""
    with pytest.MonkeyPatch.context() as patch:
        choose_shortly(patch)
        return make()


@pytest.fixture(scope="session")
def result() -> Any:
    return shortly(cases.two_classes)


@pytest.fixture(scope="session")
def hostile_result() -> Any:
    return shortly(cases.hostile)


@pytest.fixture(scope="session")
def text_result() -> Any:
    return shortly(cases.texts)


@pytest.fixture(scope="session")
def page_of(request: Any) -> Callable[[str], str]:
    """Return the page of a comparison, by the name of its fixture; each is made once."""

    @cache
    def page(which: str) -> str:
        return request.getfixturevalue(which).to_html()

    return page


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Debian's Chromium; tests that ask for it are skipped where it is not installed."""
    if CHROMIUM is None:
        pytest.skip("no chromium here; install it with: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=[
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ],
        )
        yield browser
        browser.close()


class Watched:
    """A page in the browser, with all that it said and asked for."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page = browser.new_page(**options)
        self.page.set_default_timeout(180_000)  # of a busy machine
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)
        self.page.wait_for_function(
            "document.querySelectorAll('[data-chart]').length"
            " === document.querySelectorAll('[data-drawn]').length"
        )

    def marks(self, chart: str) -> str:
        """Return what is drawn on a chart, as markup."""
        return self.page.locator(f"[data-chart={chart}] svg").inner_html()


@pytest.fixture(scope="module")
def opened(browser: Any, tmp_path_factory: Any) -> Iterator[Any]:
    """Open HTML as a file, once for all tests that say the same: ``opened(html, viewport=…)``."""
    folder = tmp_path_factory.mktemp("pages")
    pages: dict[Any, Watched] = {}

    def opens(html: str, **options: Any) -> Watched:
        key = html, repr(options)
        if key not in pages:
            file = folder / f"page-{len(pages)}.html"
            file.write_text(html, encoding="utf-8")
            pages[key] = Watched(browser, file.as_uri(), **options)
        return pages[key]

    yield opens
    for watched in pages.values():
        watched.page.close()
