"""What runs a suite: its cases by its peers, in a time that is given, on disk at every moment."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from . import clocks, devices, pages

ROOT = Path(__file__).parents[1]
NO_TIME = "no time was left"


# --- cases and peers ------------------------------------------------------------------


@dataclass(frozen=True)
class Peer:
    """A way to compute something, and how to time it."""

    name: str
    build: Callable[[Any], Any]
    """Of a case: the call that is timed, or the call and a remark."""
    clock: str = "events"
    """Of a GPU: "events", "host" (own streams: a clock on the host around many calls); of any
    device "sample", for loops over a part."""
    context: Callable[[], Any] = nullcontext
    """Of the calls; the outermost is `exact`."""
    axis: int = -1
    """Where the outputs stand in the result."""
    turn: int = 0
    """On a CPU: libraries whose threads go on spinning for a while come after the others."""
    fits: Callable[[Any], bool] = lambda case: True
    """Whether there is such a way for a case, and time for it."""


class Case:
    """A function and its input on a device.

    Subclasses have the `name` and the device `on`; what is costly they make when it is first
    wanted.
    """

    name: str
    on: Any
    scale = 1.0
    """All slices for one of the sample."""
    wrong = float("inf")
    """An error of a result that no rounding explains."""
    patience = 1.0
    """Seconds on a CPU after which a call has been repeated often enough."""

    def sizes(self) -> set[int]:
        """Numbers of elements of what a call writes: made NaN before it. Makes the truth."""
        raise NotImplementedError

    def error(self, y: Any, peer: Peer) -> float:
        """Of a result of any library, relative to float64."""
        raise NotImplementedError

    def extra(self, call: clocks.Call, peer: Peer) -> dict[str, Any]:
        """What else is measured of a call."""
        return {}


@contextmanager
def exact() -> Iterator[None]:
    """No loops, and products as accurate as float32, in xpapply and in torch."""
    import xpapply

    with (
        xpapply.options(fallback="raise", precision="highest"),
        devices.torch_precision("highest"),
    ):
        yield


def compare(
    case: Case, peers: Sequence[Peer], repeats: int, batch: int = 0
) -> dict[str, dict[str, Any]]:
    """Check the result of each, then time it: on a CPU in turns. Why not, if it fails.

    With a `batch`, in turns on any device: so many calls by the clock of the host.
    """
    together = batch or case.on.in_turns
    found: dict[str, dict[str, Any]] = {peer.name: {} for peer in peers}
    calls: dict[Peer, clocks.Call] = {}
    with exact():
        for peer in peers:
            entry = found[peer.name]
            try:
                with peer.context(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    built = peer.build(case)
                    call, note = built if isinstance(built, tuple) else (built, "")
                    entry |= {"note": note} if note else {}
                    checked(call, case, peer, entry)
                    if together and peer.clock != "sample":
                        calls[peer] = call
                    else:
                        entry |= devices.CLOCKS[peer.clock](call, case.on, case.scale)
                    entry |= {} if batch else case.extra(call, peer)
            except Exception as problem:
                calls.pop(peer, None)
                entry["skipped"] = clocks.reason(problem)
        contexts = {peer.name: peer.context for peer in calls}
        n = batch or 1
        if batch:  # what is compiled while other calls go on is there now
            warm = {p.name: guarded(clocks.many(c, n), found[p.name]) for p, c in calls.items()}
            clocks.in_turns(warm, 1, case.on.pause, contexts=contexts)
        for turn in sorted({peer.turn for peer in calls}):
            group = {
                p.name: guarded(clocks.many(c, n), found[p.name])
                for p, c in calls.items()
                if p.turn == turn
            }
            pause, patience = case.on.pause, case.patience
            times = clocks.in_turns(group, repeats, pause, contexts=contexts, patience=patience)
            for name, seconds in times.items():
                found[name] |= clocks.summary([t / n for t in seconds])
    return found


def guarded(call: clocks.Call, entry: dict[str, Any]) -> clocks.Call:
    """What fails only now is not called again, and its entry says why."""

    def run() -> None:
        if "skipped" not in entry:
            try:
                call()
            except Exception as problem:
                entry["skipped"] = clocks.reason(problem)

    return run


def small(case: Case, peers: Sequence[Peer], repeats: int, batch: int) -> dict[str, dict[str, Any]]:
    """Microseconds of the host per call on a small case, the work of a GPU behind."""
    kinds = ("median", "min")
    return {
        name: entry if "skipped" in entry else {kind: 1e6 * entry[kind] for kind in kinds}
        for name, entry in compare(case, peers, repeats, batch).items()
    }


def checked(call: clocks.Call, case: Case, peer: Peer, entry: dict[str, Any]) -> None:
    """The first call: its time and its error. What it does not write is seen."""
    case.on.poison(case.sizes())
    start = time.perf_counter()
    y = call()
    devices.wait(y, case.on)
    entry["first"] = time.perf_counter() - start
    entry["error"] = case.error(y, peer)
    if not entry["error"] < case.wrong:
        raise ArithmeticError(f"a wrong result: error {entry['error']:.1e}")


# --- a run ----------------------------------------------------------------------------


class Run:
    """One run of a suite, or the rest of one: what is in `data` is not measured again."""

    def __init__(
        self, name: str, on: Any, args: Any, render: Callable[[Any], str], begin: float
    ) -> None:
        self.name, self.on, self.args, self.render, self.begin = name, on, args, render, begin
        self.quick: bool = args.quick
        self.data: dict[str, Any] = {}

    def left(self) -> float:
        return self.args.seconds - (time.perf_counter() - self.begin)

    def say(self, text: str) -> None:
        print(f"{time.perf_counter() - self.begin:6.1f} s  {text}", flush=True)

    def save(self) -> None:
        try:
            pages.save(self.name, self.data, self.render, self.args.out)
        except Exception as problem:
            self.say(f"the text: {clocks.reason(problem)}")

    def chosen(self, cases: Iterable[Any]) -> list[Any]:
        """Those whose names match `--only`."""
        return [case for case in cases if re.search(self.args.only, case.name)]

    def measure(
        self, case: Case, peers: Iterable[Peer], done: dict[str, Any], repeats: int = 0
    ) -> None:
        """All peers of a case that are missing in `done`."""
        none = {"skipped": NO_TIME}
        todo = [peer for peer in peers if peer.fits(case)]
        todo = [p for p in todo if done.get(p.name, none).get("skipped") == NO_TIME]
        for group in [todo] if self.on.in_turns else [[peer] for peer in todo]:
            if self.left() < 0:
                done |= {peer.name: none for peer in group}
                continue
            for name, entry in compare(case, group, repeats).items():
                done[name] = entry
                what = entry.get("skipped") or f"{pages.milli(entry['median'])} ms"
                self.say(f"{case.name}, {name}: {what}")
            self.save()
            self.next()

    def part(
        self, path: str, make: Callable[[], Any], line: Callable[[Any], str] | None = None
    ) -> None:
        """What stands in the data at `path`, such as ``small/len``, unless it was measured before.

        With a `line`, which puts it in a few words, it is an entry that says why it was not.
        """
        *outer, key = path.split("/")
        place = self.data
        for name in outer:
            place = place.setdefault(name, {})
        done = place.get(key)
        if done and not (line and done.get("skipped") == NO_TIME):
            return
        if self.left() < 0:
            place |= {key: {"skipped": NO_TIME}} if line else {}
            return
        try:
            place[key] = make()
            what = line(place[key]) if line else "measured"
        except Exception as problem:
            what = clocks.reason(problem)
            place |= {key: {"skipped": what}} if line else {}
        self.say(f"{', '.join([*outer, key])}: {what}")
        self.save()
        self.next()

    def next(self) -> None:
        """Go on; in a new process, if a kernel has made this one's device unusable."""
        self.on.free()
        if self.on.works() or self.args.out is None:
            return
        self.save()
        self.say("the device fails in this process: the rest in another one")
        args = self.args
        command = [sys.executable, "-m", "benchmarks", args.suite, "--resume"]
        command += ["--device", args.device, "--out", args.out, "--kernels", args.kernels]
        command += ["--seconds", self.left(), "--only", args.only]
        command += ["--dry"] * args.dry
        os.execv(sys.executable, [str(word) for word in command])


def child(module: str, *args: Any, timeout: float | None = None, **env: str) -> tuple[Any, str]:
    """Lines that a module of this package prints in a process of its own, and what failed."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *map(str, args)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            cwd=ROOT,
            env=os.environ | env,
        )
        out = done.stdout
        problem = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
    except subprocess.TimeoutExpired as late:
        out, problem = late.stdout or "", "it took too long"
        out = out.decode() if isinstance(out, bytes) else out
    return out.strip().splitlines(), problem


# --- where and with what --------------------------------------------------------------

DISTRIBUTIONS = (
    *("numpy", "scipy", "torch", "cupy", "cupy-cuda12x", "cupy-cuda13x", "jax", "jaxlib"),
    *("onnx", "onnxruntime", "onnxruntime-gpu", "triton", "scikit-learn", "llvmlite", "numba"),
    *("dask", "distributed", "xarray"),
)


def machine() -> dict[str, str]:
    """Processor and versions; nothing that names the machine or its user."""
    import xpapply

    # numbers of a busy machine are worth little
    load = f", load {os.getloadavg()[0]:.2f} at the start" if hasattr(os, "getloadavg") else ""
    found = {
        "date": datetime.date.today().isoformat(),
        "processor": f"{_processor()}, {cores()} cores usable{load}",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "xpapply": f"{xpapply.__version__}{_commit()}",
    }
    for name in DISTRIBUTIONS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    with contextlib.suppress(OSError):
        match = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.M)
        if match:
            return match[1].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    def git(*args: str) -> str:
        return subprocess.run(
            ["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "xpapply")
        return f" ({git('rev-parse', '--short', 'HEAD')}{', modified' if changed else ''})"
    except (OSError, subprocess.CalledProcessError):
        return ""
