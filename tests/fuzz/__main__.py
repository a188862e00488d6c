"""The command line of the generators: `python tests/fuzz --help`."""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # what the tests share, and this package by its name

import fuzz  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python tests/fuzz", description=fuzz.__doc__.split("\n")[0]
    )
    parser.add_argument("generator", choices=fuzz.names())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (default: 0)")
    parser.add_argument("--case", type=int, help="this one only")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin none after that long"
    )
    asked = parser.parse_args()
    cases = range(asked.first, asked.first + asked.cases)
    if asked.case is not None:
        cases = range(asked.case, asked.case + 1)
    start, ran, found = time.perf_counter(), 0, 0

    def in_time() -> Iterator[int]:
        nonlocal ran
        for ran, i in enumerate(cases, 1):  # noqa: B007
            yield i
            if time.perf_counter() - start > asked.seconds:
                return

    for i, text in fuzz.finds(asked.generator, asked.seed, in_time()):
        found += 1
        print(
            f"--- {asked.generator} --seed {asked.seed} --case {i}\n{text.rstrip()}\n", flush=True
        )
    report = getattr(importlib.import_module(f"fuzz.{asked.generator}"), "report", None)
    if report is not None:
        print(report())
    seconds = time.perf_counter() - start
    print(f"{asked.generator}, seed {asked.seed}: {ran} cases, {found} finds, {seconds:.0f} s")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
