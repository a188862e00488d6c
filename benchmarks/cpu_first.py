"""First calls on a CPU, in a fresh process which the suites `cpu` and `slices` start.

    python -m benchmarks.cpu_first networks 1048576 '16-32-32-1 ReLU' '8-16-1 ReLU'
    python -m benchmarks.cpu_first slices standardize softmax

Prints JSON: of each the seconds of its first calls. Libraries are loaded by a call of something
else before. The folder of the cache comes from the environment.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator

from . import clocks, devices, runner

CALLS = 5
SHAPE = (1_000_000, 12)


def first_calls(*words: object) -> dict[str, dict[str, float]]:
    """Seconds of the first call with an empty cache, of that with what it left, of later ones."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for _ in range(2):
            lines, problem = runner.child("cpu_first", *words, timeout=90, XPAPPLY_CACHE_DIR=folder)
            if not lines:
                raise RuntimeError(problem)
            found.append(json.loads(lines[-1]))
    empty, kept = found
    return {
        name: {"first": empty[name][0], "disk": kept[name][0], "later": min(kept[name][1:])}
        for name in empty
    }


def networks(rows: str, *names: str) -> Iterator[tuple[str, clocks.Call]]:
    from . import cpu
    from . import networks as ways

    for net in (cpu.WARM, *map(ways.named, names)):
        yield net.name, ways.ours(ways.Case(net, int(rows), devices.Cpu()))


def slices(*names: str) -> Iterator[tuple[str, clocks.Call]]:
    from . import slices as ways

    warm = ways.Case(devices.Cpu(), "first", "plain z-score", SHAPE, 1)
    yield "", ways.of_arrays(ways.names.OURS, warm)
    for name in names:
        yield name, ways.of_slices(ways.Case(devices.Cpu(), "first", name, SHAPE, 1))


def main() -> None:
    kind, *words = sys.argv[1:]
    found = {}
    with runner.exact():
        for name, call in {"networks": networks, "slices": slices}[kind](*words):
            # what is compiled while other calls go on is there, and on disk, after a pause
            found[name] = clocks.in_turns({name: call}, CALLS, devices.Cpu().pause)[name]
    print(json.dumps(dict(list(found.items())[1:])))


if __name__ == "__main__":
    main()
