"""Measure one case's peak memory: run as ``python -m benchmarks.memory SUITE CASE SCALE``.

It runs in a process of its own, since a peak is never unlearnt by the process that had it.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from pathlib import Path


def peak() -> float:
    """Return this process's peak resident memory so far, in megabytes.

    On Linux from the process's own record: ``ru_maxrss`` of a fresh process starts from its
    parent's peak there.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return float(line.split()[1]) / 1024
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def forget_peak() -> None:
    """Let the peak start anew from what is resident now, where the system can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    except OSError:
        return


def main(suite: str, name: str, scale: float) -> float:
    """Return by how many megabytes the peak grows while the case's own call runs."""
    cases = {case.name: case for case in import_module(f"benchmarks.{suite}").CASES}
    case = cases[name]
    case.ours(case.make(0.01 * scale))()
    call = case.ours(case.make(scale))
    gc.collect()
    forget_peak()  # making the data may have taken more than the call will
    before = peak()
    result = call()
    after = peak()
    del result
    return after - before


if __name__ == "__main__":
    print(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
