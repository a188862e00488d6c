"""Two runs of the command line at a time, on one output or two of one store; some are killed.

A run that ends with 0 has written its results, whole. One that ends otherwise has said why. A run
that was killed leaves what ``--resume`` goes on with, or what a new run replaces.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import os
import random
import signal
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("click")
pytest.importorskip("nibabel")
from click.testing import CliRunner

from xpapply.cli import files
from xpapply.cli.app import commands

FORKS = True
FORK = multiprocessing.get_context("fork")
MODELS = """
import time
def f0(v):
    time.sleep(NAP)
    return v.sum()
def f1(v):
    time.sleep(NAP)
    return v.max() * 2
"""
WANTED = {"f0": lambda x: x.sum(-1), "f1": lambda x: x.max(-1) * 2}
SAID = (
    *("another run is writing", "exists: say --overwrite", "there is no", "is of another run"),
    *("was cut or changed", "has to be computed at once"),
)
"""What a run may say that does not run: of the lock, of the output, of what is left, of memory."""
NAMES = ("o.npy", "o.nii", "o.nii.gz", "o.tif", "o.zarr", "g.zarr/a", "g.zarr/sub/a")


def _child(given: list[str], delay: float, told: str) -> None:
    time.sleep(delay)
    try:
        found = CliRunner().invoke(commands, ["run", *given])
        text = found.output
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            text += "".join(traceback.format_exception(found.exception))
        Path(told).write_text(text)
        os._exit(found.exit_code)
    except BaseException:
        Path(told).write_text(traceback.format_exc())
        os._exit(99)


def _both(runs: list[tuple[list[str], float, float | None]]) -> list[tuple[int, str]]:
    """How runs end that begin after a delay and are killed after another, and what they say."""
    processes = []
    for k, (given, delay, _) in enumerate(runs):
        processes.append(FORK.Process(target=_child, args=(given, delay, f"told{k}")))
        processes[-1].start()
    begun = time.perf_counter()
    for process, (_, _, killed) in sorted(
        zip(processes, runs, strict=True), key=lambda pair: pair[1][2] or 0
    ):
        if killed is not None:
            time.sleep(max(0.0, killed - (time.perf_counter() - begun)))
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
    ended = []
    for k, process in enumerate(processes):
        process.join(60)
        if process.is_alive():
            process.kill()
            process.join()
            ended.append((98, "it hangs"))
            continue
        told = Path(f"told{k}")
        ended.append((process.exitcode or 0, told.read_text() if told.exists() else ""))
        told.unlink(missing_ok=True)
    return ended


def _result(name: str) -> np.ndarray | None:
    if not Path(name).exists():
        return None
    image = files.read(name)
    found = np.array(image.array[...])
    image.close()
    return found


def _wrong(
    runs: list[Any], ended: list[tuple[int, str]], x: np.ndarray, outputs: list[str]
) -> str | None:
    """What is not as promised."""
    for (given, *_), (code, text) in zip(runs, ended, strict=True):
        words = " ".join(text.split())
        if code not in (0, -signal.SIGKILL) and not any(said in words for said in SAID):
            return f"{given} ended with {code}: {text}"
    for output in set(outputs):
        mine = [k for k, name in enumerate(outputs) if name == output]
        wrote = [k for k in mine if ended[k][0] == 0]
        maybe = [k for k in mine if ended[k][0] in (0, -signal.SIGKILL)]
        found = _result(output)
        if found is None:
            if wrote:
                return f"{output} is not there"
            continue
        wanted = [WANTED[runs[k][0][0].partition(":")[2]](x) for k in maybe]
        if not any(np.array_equal(found.reshape(y.shape), y) for y in wanted):
            return f"{output} is of none of the runs that ended well"
    if all(code == 0 or code > 0 for code, _ in ended):
        left = [p for p in Path().rglob("*") if p.name.endswith((".lock", ".part", ".unfinished"))]
        if left:
            return f"left: {left}"
    return None


def _after(runs: list[Any], ended: list[tuple[int, str]], x: np.ndarray) -> str | None:
    """What is wrong with a run after all others: with --resume, where there is something left."""
    given = next((run[0] for run, end in zip(runs, ended, strict=True) if end[0] < 0), None)
    if given is None:
        return None
    given = [word for word in given if word not in ("--resume", "--overwrite")]
    output = given[given.index("-o") + 1]
    for more in (["--resume"], ["--overwrite"]):
        words = [*given, *more]
        ((code, text),) = _both([(words, 0.0, None)])
        if code == 0:
            found, wanted = _result(output), WANTED[given[0].partition(":")[2]](x)
            if found is None or not np.array_equal(found.reshape(wanted.shape), wanted):
                return f"{words} has written something else"
            return None
        said = " ".join(text.split())
        if more == ["--overwrite"] or not any(why in said for why in SAID):
            return f"{words} ended with {code}: {text}"
    return None


def case(r: random.Random) -> str | None:
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return _case(r)
        finally:
            os.chdir(here)


@functools.cache
def _load() -> None:
    """Load what runs need in this process: those that are forked from it begin at once."""
    for name in ("tifffile", "zarr"):
        importlib.import_module(name)
    np.save("in.npy", np.zeros((2, 3)))
    Path("mine.py").write_text(MODELS.replace("NAP", "0"))
    for output in NAMES[:4]:
        CliRunner().invoke(commands, ["run", "mine.py:f0", "in.npy", "-o", output])
        Path(output).unlink(missing_ok=True)


def _case(r: random.Random) -> str | None:
    _load()
    rng = np.random.default_rng(r.randrange(2**32))
    slices = r.choice([4, 20, 60])
    x = rng.integers(0, 1000, (slices, 3, 2, 4)).astype("f8")
    np.save("in.npy", x)
    nap = r.choice([0.0, 1e-5, 1e-4])
    Path("mine.py").write_text(MODELS.replace("NAP", str(nap)))
    first = r.choice(NAMES)
    other = first
    if first.startswith("g.zarr") and r.random() < 0.5:
        other = r.choice(["g.zarr/b", "g.zarr/sub/b"])
    runs: list[tuple[list[str], float, float | None]] = []
    for output in (first, other):
        model = r.choice(["f0", "f0", "f1"])
        given = [f"mine.py:{model}", "in.npy", "-o", output, "--memory", r.choice(["1 kB", "9 kB"])]
        given += r.choice([[], [], ["--overwrite"], ["--resume"]])
        delay = r.choice([0.0, 0.0, r.random() * 0.05])
        killed = r.random() * 0.15 if r.random() < 0.3 else None
        runs.append((given, delay, killed))
    ended = _both(runs)
    why = _wrong(runs, ended, x, [first, other]) or _after(runs, ended, x)
    if why is None:
        return None
    told = "\n".join(f"{run}: {end}" for run, end in zip(runs, ended, strict=True))
    return f"{x.shape}, nap {nap}\n{told}\n{why}"
