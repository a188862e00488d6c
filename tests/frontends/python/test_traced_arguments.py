"""What takes a number of the slice and is not known asks for it, or refuses: nothing is frozen."""

import math

import numpy as np
import pytest

import xpapply

torch = pytest.importorskip("torch")

X = np.zeros((3000, 6))
X[:, 0] = 1
X[100:110, 3] = 2  # ten slices are others


def same(f, x=X):
    want = np.apply_along_axis(f, 1, x)
    with xpapply.options(fallback="silent"):
        for _ in range(2):
            got = xpapply.apply_along_axis(f, 1, x)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: np.datetime64("2000-01-01") + np.timedelta64(int(v.argmax()), "D"),
        lambda v: np.datetime64(int(v.argmax()), "D"),
        lambda v: np.timedelta64(int(v.argmax()), "s") / np.timedelta64(1, "m"),
        lambda v: np.str_(int(v.argmax())),
        lambda v: float(np.float64(str(int(v.max())))),
        lambda v: complex(int(v.max()), 1),
        lambda v: (torch.from_numpy(v) + torch.full((6,), float(v.max()))).sum().item(),
        lambda v: torch.arange(int(v.argmax()) + 1).sum().item(),
        lambda v: torch.zeros(int((v > 0).sum())).numel(),
        lambda v: torch.eye(int(v.max())).numpy().sum(),
        lambda v: torch.linspace(0, float(v.max()), 3).numpy()[1],
        lambda v: torch.scalar_tensor(float(v.max())).item(),
        lambda v: np.empty_like(v, shape=int(v.max())).size,
        lambda v: np.empty_like(v[v > 0]).size,
        lambda v: len(np.empty_like(X[0], shape=(int(v.argmax()), 2))),
        lambda v: np.empty_like(v, np.float32, "C", True, (2, int(v.max()))).shape[1],
    ],
)
@pytest.mark.usefixtures("plan_always")
def test_no_number_is_frozen(f):
    same(f)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # by the flags of the processor
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("bad", [300.0, -1.0, -1.5, -0.5, 1e10, 1e30, 2.0**63, math.nan, math.inf])
@pytest.mark.usefixtures("plan_always")
def test_pythons_floats_that_do_not_fit_raise(dtype, bad):
    x = np.tile([0.5, 0.25, 0.75], 1000)
    x[100] = bad

    def made(a):
        return dtype(a)

    def written(a):
        y = np.zeros(1, dtype)
        y[0] = a
        return y[0]

    def caught(a):
        try:
            return dtype(a)
        except (ValueError, OverflowError):
            return dtype(7)

    for f in (made, written, caught):
        found = []
        for make in (np.vectorize, xpapply.vectorize):
            with xpapply.options(fallback="silent"):
                try:
                    found.append((make(f)(x)[99:102].tolist(), make(f)(x).dtype))
                except Exception as error:
                    found.append((type(error), str(error)))
        assert found[0] == found[1]


@pytest.mark.parametrize(
    "f",
    [
        lambda v: np.unique_values(v.astype(int))[0],
        lambda v: np.unique_values((int(v[0]), int(v[3]))),
        lambda v: np.unique_values(v)[0],
    ],
)
@pytest.mark.usefixtures("plan_always")
def test_values_that_nobody_sorts_come_in_the_order_of_numpy(f):
    x = np.tile([1.0, 0, 0, 0], (3000, 1))  # sorted by chance, where the function is looked at
    x[100:110] = [0, 1, 1, 1]
    x[200:210] = [9, 1, 4, 4]
    same(f, x)
