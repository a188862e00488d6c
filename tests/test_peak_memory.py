"""What a call needs beside the array and the result: a block of fixed size, whatever runs.

Each workload runs in a process of its own, first on few slices, then on many. The second
call may raise the most memory that the process has had by the input, the output and
`EXTRA`. Everything at once would take several times as much.
"""

import os
import subprocess
import sys
import textwrap

import pytest

MB = 1 << 20
EXTRA = 160 * MB
"""Blocks of two threads, temporaries of library functions, what the allocator keeps."""

SETUP = """
import math
import resource
import numpy as np
import xpapply
from xpapply.limits import LIMITS

# what is measured is no matter of time
LIMITS.given_up_from, LIMITS.paths_at_least = 1e9, 60.0

resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))

def memory(what):
    for line in open("/proc/self/status"):
        if line.startswith(what):
            return 1024 * int(line.split()[1])

def forget():
    # from now on VmHWM is the most memory since then
    open("/proc/self/clear_refs", "w").write("5")

def slices(n, m, low=0.5, high=1.5):
    return np.random.default_rng(0).uniform(low, high, (n, m))

x, y = np.meshgrid(np.linspace(-1, 1, 128), np.linspace(-1, 1, 128))
"""

MEASURE = """
with xpapply.options(threads=2, fallback="raise"):
    xpapply.apply_along_axis(f, -1, arr[:2000 if len(arr) > 20000 else 64])
    forget()
    before = memory("VmRSS")
    out = xpapply.apply_along_axis(f, -1, arr)
    nbytes = math.prod(out.shape) * out.itemsize
    print(memory("VmHWM") - before - nbytes, xpapply.explain(f, -1, arr).engine)
"""

WORKLOADS = {
    "grids": """
        arr = slices(4000, 3)
        def f(v):
            return np.exp(-((x - v[0]) ** 2 + (y - v[1]) ** 2) / v[2]).max()
    """,
    "a product of all pairs": """
        arr = slices(2000, 300)
        def f(v):
            return np.abs(v[:, None] - v[None, :]).sum()
    """,
    "matrices": """
        arr = slices(20000, 64)
        def f(v):
            return np.linalg.det(np.outer(v, v) + np.eye(64))
    """,
    "a longer transform": """
        arr = slices(6000, 64)
        def f(v):
            return np.abs(np.fft.fft(v, 8192)).argmax()
    """,
    "a long kernel": """
        arr = slices(4000, 2000)
        kernel = np.ones(1000)
        def f(v):
            return np.convolve(v, kernel).max()
    """,
    "windows": """
        arr = slices(3000, 1500)
        def f(v):
            return v[np.arange(1450)[:, None] + np.arange(50)].std(axis=1).max()
    """,
    "histograms": """
        arr = slices(4000, 8000)
        def f(v):
            return np.histogram(v, 20, (0.0, 2.0))[0]
    """,
    "products over two axes": """
        arr = slices(20000, 64)
        weights = np.ones((64, 64))
        def f(v):
            return np.einsum("i,j,ij->ij", v, v, weights).max()
    """,
    "values of a mask": """
        arr = slices(4000, 8000)
        def f(v):
            w = v[v > 0.7] * 2
            return (w - w.mean()).max()
    """,
    "a rare branch that needs much": """
        arr = slices(200000, 16)
        def f(v):
            if v[0] > 1.4:
                return np.kron(np.outer(v, v), np.ones((6, 6))).sum()
            return v.sum()
    """,
    "iterations that end one after the other": """
        arr = slices(60000, 200)
        def f(v):
            w = v * 8
            while w.max() > 1:
                w = w * 0.93
            return w.min()
    """,
    "many steps": """
        arr = slices(10000, 1000)
        def f(v):
            w = v
            for k in range(60):
                w = w * 0.5 + k
            return w.max()
    """,
    "many values at the end": """
        arr = slices(4000, 1000)
        def f(v):
            parts = [v * k for k in range(40)]
            return np.concatenate(parts)[::1000]
    """,
    "an array that is filled": """
        arr = slices(40000, 4)
        def f(v):
            a = np.zeros(2000)
            for k in range(20):
                a[k] = v[0] * k
            return a.sum()
    """,
    "a table": """
        arr = slices(100000, 8, 0, 50)
        table = np.ones((50, 200))
        def f(v):
            return table[v.astype(int)].sum()
    """,
    "interpolation on a fine grid": """
        arr = slices(6000, 20)
        at, grid = np.arange(20.0), np.linspace(0, 19, 10000)
        def f(v):
            return np.interp(grid, at, v).max()
    """,
    "a fit and its values": """
        arr = slices(6000, 20)
        at, grid = np.arange(20.0), np.linspace(0, 19, 10000)
        def f(v):
            return np.polyval(np.polyfit(at, v, 2), grid).max()
    """,
    "percentiles": """
        arr = slices(4000, 8000)
        def f(v):
            return np.percentile(v, [5, 50, 95])
    """,
    "long slices": """
        arr = slices(20, 1_200_000)
        def f(v):
            return ((v - v.mean()) / v.std()).max()
    """,
    "exceptions": """
        arr = slices(20000, 300)
        arr[::999] = 0
        def f(v):
            try:
                return np.linalg.inv(np.diag(v[:60])).sum()
            except np.linalg.LinAlgError:
                return -1.0
    """,
    "small dtypes": """
        arr = (slices(4000, 30000) * 100).astype(np.uint8)
        def f(v):
            return np.cumsum(v / 3.0).max()
    """,
    "filters of SciPy": """
        import scipy.signal
        arr = slices(8000, 4000)
        def f(v):
            return scipy.signal.savgol_filter(v, 11, 2).max()
    """,
    "statistics of SciPy": """
        import scipy.stats
        arr = slices(8000, 4000)
        def f(v):
            return scipy.stats.skew(v) + scipy.stats.kurtosis(v)
    """,
    "a network": """
        arr = slices(200000, 16).astype(np.float32)
        f = xpapply.MLP([np.ones((512, 16), np.float32), np.ones((1, 512), np.float32)])
    """,
    "a network by the array API": """
        arr = slices(200000, 16).astype(np.float32)
        f = xpapply.MLP([np.ones((512, 16), np.float32), np.ones((1, 512), np.float32)])
        MEASURE = MEASURE.replace("threads=2", "engine='array_api'")
    """,
    "a network inside a function": """
        arr = slices(40000, 16).astype(np.float32)
        net = xpapply.MLP([np.ones((2000, 16), np.float32)])
        def f(v):
            return net(v * 2).max()
    """,
    "a network of torch": """
        import torch
        arr = slices(200000, 16).astype(np.float32)
        f = torch.nn.Sequential(
            torch.nn.Linear(16, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1)
        ).eval()
    """,
    "a function of tensors": """
        import torch
        arr = torch.from_numpy(slices(40000, 100))
        def f(v):
            if v[0] > 1:
                return v.sum()
            return (v[:, None] * v[None, :]).amax()
    """,
    "a graph of tensors": """
        import torch
        arr = torch.from_numpy(slices(20000, 100))
        def f(v):
            return (v[:, None] * v[None, :]).amax()
    """,
    "a helper inside a function": """
        arr = slices(4000, 8000)
        def f(v):
            return xpapply.special.logsumexp(v * 2, -1)
    """,
    "a compiled plan": """
        arr = slices(20000, 64)
        def f(v):
            return (v[:, None] * v[None, :]).max()
        plan = xpapply.compile(f, (64,), "float64")
        MEASURE = MEASURE.replace("xpapply.apply_along_axis(f, -1, arr", "plan(arr")
    """,
    "a helper": """
        arr = slices(4000, 8000)
        MEASURE = MEASURE.replace(
            "xpapply.apply_along_axis(f, -1, ", "xpapply.special.log_softmax(axis=-1, x="
        ).replace(", xpapply.explain(f, -1, arr).engine", "")
    """,
}

OFTEN = (
    "grids",
    "a rare branch that needs much",
    "iterations that end one after the other",
    "many values at the end",
    "a network by the array API",
    "a function of tensors",
)
"""One workload per mechanism; the others run in the deep profile."""

DEEP = os.environ.get("XPAPPLY_PROFILE") == "deep"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", WORKLOADS if DEEP else OFTEN)
def test_extra_memory(name):
    if "torch" in WORKLOADS[name]:
        pytest.importorskip("torch")
    if "scipy" in WORKLOADS[name]:
        pytest.importorskip("scipy")
    setup = f"MEASURE = {MEASURE!r}\n{SETUP}\n{textwrap.dedent(WORKLOADS[name])}"
    found = subprocess.run(
        [sys.executable, "-c", f"{setup}\nexec(MEASURE)"],
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr
    extra, *engine = found.stdout.split()
    assert int(extra) < EXTRA, f"{int(extra) / MB:.0f} MB beside the result"
    assert engine != ["loop"]
