"""Make the pictures of the page that the documentation shows.

``python tools/picture_report.py`` runs ``crossfade compare`` on a bundled data set, opens its page
in Chromium and writes docs/images/report.png (the top) and docs/images/tradeoff.png.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
COMMAND = ["compare", "breast-cancer", "--models", "nb,shared,svm,majority", "--splits", "10"]
WIDTH = 1000


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "report.html"
        command = [sys.executable, "-m", "crossfade", *COMMAND, "--out", str(page_file)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu"],
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto(page_file.as_uri())
        page.wait_for_function(
            "document.querySelectorAll('[data-chart]').length"
            " === document.querySelectorAll('[data-drawn]').length"
        )
        page.locator("#tradeoff").fill("7")
        page.wait_for_timeout(500)
        top = page.evaluate("document.getElementById('learning').offsetTop")
        page.screenshot(
            path=IMAGES / "report.png",
            full_page=True,
            clip={"x": 0, "y": 0, "width": WIDTH, "height": top},
        )
        top, height = (
            page.evaluate(f"document.getElementById('lambda').offset{edge}")
            for edge in ("Top", "Height")
        )
        page.screenshot(
            path=IMAGES / "tradeoff.png",
            full_page=True,
            clip={"x": 0, "y": top + 2, "width": WIDTH, "height": height},
        )
        browser.close()
    for image in ("report.png", "tradeoff.png"):
        print(f"{image}: {(IMAGES / image).stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
