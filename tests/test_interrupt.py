"""Ctrl-C: KeyboardInterrupt is there within a second, whatever runs.

Of the process's own time: on a busy machine a second of two threads may take long.
"""

import subprocess
import sys

import pytest

SETUP = """
import os, signal, sys, threading, time
import numpy as np
import xpapply
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
    return scipy.stats.theilslopes(v)[0]
call = lambda: xpapply.apply_along_axis(f, -1, arr[:, :8])
""",
    "calls slice by slice": """
import scipy.stats
def f(v):
    return scipy.stats.theilslopes(v)[0]
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
