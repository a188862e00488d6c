"""After a fork: threads that a child process has lost are waited for by nobody."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

SETUP = """
    import os, signal, threading, warnings
    import numpy as np
    import xpapply
    from xpapply import apply_along_axis as xa
    from xpapply.limits import LIMITS

    LIMITS.network_patience = 0.0  # as for all other tests, see conftest
    warnings.simplefilter("ignore")  # Python's own about forks with threads
    rng = np.random.default_rng(0)
    x = rng.normal(size=(70_000, 32)).astype("f4")

    def in_child(work):
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)  # ends a child that hangs
            try:
                os._exit(0 if work() else 1)
            except BaseException as error:
                print(repr(error), flush=True)
                os._exit(2)
        _, status = os.waitpid(pid, 0)
        assert status == 0, status
"""

NET = """
    import torch
    torch.set_num_threads(4)
    nn = torch.nn
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.Linear(64, 2)).eval()
"""

CASES = {
    "a network on a NumPy array": NET
    + """
    want = xa(net, -1, x)
    in_child(lambda: np.array_equal(xa(net, -1, x), want))
    """,
    "a network on a tensor": NET
    + """
    t = torch.from_numpy(x)
    with torch.no_grad():
        want = xa(net, -1, t).numpy()
        in_child(lambda: np.array_equal(xa(net, -1, t).numpy(), want))
    """,
    "a network first used in the child": NET
    + """
    with torch.no_grad():
        want = net(torch.from_numpy(x)).numpy()
    in_child(lambda: np.allclose(xa(net, -1, x), want, atol=1e-5))
    """,
    "a compiled plan": NET
    + """
    plan = xpapply.compile(net, (32,))
    want = plan(x)
    in_child(lambda: np.array_equal(plan(x), want))
    """,
    "a network without a graph": NET
    + """
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = net

        def forward(self, v):
            return torch.cumsum(self.inner(v), -1)

    f = Sum().eval()
    want = xa(f, -1, x)
    assert xpapply.explain(f, -1, x).engine in ("torch.vmap", "torch.batch")
    in_child(lambda: np.allclose(xa(f, -1, x), want, atol=1e-5))
    """,
    "a wide network in the loop": """
    import torch
    torch.set_num_threads(4)
    net = torch.nn.Linear(32, 1_000_000).eval()
    v = np.ones((2, 32), "f4")
    with xpapply.options(engine="loop"):
        want = xa(net, -1, v)
        in_child(lambda: np.allclose(xa(net, -1, v), want, atol=1e-5))
    """,
    "a network inside a Python function": NET
    + """
    mlp = xpapply.MLP([net[0].weight.detach().numpy()])

    def f(v):
        return mlp(v - v.mean())

    want = xa(f, -1, x)
    in_child(lambda: np.allclose(xa(f, -1, x), want, rtol=1e-5, atol=1e-5))
    """,
    "a function of a tensor": NET
    + """
    f = lambda v: torch.sort(v * v.sum()).values
    t = torch.from_numpy(x)
    want = xa(f, -1, t).numpy()
    in_child(lambda: np.array_equal(xa(f, -1, t).numpy(), want))
    """,
    "NumPy's engine": """
    net = xpapply.MLP([rng.normal(size=(64, 32)), rng.normal(size=(8, 64))])
    with xpapply.options(threads=3):
        want = xa(net, -1, x)
        in_child(lambda: np.array_equal(xa(net, -1, x), want))
    """,
    "a Python function in threads": """
    f = lambda v: np.sort(v)[3] + np.exp(-v).max()
    with xpapply.options(threads=3, engine="numpy"):  # what was measured chooses no other way
        want = xa(f, -1, x)
        in_child(lambda: np.array_equal(xa(f, -1, x), want))
    """,
    "a function of slices in threads": """
    from xpapply import special
    with xpapply.options(threads=3, engine="numpy"):
        want = special.logsumexp(x, axis=-1)
        in_child(lambda: np.array_equal(special.logsumexp(x, axis=-1), want))
    """,
    "a fork while another thread makes a pool": """
    from xpapply.runtime import threads
    with threads._lock:
        f = lambda v: np.sort(v)[3] + np.exp(-v).max()
        with xpapply.options(threads=3):
            in_child(lambda: xa(f, -1, x).shape == (70_000,))
    """,
    "a pool of forked processes": NET
    + """
    import multiprocessing
    want = xa(net, -1, x)

    def part(k):
        signal.alarm(30)
        return xa(net, -1, x[k::4])

    with multiprocessing.get_context("fork").Pool(2) as workers:
        parts = workers.map_async(part, range(4)).get(60)
    for k, found in enumerate(parts):
        assert np.allclose(found, want[k::4], atol=1e-5)
    """,
}


def test_nothing_was_loaded_before_the_fork(torch):
    """What is loaded in the child alone is told of torch's lost threads as well."""
    setup = textwrap.dedent(SETUP).replace("from xpapply import apply_along_axis as xa\n", "")
    case = CASES["a network first used in the child"].replace("xa(", "xpapply.apply_along_axis(")
    code = setup + textwrap.dedent(case)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("name", CASES)
def test_in_a_child_process(torch, name):
    code = textwrap.dedent(SETUP) + textwrap.dedent(CASES[name])
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180)
    assert run.returncode == 0, run.stdout + run.stderr


def test_torch_has_its_threads_again_after_a_call(torch, monkeypatch):
    from xpapply.runtime import threads

    net = torch.nn.Linear(8, 2).eval()
    x = np.ones((100_000, 8), "f4")
    before, seen = torch.get_num_threads(), []
    monkeypatch.setattr(threads, "torch_is_lost", True)
    monkeypatch.setattr(
        torch,
        "addmm",
        lambda *a, _real=torch.addmm, **k: seen.append(torch.get_num_threads()) or _real(*a, **k),
    )
    torch.set_num_threads(3)
    try:
        import xpapply

        with xpapply.options(engine="torch"):
            xpapply.apply_along_axis(net, -1, x)
        assert set(seen) == {1}
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
