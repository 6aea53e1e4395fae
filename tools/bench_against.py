"""Time two commits in one run: ``python tools/bench_against.py REF [--only TEXT]``.

A process for each commit holds a case's data; the two run it in turn, round after round, so that
what the machine does meanwhile falls on both. Each uses the benchmarks of its own commit; cases of
the same name are compared. A ratio over 1 says that the working tree is faster than REF.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import subprocess
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]


def work(suite: str, name: str, scale: float) -> None:
    """Run one case as often as lines come in, and answer each with the seconds it took."""
    warnings.simplefilter("ignore")
    case = next(one for one in import_module(f"benchmarks.{suite}").CASES if one.name == name)
    case.ours(case.make(0.01 * scale))()
    call = case.ours(case.make(scale))
    call()
    print("ready", flush=True)
    for _ in sys.stdin:
        gc.collect()
        start = time.perf_counter()
        call()
        print(time.perf_counter() - start, flush=True)


class Worker:
    """One commit's process for one case."""

    def __init__(self, tree: Path, suite: str, name: str, scale: float) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), "--work", suite, name, str(scale)]
        self.seconds: list[float] = []
        self.process = subprocess.Popen(
            command,
            cwd=tree,
            env=environment(tree),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.answer()

    def answer(self) -> str:
        """Return the next line; the process has failed if there is none."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args}: ended with {self.process.wait()}")
        return line.strip()

    def run(self) -> None:
        """Run the case once."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.seconds.append(float(self.answer()))

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def environment(tree: Path) -> dict[str, str]:
    """Return the environment of a process that uses a tree's package and benchmarks."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(tree / "src"), str(tree)))}


def cases(tree: Path) -> dict[str, str]:
    """Return the suite of every case of a tree, by the case's name."""
    code = (
        "from importlib import import_module\n"
        "from benchmarks.__main__ import SUITES\n"
        "for suite in SUITES:\n"
        "    for case in getattr(import_module(f'benchmarks.{suite}'), 'CASES', ()):\n"
        "        print(suite, case.name, sep='\\t')\n"
    )
    listed = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tree,
        env=environment(tree),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return dict(reversed(line.split("\t")) for line in listed.splitlines())


def checked_out(ref: str) -> Path:
    """Return a folder under build/ that holds a commit."""
    git = ["git", "-C", str(ROOT)]
    full = [*git, "rev-parse", "--verify", f"{ref}^{{commit}}"]
    commit = subprocess.run(full, capture_output=True, text=True, check=True).stdout.strip()
    tree = ROOT / "build" / "against" / commit[:12]
    if not tree.exists():
        tree.mkdir(parents=True)
        archive = subprocess.run([*git, "archive", commit], capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)
    return tree


def main() -> int:
    """Compare the working tree with a commit and print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ref", help="the commit, branch or tag to compare with")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name holds TEXT")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full row numbers")
    parser.add_argument("--rounds", type=int, default=5, help="times each commit runs a case")
    parser.add_argument("--check", action="store_true", help="fail where it is 10 %% slower")
    options = parser.parse_args()
    there = checked_out(options.ref)
    before, now = cases(there), cases(ROOT)
    slower = []
    print(f"| case | {options.ref}, s | working tree, s | ratio |\n|---|---:|---:|---:|")
    for name in now:
        if name not in before or options.only.lower() not in name.lower():
            continue
        workers = [
            Worker(tree, suites[name], name, options.scale)
            for tree, suites in ((there, before), (ROOT, now))
        ]
        for _ in range(options.rounds):
            for worker in workers:
                worker.run()
        old, new = (statistics.median(worker.seconds) for worker in workers)
        for worker in workers:
            worker.close()
        spread = [f"{min(w.seconds):.3g}-{max(w.seconds):.3g}" for w in workers]
        ratio = old / new
        print(f"| {name} | {old:.3g} ({spread[0]}) | {new:.3g} ({spread[1]}) | {ratio:.2f} |")
        sys.stdout.flush()
        if ratio < 1 / 1.1:
            slower.append(name)
    for name in sorted(set(before) ^ set(now)):
        print(f"only in {'the working tree' if name in now else options.ref}: {name}")
    if slower:
        print(f"more than 10 % slower: {', '.join(slower)}")
    return bool(slower) and options.check


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        sys.path.insert(0, os.getcwd())
        work(sys.argv[2], sys.argv[3], float(sys.argv[4]))
    else:
        sys.exit(main())
