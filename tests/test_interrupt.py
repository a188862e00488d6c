"""Ctrl-C: KeyboardInterrupt is there within a second, whatever runs.

Of the process's own time: on a busy machine a second of two threads may take long.
"""

import importlib
import math
import signal
import subprocess
import sys

import numpy as np
import pytest

import xpapply
from xpapply.functions import cache
from xpapply.limits import LIMITS

SETUP = """
import os, signal, sys, threading, time
import numpy as np
import xpapply
from xpapply.functions import cache
from xpapply.limits import LIMITS

LIMITS.given_up_from, LIMITS.paths_at_least = 1e9, 60.0
arr = np.random.default_rng(0).random((200_000, 60))
sent = []

def interrupt(signum, frame):
    raise KeyboardInterrupt

def send():
    sent.append(time.process_time())
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, interrupt)
"""

CALLS = {
    "calls slice by slice, in threads": """
import scipy.stats
def f(v):
    return scipy.stats.siegelslopes(v)[0]
call = lambda: xpapply.apply_along_axis(f, -1, arr[:, :8])
""",
    "calls slice by slice": """
import scipy.stats
def f(v):
    return scipy.stats.siegelslopes(v)[0]
def call():
    with xpapply.options(threads=1):
        xpapply.apply_along_axis(f, -1, arr)
""",
    "blocks": """
def f(v):
    for k in range(40):
        v = np.sort(np.sin(v))
    return v[0]
call = lambda: xpapply.apply_along_axis(f, -1, arr)
""",
    "a compiled loop, in threads": """
def f(v):
    s = 0.0
    for x in v:
        while x < 1000.0:
            x = x * 1.01 + 1e-6
            s += 1.0 if x > 0.5 else 0.25
    return s
call = lambda: [xpapply.apply_along_axis(f, -1, arr) for _ in range(50)]
""",
    "a compiled loop": """
def f(v):
    s = 0.0
    for x in v:
        while x < 1000.0:
            x = x * 1.01 + 1e-6
            s += 1.0 if x > 0.5 else 0.25
    return s
def call():
    with xpapply.options(threads=1):
        for _ in range(50):
            xpapply.apply_along_axis(f, -1, arr)
""",
    "a network": """
net = xpapply.MLP([np.ones((2000, 60)), np.ones((2000, 2000)), np.ones((1, 2000))])
call = lambda: xpapply.apply_along_axis(net, -1, arr)
""",
    "the loop": """
def f(v):
    return len(str(v))
call = lambda: xpapply.apply_along_axis(f, -1, arr)
""",
}

RUN = """
threading.Timer(1.5, send).start()
try:
    with xpapply.options(threads=2, fallback="silent"):
        call()
    print("done")
except KeyboardInterrupt:
    print(time.process_time() - sent[0])
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="other signals")
@pytest.mark.parametrize("name", CALLS)
def test_interrupt(name):
    if "scipy" in CALLS[name]:
        pytest.importorskip("scipy")
    ran = subprocess.run(
        [sys.executable, "-c", SETUP + CALLS[name] + RUN],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout != "done\n", "too fast to be interrupted"
    assert float(ran.stdout) < 2


class TooLate(Exception):
    """What a handler of a time limit raises, as a rule: no KeyboardInterrupt."""


class Limit:
    """A handler that is an object."""

    def __call__(self, number, frame):
        raise TooLate

    method = __call__


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="other signals")
@pytest.mark.parametrize("handler", [Limit(), Limit().method], ids=["object", "method"])
@pytest.mark.parametrize(
    ("module", "name", "worth"),
    [
        ("planning.python.typed_results", "made", 0.0),
        ("frontends.python.source.typed", "flow_of", 0.0),
        ("frontends.python.sandbox.tracing", "silent", math.inf),
        ("frontends.python.trace.recorder", "Recorder.call", math.inf),
        ("frontends.python.run.executor", "Executor._invoke", math.inf),
    ],
)
@pytest.mark.usefixtures("plan_always")
def test_limits_of_time(monkeypatch, module, name, worth, handler):
    """What plans takes an exception of a handler neither for its own fault nor for one of `f`."""
    if "typed" in module or "source" in module:
        pytest.importorskip("llvmlite")
    owner = importlib.import_module(f"xpapply.{module}")
    *classes, name = name.split(".")
    owner = getattr(owner, classes[0]) if classes else owner
    call = getattr(owner, name)

    def late(*args, **kwargs):
        signal.raise_signal(signal.SIGUSR1)
        return call(*args, **kwargs)

    def f(v):
        s = 0.0
        for x in v:
            s = 0.5 * s + np.sin(x)
        return s

    cache.clear()  # of a function with this code it may be known what its loop takes
    x = np.random.default_rng(0).random((200, 6))
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with monkeypatch.context() as patch, LIMITS.set(typed_worth=worth, raised_faults=0):
            patch.setattr(owner, name, late)
            with pytest.raises(TooLate):
                xpapply.apply_along_axis(f, -1, x)
    finally:
        signal.signal(signal.SIGUSR1, before)
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, -1, x), np.apply_along_axis(f, -1, x))
