"""Arrays of the host that are computed on a device: copied there in blocks, and back."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpapply
from conftest import have_gpu

X = np.random.default_rng(0).normal(size=(300, 40, 16)).astype("f4")


def net(*sizes, dtype="f4"):
    rng = np.random.default_rng(1)
    pairs = list(pairwise(sizes))
    weights = [rng.normal(size=(n, m)).astype(dtype) / m**0.5 for m, n in pairs]
    return xpapply.MLP(weights, [rng.normal(size=n).astype(dtype) for _, n in pairs], "relu")


@pytest.mark.skipif(have_gpu(), reason="there is a device")
def test_no_device():
    with xpapply.options(device="cuda"), pytest.raises(xpapply.InputError, match="device='cuda'"):
        xpapply.apply_along_axis(lambda v: v.sum(), -1, X)


@pytest.mark.parametrize("wrong", ["gpu", "cuda:x", "cpu", 0, None])
def test_names_of_devices(wrong):
    with pytest.raises(xpapply.InputError, match="use 'cuda', 'cuda:1'"):
        xpapply.options(device=wrong)


def has_no_graph(v):
    return v[v > 0].sum() + v.max()


@pytest.mark.gpu
class TestOnDevice:
    def test_a_network(self):
        f = net(16, 32, 32, 4)
        want = xpapply.apply_along_axis(f, -1, X)
        with xpapply.options(device="cuda", memory="2 MB"):
            p = xpapply.explain(f, -1, X)
            got = xpapply.apply_along_axis(f, -1, X)
        assert type(got) is np.ndarray
        assert (p.engine, p.device) == ("stream", "cuda")
        assert "copied to CUDA device 0 and back beside computing" in str(p)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)

    @pytest.mark.parametrize("f", [lambda v: v.std(), has_no_graph, lambda v: v * 2], ids="abc")
    @pytest.mark.parametrize("axis", [0, 1, -1, (0, 2)], ids=str)
    def test_functions(self, f, axis):
        want = xpapply.apply_along_axis(f, axis, X)
        with xpapply.options(device="cuda", memory="20 MB", fallback="silent"):
            got = xpapply.apply_along_axis(f, axis, X)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)

    def test_torch(self):
        torch = pytest.importorskip("torch")
        torch.manual_seed(0)
        f = torch.nn.Sequential(
            torch.nn.Linear(16, 8), torch.nn.GELU(), torch.nn.Linear(8, 3)
        ).eval()
        want = xpapply.apply_along_axis(f, -1, X)
        with xpapply.options(device="cuda", memory="2 MB"):
            got = xpapply.apply_along_axis(f, -1, X)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
        assert all(p.device.type == "cpu" for p in f.parameters())

    @settings(max_examples=15)
    @given(
        shape=st.tuples(st.integers(1, 60), st.integers(1, 9), st.integers(1, 12)),
        axis=st.integers(0, 2),
        dtype=st.sampled_from(["f4", "f8", "i4", ">f4", "u1", "?"]),
        order=st.sampled_from("CF"),
        blocks=st.integers(1, 40),
    )
    def test_the_same_as_on_the_host(self, shape, axis, dtype, order, blocks):
        x = np.random.default_rng(0).normal(size=shape) * 3
        x = np.asarray(abs(x) if dtype == "u1" else x, dtype, order=order)
        f = lambda v: (v * 2).sum()  # noqa: E731
        want = np.apply_along_axis(f, axis, x)
        with xpapply.options(device="cuda", memory=11 * blocks * 40 * (shape[axis] + 1) * 8):
            got = xpapply.apply_along_axis(f, axis, x)
        assert got.dtype == want.dtype.newbyteorder("=")
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)

    def test_into_a_file(self, tmp_path):
        f = net(16, 8, 2)
        out = np.memmap(tmp_path / "y", "f4", "w+", shape=(300, 40, 2))
        with xpapply.options(device="cuda", memory="2 MB"):
            assert xpapply.apply_along_axis(f, -1, X, out=out) is out
        np.testing.assert_allclose(out, xpapply.apply_along_axis(f, -1, X), rtol=2e-5, atol=2e-5)
        assert not list(tmp_path.glob("*.unfinished"))
        del out

    def test_many_blocks_while_memory_is_reused(self):
        """A block that is freed too early has the elements of another one."""
        x = np.random.default_rng(3).normal(size=(200_000, 16)).astype("f4")
        f = net(16, 64, 64, 16)
        want = xpapply.apply_along_axis(f, -1, x)
        for _ in range(3):
            with xpapply.options(device="cuda", memory="3 MB"):
                got = xpapply.apply_along_axis(f, -1, x)
            np.testing.assert_allclose(got, want, rtol=5e-5, atol=5e-5)

    def test_what_f_raises(self):
        def raises(v):
            if float(v[0]) == float(X[200, 3, 0]):
                raise ArithmeticError("this one")
            return float(v.max())

        with (
            xpapply.options(device="cuda", memory="2 MB", fallback="silent"),
            pytest.raises(ArithmeticError, match="this one") as error,
        ):
            xpapply.apply_along_axis(raises, -1, X)
        assert any("the block is arr[" in note for note in error.value.__notes__)

    def test_a_device_that_is_not_there(self):
        with (
            xpapply.options(device="cuda:99"),
            pytest.raises(xpapply.InputError, match=r"there (are|is) .*'cuda:0'"),
        ):
            xpapply.apply_along_axis(lambda v: v.sum(), -1, X)

    def test_arrays_of_the_device_are_not_copied(self):
        import cupy

        x = cupy.asarray(X)
        with xpapply.options(device="cuda"):
            assert xpapply.explain(net(16, 2), -1, x).engine != "stream"
            y = xpapply.apply_along_axis(net(16, 2), -1, x)
        assert isinstance(y, cupy.ndarray)
