"""On a cluster of processes: what runs is sent there once, and results are those of one process."""

import os
import signal
import sys
import time

import numpy as np
import pytest

import xpapply
from conftest import library
from xpapply import config, special

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.slow,
    # distributed's own, in threads of its own
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:distributed"),
]

X = np.random.default_rng(0).normal(size=(24, 10, 16)).astype("f4")


@pytest.fixture(scope="module")
def client():
    how = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(**how, worker_dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


def standardize(v):
    return (v - v.mean()) / v.std()


def masked(v):
    return v[v > 0].sum() if v[0] > 0 else v.min()


def picky(v):
    if v[0] == X[13, 4, 0]:
        raise KeyError("not this one")
    return v.sum()


class Counted:
    """A function that says in a file when it arrives in a process."""

    def __init__(self, path):
        self.path = path

    def __setstate__(self, state):
        self.__dict__ = state
        with open(self.path, "a") as file:
            file.write(f"{os.getpid()}\n")

    def __call__(self, v):
        return v.max()


def slow(v):
    time.sleep(0.02)
    return v.max()


FUNCTIONS = {
    "arithmetic": lambda x: xpapply.apply_along_axis(standardize, -1, x),
    "decides": lambda x: xpapply.apply_along_axis(masked, 1, x),
    "lambda": lambda x: xpapply.apply_along_axis(lambda v: np.sort(v)[:3], -1, x),
    "numbers": lambda x: xpapply.vectorize(lambda a, b: a if a > b else b - a)(x, 0.5),
    "signature": lambda x: xpapply.vectorize(masked, signature="(n)->()")(x),
    "logsumexp": lambda x: special.logsumexp(x, axis=-1),
    "softmax": lambda x: special.softmax(x, axis=0),
    "mean_var": lambda x: special.mean_var(x, axis=(0, 2))[1],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_one_process(client, name):
    with xpapply.options(fallback="silent"):
        want = FUNCTIONS[name](X)
        found = FUNCTIONS[name](da.from_array(X, chunks=(5, 4, 7))).compute()
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_networks_need_no_torch_there(client):
    torch = library("torch")
    net = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    with torch.no_grad():
        want = xpapply.apply_along_axis(net, -1, X)
        found = xpapply.apply_along_axis(net, -1, da.from_array(X, chunks=(5, 10, 16))).compute()
    np.testing.assert_allclose(found, want, rtol=1e-3, atol=1e-5)
    assert not any(client.run(lambda: "torch" in sys.modules).values())


def test_what_runs_is_sent_once_to_each_process(client, tmp_path):
    log = tmp_path / "arrivals"
    d = da.from_array(X, chunks=(1, 2, 16))
    y = xpapply.apply_along_axis(Counted(str(log)), -1, d, dtype="f4", shape=())
    with xpapply.options(fallback="silent"):
        np.testing.assert_array_equal(y.compute(), X.max(-1))
    arrived = log.read_text().split()
    workers = set(map(str, client.run(os.getpid).values()))
    assert len([pid for pid in arrived if pid in workers]) <= 2, "120 tasks, 2 processes"


def test_tasks_start_no_threads(client):
    d = da.from_array(X, chunks=(5, 10, 16))
    y = xpapply.apply_along_axis(
        lambda v: float(config.current().thread_count()), -1, d, dtype="f8", shape=()
    )
    assert set(np.unique(y.compute())) == {1.0}


def test_what_f_raises(client):
    y = xpapply.apply_along_axis(picky, -1, da.from_array(X, chunks=(5, 10, 16)))
    with pytest.raises(KeyError, match="not this one"):
        y.compute()


def test_a_worker_that_is_killed_loses_nothing(client):
    d = da.from_array(X, chunks=(1, 10, 16))
    with xpapply.options(fallback="silent"):
        y = client.compute(xpapply.apply_along_axis(slow, -1, d, dtype="f4", shape=()))
        time.sleep(0.5)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        np.testing.assert_array_equal(y.result(timeout=120), X.max(-1))
    client.wait_for_workers(2, timeout=60)


def test_blocks_that_were_shuffled(client):
    d = da.from_array(X, chunks=(3, 10, 4)).rechunk((24, 2, 8))[::-1]
    found = xpapply.apply_along_axis(standardize, -1, d).compute()
    want = np.apply_along_axis(standardize, -1, X[::-1])
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
def test_workers_with_gpus():
    """One worker for each GPU, by the convention of dask-cuda: it sees no other."""
    import cupy

    devices = cupy.cuda.runtime.getDeviceCount()
    cluster = distributed.LocalCluster(
        n_workers=0, threads_per_worker=1, dashboard_address=None, worker_dashboard_address=None,
        silence_logs=50,
    )  # fmt: skip
    net = xpapply.MLP([np.linspace(-1, 1, 64, dtype="f4").reshape(4, 16)])
    with cluster, distributed.Client(cluster) as client:
        spec = {"cls": distributed.Nanny, "options": {"nthreads": 1, "dashboard": False}}
        for k in range(2):
            own = {**spec["options"], "env": {"CUDA_VISIBLE_DEVICES": str(k % devices)}}
            cluster.worker_spec[k] = {**spec, "options": own}
        cluster.loop.add_callback(cluster._correct_state)
        client.wait_for_workers(2)
        seen = client.run(lambda: (os.environ["CUDA_VISIBLE_DEVICES"], os.getpid()))
        assert {k for k, _ in seen.values()} == {str(k % devices) for k in range(2)}
        x = da.from_array(X, chunks=(3, 10, 16)).map_blocks(cupy.asarray)
        for f in (net, standardize, masked):
            y = xpapply.apply_along_axis(f, -1, x)
            assert type(y._meta) is cupy.ndarray
            got = y.map_blocks(cupy.asnumpy).compute()
            want = xpapply.apply_along_axis(f, -1, X)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        got = special.logsumexp(x.rechunk((3, 10, 5)), axis=-1).map_blocks(cupy.asnumpy).compute()
        np.testing.assert_allclose(got, special.logsumexp(X, axis=-1), rtol=1e-5)


def test_blocks_that_were_shuffled_by_p2p(client):
    from dask import config as dask_config

    big = np.random.default_rng(1).normal(size=(60, 40, 16))
    with dask_config.set({"array.rechunk.method": "p2p"}):
        d = da.from_array(big, chunks=(6, 40, 4)).rechunk((60, 4, 16))
        found = xpapply.apply_along_axis(standardize, -1, d)
        total = special.logsumexp(d, axis=0)
        np.testing.assert_allclose(found.compute(), standardize_all(big), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(total.compute(), special.logsumexp(big, axis=0), rtol=1e-9)


def standardize_all(x):
    return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)


def test_blocks_that_were_spilled():
    from dask import config as dask_config

    limits = {"target": 0.3, "spill": 0.4, "pause": False, "terminate": False}
    how = {"n_workers": 1, "threads_per_worker": 1, "memory_limit": "300MB", "silence_logs": 50}
    how |= {"dashboard_address": None, "worker_dashboard_address": None}
    with (
        dask_config.set({f"distributed.worker.memory.{k}": v for k, v in limits.items()}),
        distributed.LocalCluster(**how) as cluster,
        distributed.Client(cluster, set_as_default=False) as own,
        own.as_current(),
    ):
        x = da.random.default_rng(0).normal(size=(240_000, 64), chunks=(20_000, 64))  # 117 MiB
        x = own.persist(x)
        distributed.wait(x)
        spilled = own.run(lambda dask_worker: len(dask_worker.data.slow))
        assert min(spilled.values()) > 0, "nothing was spilled"
        y = xpapply.apply_along_axis(standardize, -1, x)
        mean, square = da.compute(abs(y.mean(-1)).max(), abs((y * y).mean(-1) - 1).max())
        total = special.logsumexp(x, axis=0).compute()
        want = da.log(da.exp(x).sum(0)).compute()
    assert mean < 1e-10
    assert square < 1e-10
    np.testing.assert_allclose(total, want, rtol=1e-10)
