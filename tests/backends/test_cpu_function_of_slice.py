"""Functions of one slice as functions of slices, on the memory of tensors and arrays."""

import numpy as np
import pytest

import xpapply

pytest.importorskip("llvmlite")

SHAPES = [(40, 12, 5), (12, 300), (3, 4, 2000), (1, 70_000)]


@pytest.fixture(autouse=True)
def compiled():
    with xpapply.options(engine="cpu"):
        yield


def axes_of(shape):
    return [a for a, n in enumerate(shape) if (n > 1 and np.prod(shape) > n) or n > 5000]


CASES = [(s, a) for s in SHAPES for a in axes_of(s)]


@pytest.mark.parametrize(("shape", "axis"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_tensors(torch, shape, axis, dtype):
    x = torch.randn(shape, dtype=getattr(torch, dtype)) + 1
    weights = torch.linspace(-1, 2, shape[axis], dtype=x.dtype)
    for f, whole in {
        lambda v: (v - v.mean()) / v.std(correction=0): lambda y: (
            (y - y.mean(axis, keepdim=True)) / y.std(axis, keepdim=True, correction=0)
        ),
        lambda v: torch.softmax(v, 0): lambda y: torch.softmax(y, axis),
        lambda v: (v * weights).sum() * 2: lambda y: 2 * torch.tensordot(y, weights, ([axis], [0])),
    }.items():
        assert xpapply.explain(f, axis, x).engine == "cpu"
        got = xpapply.apply_along_axis(f, axis, x)
        assert type(got) is torch.Tensor
        torch.testing.assert_close(got, whole(x), rtol=2e-4, atol=2e-4)


def test_views_and_tensors_that_are_not_contiguous(torch):
    x = torch.randn(30, 2, 9).transpose(0, 2)[::2]
    f = lambda v: v - v.max()  # noqa: E731
    torch.testing.assert_close(xpapply.apply_along_axis(f, 1, x), x - x.amax(1, keepdim=True))


def test_what_numpy_cannot_view_runs_all_the_same(torch):
    x = torch.randn(40, 7).bfloat16()
    with xpapply.options(engine=""):
        got = xpapply.apply_along_axis(lambda v: v - v.max(), 1, x)
    torch.testing.assert_close(got, x - x.amax(1, keepdim=True))


def test_autograd_records_the_call(torch):
    x = torch.randn(40, 7, requires_grad=True)
    with xpapply.options(engine="", fallback="silent"):
        xpapply.apply_along_axis(lambda v: torch.softmax(v, 0), 1, x).sum().backward()
    assert x.grad is not None


def test_bfloat16_weights_on_slices_that_have_another_dtype(torch):
    """NumPy cannot view the results."""
    net = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False), torch.nn.Tanh())
    net = net.to(torch.bfloat16).eval()
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.tensor([0.125, -0.5], dtype=dtype)
        with torch.no_grad():
            got = xpapply.apply_along_axis(net, 0, x)
            torch.testing.assert_close(got, net(x.to(torch.bfloat16)))
