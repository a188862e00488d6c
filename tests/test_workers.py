"""options(workers=N): the loop's results, exceptions and warnings, from several processes."""

import dataclasses
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

import xpapply
from xpapply.limits import LIMITS
from xpapply.loop import processes

pytest.importorskip("joblib")

X = np.random.default_rng(0).normal(size=(6, 5, 7))
SCALE = 2.0
SEEN = []


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """However quick the loop is, other processes do all but its first slice."""
    monkeypatch.setattr(LIMITS, "workers_look", 0.0)
    monkeypatch.setattr(LIMITS, "workers_worth", -1.0)
    monkeypatch.setattr(LIMITS, "workers_chunk", 1e-9)
    with xpapply.options(engine="loop", workers=2):
        yield


@pytest.fixture
def shared(monkeypatch):
    """The numbers of slices that other processes were asked for."""
    found = []
    results = processes._LoopTask.results

    def seen(self, start, count, seconds):
        found.append(count - start)
        return results(self, start, count, seconds)

    monkeypatch.setattr(processes._LoopTask, "results", seen)
    return found


def loop(call):
    with xpapply.options(workers=1):
        return call()


def outcome(call):
    """A result or an exception with its notes, and the warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            found = call()
        except Exception as error:
            found = type(error), str(error), error.__notes__
    return found, {(w.category, str(w.message), os.path.basename(w.filename)) for w in told}


def same(call, rtol=0):
    (want, said), (got, says) = outcome(lambda: loop(call)), outcome(call)
    assert says == said
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (want, got)), strict=True):
        assert type(a) is type(b)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            if rtol:
                np.testing.assert_allclose(b, a, rtol)
            else:
                np.testing.assert_array_equal(b, a)
        else:
            assert b == a
    return got


def spread(v):
    return v.max() - v.min() * SCALE


def text(v):
    return f"{v[0]:.3f}"


def fails_where_negative(v):
    if v[0] < -1:
        raise ArithmeticError(f"{v[0]:.3f} is too small")
    return v[0]


def first_decides(v):
    return int(v[0] * 10) if v[0] == X[0, 0, 0] else v[0] * 10


def other_shape(v):
    return v[: 2 + (v[0] > 1)]


def warns(v):
    if v[0] > 0.5:
        warnings.warn("large", RuntimeWarning, stacklevel=1)
    return np.log(v[0])


RUNS = [
    spread,
    text,
    fails_where_negative,
    first_decides,
    other_shape,
    warns,
    sorted,
    np.diag,
    list,
]


@pytest.mark.parametrize("f", RUNS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_apply_along_axis_as_the_loop(f, axis, shared):
    same(lambda: xpapply.apply_along_axis(f, axis, X))
    n = X.size // X.shape[axis]
    assert shared == [n - 1]


def test_warnings_of_what_is_of_no_file(monkeypatch):
    """As in a notebook, whose cells are of no module."""
    code = "def typed(v):\n    warnings.warn('typed', stacklevel=1)\n    return v.max()"
    main = sys.modules["__main__"]
    found = {"__name__": "__main__", "warnings": warnings}
    exec(compile(code, "<a cell>", "exec"), found)
    monkeypatch.setattr(main, "typed", found["typed"], raising=False)
    same(lambda: xpapply.apply_along_axis(found["typed"], 0, X))


@pytest.mark.parametrize("axes", [(0, 2), (2, 1)])
def test_several_axes(axes, shared):
    same(lambda: xpapply.apply_along_axis(lambda p: p @ p.T, axes, X))
    assert shared


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("otypes", [None, "d"])
@pytest.mark.parametrize("cache", [False, True])
def test_functions_of_numbers(otypes, cache, order, shared):
    def both(a, b):
        return (a, b, type(a).__name__ == "float") if otypes is None else a // b

    x, y = np.array(X, order=order), np.arange(1, 8)
    same(lambda: xpapply.vectorize(both, otypes=otypes, cache=cache)(x, y))
    assert shared


def test_functions_of_slices(shared):
    def line(t, y):
        slope, intercept = np.polyfit(t, y, 1)
        return slope, y - slope * t - intercept

    f = xpapply.vectorize(line, signature="(n),(n)->(),(n)")
    same(lambda: f(np.arange(7.0), X))
    same(lambda: f(X[:, :1], X))
    same(lambda: f(np.arange(7.0), X, where=X[..., 0] > 0))
    assert len(shared) == 3


def with_xpapply(v):
    return xpapply.special.logsumexp(v) + len(f"{v[0]:.3f}")


def test_functions_that_call_xpapply(shared):
    # the processes have engines that this one may have been told to do without
    same(lambda: xpapply.apply_along_axis(with_xpapply, -1, X), rtol=1e-14)
    assert shared


@dataclasses.dataclass
class Ends:
    low: float
    high: np.ndarray


def some_order(v):
    found = {"low": v.min(), "ends": Ends(v.max(), v * 2)}
    return found if v[0] > 0 else dict(reversed(found.items()))


def test_containers(shared):
    f = xpapply.vectorize(some_order, signature="(n)->(),(),(n)")
    want, got = loop(lambda: f(X)), f(X)
    assert list(want) == list(got)
    assert type(got["ends"]) is Ends
    np.testing.assert_array_equal(got["low"], want["low"])
    np.testing.assert_array_equal(got["ends"].low, want["ends"].low)
    np.testing.assert_array_equal(got["ends"].high, X * 2)
    assert shared


@pytest.mark.parametrize("signature", [None, "()->()"])
@pytest.mark.parametrize("how", ["fill", "warn", "raise"])
def test_on_error(how, signature, shared):
    def inverse(a):
        return 1 // a

    x = np.array([[3, 1, 0, 1], [1, 0, 1, 1]])
    f = xpapply.vectorize(inverse, on_error=how, fill=-5, signature=signature, otypes=None)
    if signature is None or how == "raise":
        same(lambda: f(x))
    else:
        g = xpapply.vectorize(lambda a: 1.0 / int(a), on_error=how, fill=-5, signature=signature)
        same(lambda: g(x))
    assert shared


def test_the_first_of_several_errors_in_order():
    def f(v):
        raise ValueError(f"{v[0]}") if v[0] in (3, 17, 39) else KeyError(0)

    def g(v):
        if v[0] in (17, 39):
            raise ValueError(v[0])
        return v[0]

    x = np.arange(40.0)[:, None]
    with pytest.raises(ValueError, match="17") as info:
        xpapply.apply_along_axis(g, 1, x)
    assert info.value.__notes__ == ["raised at the slice arr[17, :]"]
    assert "g" in [e.name for e in info.traceback]  # the user's lines
    with pytest.raises(KeyError):
        xpapply.apply_along_axis(f, 1, x)


def test_what_a_module_holds_now(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 7.0)
    got = xpapply.apply_along_axis(spread, -1, X)
    np.testing.assert_array_equal(got, X.max(-1) - X.min(-1) * 7.0)


def test_options_and_error_state_go_along():
    def f(v):
        return np.log(v[0] - v[0])

    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        xpapply.apply_along_axis(f, -1, X)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(xpapply.apply_along_axis(f, -1, X)).all()


def writes(v):
    v *= 2
    return v.sum()


def test_functions_that_write_into_slices_run_here():
    def call():
        mine = X.copy()
        with xpapply.options(fallback="silent"):
            return xpapply.apply_along_axis(writes, -1, mine), mine

    same(call)


def test_a_mapped_file_is_not_copied(tmp_path):
    X.tofile(tmp_path / "x")
    mapped = np.memmap(tmp_path / "x", float, "r+", shape=X.shape)
    for x in (mapped, mapped[::2, ::-1, 1:]):
        made = processes._in_file(x, "nowhere")
        assert made.path == str(tmp_path / "x")
        np.testing.assert_array_equal(made.open(), x)
        same(lambda x=x: np.asarray(xpapply.apply_along_axis(spread, 1, x)))


@pytest.mark.parametrize(
    "x",
    [
        X,
        X.T,
        X[::-1, 1:, ::2],
        np.broadcast_to(X[:, :1], X.shape),
        np.asfortranarray(X).astype("f4"),
        np.arange(5).astype(">i2"),
        np.array(3.0),
    ],
)
def test_arrays_as_other_processes_open_them(x, tmp_path):
    got = processes._in_file(x, str(tmp_path / "x")).open()
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, x)
    same_order = np.argsort(np.abs(got.strides)), np.argsort(np.abs(x.strides))
    assert 1 in x.shape or (same_order[0] == same_order[1]).all()


# --- what stays here ------------------------------------------------------------------------------

rng = np.random.default_rng(0)
counts = {"calls": 0}


def draws(v):
    return v[0] + rng.normal()


def prints(v):
    print(v[0])
    return v[0]


def counts_calls(v):
    counts["calls"] += 1
    return v[0]


def appends(v):
    SEEN.append(v[0])
    return v[0]


def collects(v):
    found = []
    for x in v:
        found.append(x * SCALE)
    out = np.empty(2)
    out[0] = found[0]
    out[1] = X[0, 0, 0]
    return out


class Model:
    def __init__(self):
        self.n = 0

    def __call__(self, v):
        self.n += 1
        return self.n

    def method(self, v):
        return self(v)


HERE = {
    draws: "Generator",
    prints: "print",
    counts_calls: "write to counts",
    appends: "append",
    Model(): "Model, which may do anything",
    Model().method: "may change its object",
}


@pytest.mark.parametrize("f", HERE, ids=lambda f: getattr(f, "__name__", type(f).__name__))
def test_side_effects_stay_here_and_explain_says_why(f, shared, capsys):
    with pytest.warns(xpapply.FallbackWarning, match=HERE[f]):
        xpapply.apply_along_axis(f, -1, X)
    assert not shared
    plan = xpapply.explain(f, -1, X)
    assert any(HERE[f] in why for why in plan.reasons)
    with xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(f, (0, 2), X)
        assert any(HERE[f] in why for why in xpapply.explain(f, (0, 2), X).reasons)


def test_what_a_function_makes_itself_it_may_change(shared):
    same(lambda: xpapply.apply_along_axis(collects, -1, X))
    assert shared
    assert "in 2 processes" in str(xpapply.explain(collects, -1, X))
    assert "in 2 processes" in str(xpapply.explain(collects, (0, 2), X))


def test_side_effects_happen_as_in_the_loop():
    SEEN.clear()
    with xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(appends, -1, X)
    assert X[..., 0].ravel().tolist() == SEEN


@pytest.mark.parametrize("x", [np.ma.masked_greater(X, 1), X.astype(object)])
def test_arrays_that_stay_here(x, shared):
    with xpapply.options(fallback="silent"):
        same(lambda: np.asarray(xpapply.apply_along_axis(spread, -1, x)))
    assert not shared


def test_functions_that_cannot_be_pickled():
    class Holder(np.ndarray):
        def __reduce__(self):
            raise pickle.PicklingError("no")

    held = np.zeros(2).view(Holder)
    with pytest.raises(TypeError, match=r"cannot be pickled.*workers=1"):
        xpapply.apply_along_axis(lambda v: v[0] + held[0], -1, X)


def test_without_joblib(monkeypatch):
    monkeypatch.setattr(processes.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install"):
        xpapply.apply_along_axis(spread, -1, X)


def test_quick_loops_stay_here(shared, monkeypatch):
    monkeypatch.undo()
    found = []
    monkeypatch.setattr(processes._LoopTask, "results", lambda *args: found.append(args))
    xpapply.apply_along_axis(spread, -1, X)
    assert not found


# --- Ctrl-C ---------------------------------------------------------------------------------------

INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import xpapply

def slow(v):
    open("runs", "a").close()
    time.sleep(0.02)
    return v[0]

def interrupt():
    while not os.path.exists("runs"):
        time.sleep(0.05)
    time.sleep(0.5)
    print(time.perf_counter(), flush=True)
    os.kill(os.getpid(), signal.SIGINT) if sys.argv[1] == "one" else os.killpg(0, signal.SIGINT)

if __name__ == "__main__":
    # a shell that starts jobs in the background has them ignore it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with xpapply.options(workers=2, fallback="silent", engine="loop"):
            xpapply.apply_along_axis(slow, -1, np.zeros((5000, 3)))
        print("done")
    except KeyboardInterrupt:
        print(time.perf_counter(), flush=True)
"""


def processes_of(session):
    """The processes of a session that are alive, by their id, with what they run."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/cmdline") as line:
                fields, command = stat.read().rpartition(")")[2].split(), line.read()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found[int(pid)] = command.replace("\0", " ")
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("who", ["one", "all"])
def test_ctrl_c_ends_all_processes(who, tmp_path):
    (tmp_path / "script.py").write_text(INTERRUPTED)
    ran = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), who],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    out, err = ran.communicate(timeout=60)
    assert "done" not in out, "too fast to be interrupted"
    began, ended = map(float, out.split())
    assert ended - began < 10, err  # of 50 s that the loop takes
    while (left := processes_of(ran.pid)) and time.perf_counter() < ended + 20:
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left
