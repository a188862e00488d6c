"""Small things that public code writes in functions of a slice: they run without the loop.

Each is compared with NumPy's loop: dtype, shape and values, bit for bit where nothing is summed.
"""

import numpy as np
import pytest
from calls_of import check

import xpapply
from conftest import library

RNG = np.random.default_rng(0)
A = RNG.random((200, 12))
T = np.arange(12.0)


# --- NumPy's objects that are used by indexing ------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda v: np.r_[v, v.mean()],
        lambda v: np.r_[0, v, 1],
        lambda v: np.r_[v[:2], 0:3, 0:1:5j],
        lambda v: np.r_["0,2", v, v * 2],
        lambda v: np.r_["-1", v[:3], [1.0, 2.0]],
        lambda v: np.r_[v[0], 3],
        lambda v: np.r_[[v[0], v[1]], v],
        lambda v: np.c_[v, v**2].sum(0),
        lambda v: np.c_[np.ones(12), T, v],
        lambda v: np.c_[v, T, 1:13],
        lambda v: v[np.s_[1:5]],
        lambda v: v[np.s_[: v.argmax()]].sum(),
        lambda v: v[np.index_exp[2:5]],
        lambda v: np.outer(v, v)[np.ix_([0, 1], [2, 3])],
        lambda v: np.mgrid[0 : v.argmax() : 3j] + v[0],
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8"])
def test_objects_that_are_indexed(f, dtype):
    check(f, (A * 9).astype(dtype))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint8"])
@pytest.mark.parametrize("grid", [np.mgrid, np.ogrid])
def test_grids_that_are_summed(grid, dtype):
    check(lambda v: (grid[0:12] * v).sum(), (A * 9).astype(dtype), exact=dtype[0] != "f")


@pytest.mark.parametrize(
    "f",
    [
        lambda v: np.lib.stride_tricks.sliding_window_view(v, 3).mean(-1),
        lambda v: np.lib.stride_tricks.sliding_window_view(v, window_shape=4, axis=0).max(axis=1),
        lambda v: np.lib.stride_tricks.sliding_window_view(v.reshape(3, 4), (2, 2)).sum(),
        lambda v: np.lib.stride_tricks.sliding_window_view(v.reshape(3, 4), 2, axis=1).copy(),
        lambda v: np.lib.stride_tricks.sliding_window_view(v, 5)[::2].std(axis=-1),
    ],
)
def test_sliding_windows(f):
    check(f, exact=False)


# --- torch inside a function of NumPy's slices -------------------------------------------------


def torch_functions():
    torch = library("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(12, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    net = net.double().eval()
    device = torch.device("cpu")

    def tensor(v):
        with torch.no_grad():
            return net(torch.from_numpy(v))

    def float32_tensor(v):
        return torch.from_numpy(v.astype(np.float32)).sqrt()

    def integer_tensor(v):
        return torch.from_numpy(v).argmax()

    def list_of_tensors(v):
        x = torch.from_numpy(v)
        return [x.mean(), x.max(), 2.0]

    def moved(v):
        net.to(device)
        net.eval()
        with torch.no_grad():
            return net.to("cpu").double()(torch.tensor(v).to(device)).cpu().numpy()

    def array_of_tensor(v):
        with torch.no_grad():
            return np.asarray(net(torch.from_numpy(v))).argmax()

    return [tensor, float32_tensor, integer_tensor, list_of_tensors, moved, array_of_tensor]


@pytest.mark.parametrize("k", range(6))
def test_tensors_as_results(k):
    check(torch_functions()[k], exact=k not in (0, 4))


def test_a_tensor_that_autograd_records_raises_as_in_the_loop():
    torch = library("torch")
    net = torch.nn.Linear(12, 2).double()
    with pytest.raises(RuntimeError, match="requires grad"):
        xpapply.apply_along_axis(lambda v: net(torch.from_numpy(v)), -1, A)


@pytest.mark.parametrize(
    "change",
    [
        lambda net: net.float(),
        lambda net: net.to("meta"),
        lambda net: net.train(),
        lambda net: net.requires_grad_(False),
    ],
)
def test_a_network_that_is_changed_stays_in_the_loop(change):
    torch = library("torch")
    net = torch.nn.Linear(12, 2).double().eval()

    def f(v):
        change(net)
        return v.sum()

    plan = xpapply.explain(f, -1, A)
    assert not plan.vectorized
    assert "net" in plan.reasons[0]


# --- sets of numbers, and writes at places ------------------------------------------------------

WHOLE = (A * 5).astype(int)


def written(write):
    def f(v):
        w = v.copy()
        write(w, v)
        return w

    return f


@pytest.mark.parametrize(
    "f",
    [
        lambda v: len(np.setdiff1d(v, [1, 2])),
        lambda v: np.setdiff1d(v, [1, 2]).sum(),
        lambda v: len(np.intersect1d(v[:6], v[6:])),
        lambda v: np.intersect1d(v, np.array([1, 2, 9])).sum(),
        lambda v: np.union1d(v[:6], v[6:]).size,
        lambda v: np.setxor1d(v[:6], v[6:]).sum(),
    ],
)
def test_sets_of_numbers(f):
    check(f, WHOLE)
    check(f, WHOLE / 2)


@pytest.mark.parametrize(
    "f",
    [
        written(lambda w, v: np.put(w, [0, 3], 0)),
        written(lambda w, v: np.put(w, [0, 3], v[:2])),
        written(lambda w, v: np.putmask(w, v > 2, 0)),
        written(lambda w, v: np.putmask(w, v > 2, -v)),
        written(lambda w, v: np.place(w, v > 2, 7)),
        written(lambda w, v: np.put_along_axis(w, np.argsort(v)[:2], 0, 0)),
        written(lambda w, v: np.copyto(w, 0, where=v > 2)),
    ],
)
def test_writes_at_places(f):
    check(f, WHOLE)
    check(f, A * 5)


def test_writes_that_are_not_known_stay_in_the_loop():
    check(written(lambda w, v: np.place(w, v > 2, [7, 8])), WHOLE, vectorized=False)
    check(
        lambda v: np.intersect1d(v, [1, 2], return_indices=True)[0].sum(), WHOLE, vectorized=False
    )
