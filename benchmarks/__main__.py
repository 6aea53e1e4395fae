"""Run the benchmarks: ``python -m benchmarks [--only TEXT] [--scale S] [--rounds R]``."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path

from benchmarks import comparison, coverage, in_use, scale, selection, strangers, text, unlabelled
from benchmarks.harness import Result, environment, markdown, measure, peak_memory
from benchmarks.store import say

#: Modules of this folder with a list CASES, in the order they run.
SUITES = ("classifiers", "words", "glm", "sequences", "crf", "curves")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name holds TEXT")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full row numbers")
    parser.add_argument("--rounds", type=int, default=5, help="times each contender runs")
    parser.add_argument("--no-memory", action="store_true", help="leave the memory runs out")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table there as well")
    parser.add_argument(
        "--sets",
        nargs="+",
        metavar="SET",
        help="data sets of --only compare, auto, text, shares: or sets:",
    )
    parser.add_argument("--check", action="store_true", help="fail when a goal is missed")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the chosen cases and print the table."""
    options = parse(arguments)
    results: list[Result] = []
    for suite in SUITES:
        for case in import_module(f"benchmarks.{suite}").CASES:
            if options.only.lower() not in case.name.lower():
                continue
            say(case.name)
            # Memory first: the child needs room for the data, which this process then makes.
            megabytes = None
            if case.memory_goal is not None and not options.no_memory:
                megabytes = peak_memory(suite, case.name, options.scale)
            timed = measure(case, options.scale, options.rounds, say)
            results.append(Result(case, timed.ours, timed.rivals, megabytes))
    parts = [environment()]
    if results:
        rows = "" if options.scale == 1.0 else f"; {options.scale:g} of the rows the names say"
        parts[0] += f"\nmedians of {options.rounds} rounds (smallest-largest), in turn{rows}"
        parts.append(markdown(results))
    if options.only.lower() in selection.TITLE:
        say(selection.TITLE)
        parts.append(selection.table(max(2, round(20 * min(options.scale, 1.0)))))
    if options.only.lower() in comparison.TITLE:
        say(comparison.TITLE)
        parts.append(comparison.table(options.sets or comparison.SETS, say=say))
    if options.only.lower() in comparison.FITS_TITLE:
        say(comparison.FITS_TITLE)
        parts.append(comparison.fits_table(options.sets or comparison.SETS, say=say))
    share = min(options.scale, 1.0)
    if options.only.lower() in in_use.SHARES_TITLE:
        say(in_use.SHARES_TITLE)
        n_splits = max(1, round(4 * share))
        parts.append(in_use.shares_table(n_splits, options.sets or in_use.SHARE_SETS, say))
        parts.append(in_use.level_table(max(10, round(200 * share))))
    if options.only.lower() in in_use.SETS_TITLE:
        say(in_use.SETS_TITLE)
        parts.append(in_use.sets_table(max(1, round(20 * share)), options.sets or in_use.SETS, say))
    if options.only.lower() in strangers.TITLE:
        say(strangers.TITLE)
        sets = options.sets or strangers.SETS
        parts.append(strangers.table(max(1, round(3 * share)), sets, say))
    if options.only.lower() in unlabelled.TITLE:
        say(unlabelled.TITLE)
        sets = options.sets or unlabelled.SETS
        parts.append(unlabelled.table(max(2, round(5 * share)), sets, say))
    if options.only.lower() in coverage.TITLE:
        say(coverage.TITLE)
        parts.append(coverage.table(max(8, round(400 * share)), say))
    if options.only.lower() in "stopping early":
        parts.append(comparison.stopping_table(max(20, round(500 * min(options.scale, 1.0)))))
    if options.only.lower() in text.TITLE:
        say(text.TITLE)
        n_splits = max(1, round(10 * min(options.scale, 1.0)))
        parts.append(text.table(n_splits, options.sets or text.SETS, say))
    for title, part in (
        (text.MIXED_TITLE, text.mixed_table),
        (text.PATTERNS_TITLE, text.patterns_table),
    ):
        if options.only.lower() in title:
            say(title)
            parts.append(part(max(1, round(10 * share)), say=say))
    if options.only.lower() in scale.TITLE:
        say(scale.TITLE)
        parts.append(scale.table(options.scale, say))
    whole = "\n\n".join(parts) + "\n"
    print(whole)
    if options.out is not None:
        options.out.write_text(whole, encoding="utf-8")
    return int(options.check and not all(result.reached for result in results))


if __name__ == "__main__":
    sys.exit(main())
