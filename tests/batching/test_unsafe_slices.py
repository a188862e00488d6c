"""Slices that hang or crash a library: they are run only if the loop would have got there.

In each example slice 3 raises, and slice 5 is one on which the call never ends, or takes all
memory.
All of them run in a process of their own, with limits on time and on memory.
"""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

import xpapply
from xpapply.batching import lapack

PROGRAM = """
import json, resource, sys, warnings
import numpy as np
import xpapply
from xpapply.limits import LIMITS
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
warnings.simplefilter("ignore")
LIMITS.given_up_from, LIMITS.paths_at_least = 1e9, 60.0
for name, (body, data, imports, _) in json.load(sys.stdin).items():
    given = {"np": np}
    lines = [imports, "def f(v):", "    " + body, "arr = " + data]
    exec(chr(10).join(lines), given)
    print(chr(10) + name, end=": ", flush=True)
    try:
        with xpapply.options(engine="numpy"):
            xpapply.apply_along_axis(given["f"], -1, given["arr"])
        print("nothing raised")
    except Exception as error:
        print(type(error).__name__, error, flush=True)
"""

FLOATS = "np.random.default_rng(0).normal(size=(400, 9))"


INFINITE = "arr[5, 1] = np.inf; arr[5, 6] = -np.inf"  # OpenBLAS never returns from svd


def singular(call, imports=""):
    body = f"""if v[8] > 1e300:
        raise ArithmeticError("here")
    m = v.reshape(3, 3)
    return {call}"""
    arr = f"{FLOATS}; arr[3] = np.nan; arr[3, 8] = 1e301; {INFINITE}"
    return body, arr, imports, "ArithmeticError here"


def sized(call):
    body = f"""if v[0] < 0:
        raise ArithmeticError("here")
    return {call}"""
    arr = "np.random.default_rng(0).integers(0, 5, (400, 4)); arr[3] = -1; arr[5] = 2**62"
    return body, arr, "", "ArithmeticError here"


def plainly(call, raises, imports=""):
    arr = f"{FLOATS}; arr[3] = np.nan; {INFINITE}"
    return f"m = v.reshape(3, 3)\n    return {call}", arr, imports, raises


EXAMPLES = {
    "svd": plainly("np.linalg.svd(m)[1]", "LinAlgError SVD did not converge"),
    "svd of what raises otherwise": singular("np.linalg.svd(m)[1]"),
    "svdvals": singular("np.linalg.svdvals(m)"),
    "pinv": singular("np.linalg.pinv(m)"),
    "eigh": singular("np.linalg.eigh(m)[0]"),
    "eigvalsh": singular("np.linalg.eigvalsh(m)"),
    "cond": singular("np.linalg.cond(m)"),
    "matrix_rank": singular("np.linalg.matrix_rank(m)"),
    "norm": singular("np.linalg.norm(m, 2)"),
    "nuclear norm": singular("np.linalg.norm(m, 'nuc')"),
    "lstsq": singular("np.linalg.lstsq(m, v[:3])[0]"),
    "polyfit": singular("np.polyfit(v[:5], v[4:], 2)"),
    "scipy svd": singular(
        "scipy.linalg.svd(m, check_finite=False)[1]", "import scipy.linalg"
    ),
    "expm": singular("scipy.linalg.expm(m)", "import scipy.linalg"),
    "bincount": (
        "return np.bincount(v, minlength=6)[:6]",
        "np.random.default_rng(0).integers(0, 5, (400, 4)); arr[3] = -1; arr[5] = 2**63 - 1",
        "",
        "ValueError 'list' argument must have no negative elements",
    ),
    "zeros": sized("np.ones(int(v[0])).sum()"),
    "arange": sized("np.arange(v[0]).sum()"),
    "linspace": sized("np.linspace(0, 1, v[0] + 1).sum()"),
    "range": sized("sum([1 for _ in range(int(v[1]))])"),
    "tile": sized("np.tile([1.5], int(v[0])).sum()"),
    "pad": sized("np.pad(v, int(v[0])).sum()"),
    "histogram": sized("np.histogram([1, 2.5], int(v[0]) + 1)[0].sum()"),
    "list": sized("len([0] * int(v[0]))"),
    "fft": sized("np.fft.fft([1.5, 2], int(v[0]) + 1).real.sum()"),
    "repeat": sized("np.repeat(1.5, v[0]).sum()"),
}  # fmt: skip


@pytest.fixture(scope="module")
def said():
    """What each example raises, as far as they got."""
    given = {k: x for k, x in EXAMPLES.items() if not x[2] or importlib.util.find_spec("scipy")}
    try:
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        ).stdout
    except subprocess.TimeoutExpired as error:
        ran = (error.stdout or b"").decode()
    return dict(line.split(": ", 1) for line in ran.splitlines() if ": " in line)


@pytest.mark.parametrize("name", EXAMPLES)
def test_slices_that_the_loop_does_not_reach_are_not_run(name, said):
    *_, imports, raises = EXAMPLES[name]
    if imports:
        pytest.importorskip("scipy")
    assert name in said, f"it ended at {list(said)[-1:]}"
    found = said[name]
    if "cannot run" not in found:  # refused, so that the loop runs
        assert found.startswith(raises)


@pytest.mark.parametrize("call", ["svd", "pinv", "norm"])
def test_finite_slices_still_run_in_blocks(call):
    of = {
        "svd": lambda v: np.linalg.svd(v.reshape(3, 3))[1],
        "pinv": lambda v: np.linalg.pinv(v.reshape(3, 3)),
        "norm": lambda v: np.linalg.norm(v.reshape(3, 3), 2),
    }[call]
    arr = np.random.default_rng(0).normal(size=(600, 9))
    plan = xpapply.explain(of, -1, arr)
    assert plan.engine == "numpy", str(plan)
    with xpapply.options(engine="numpy"):
        found = xpapply.apply_along_axis(of, -1, arr)
    np.testing.assert_allclose(found, np.apply_along_axis(of, -1, arr), rtol=1e-12)


def test_which_calls_are_guarded():
    vector, matrix = np.zeros(3), np.zeros((3, 3))
    for name, args, kwargs, guarded in (
        ("numpy.linalg.svd", (matrix,), {}, True),
        ("numpy.linalg.norm", (matrix, 2), {}, True),
        ("numpy.linalg.norm", (matrix,), {"ord": "nuc"}, True),
        ("numpy.linalg.norm", (matrix,), {}, False),
        ("numpy.linalg.norm", (matrix, 1), {}, False),
        ("numpy.linalg.norm", (vector, 2), {}, False),
        ("numpy.linalg.det", (matrix,), {}, False),
        ("scipy.linalg.svd", (matrix,), {}, False),
        ("scipy.linalg.svd", (matrix,), {"check_finite": False}, True),
        ("scipy.linalg.expm", (matrix,), {}, True),
    ):
        assert lapack.may_not_end(name, args, kwargs) is guarded, name
