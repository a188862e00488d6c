"""Tensors that take part in autograd stay differentiable, through torch's own operations."""

import pytest

import xpapply
from conftest import FUSED

torch = pytest.importorskip("torch")
nn = torch.nn


def network():
    torch.manual_seed(0)
    layers = (nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Linear(6, 3), nn.GELU())
    return nn.Sequential(*layers).double().eval()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gradcheck_of_the_input(axis):
    net = network()
    shape = [2, 3, 2]
    shape[axis] = 4
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: xpapply.apply_along_axis(net, axis, v), (x,))


def test_gradients_of_the_parameters():
    """The gradients that a batch through the module gives."""
    net = network()
    x = torch.randn(5, 4, 3, dtype=torch.float64)
    xpapply.apply_along_axis(net, 1, x).square().sum().backward()
    got = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net(x.movedim(1, -1).reshape(-1, 4)).square().sum().backward()
    for g, p in zip(got, net.parameters(), strict=True):
        torch.testing.assert_close(g, p.grad)


def test_without_recording_it_runs_fused():
    net = network()
    x = torch.randn(5, 4, dtype=torch.float64)
    recorded = xpapply.explain(net, 1, x)
    assert recorded.engine == "torch.vmap"
    assert "no_grad" in recorded.reasons[0]
    with torch.no_grad():
        assert xpapply.explain(net, 1, x).engine in FUSED
        fused = xpapply.apply_along_axis(net, 1, x)
    assert not fused.requires_grad
    torch.testing.assert_close(fused, xpapply.apply_along_axis(net, 1, x).detach())


def test_parameters_that_stop_requiring_gradients():
    net, x = network(), torch.randn(5, 4, dtype=torch.float64)
    assert xpapply.apply_along_axis(net, 1, x).requires_grad
    net.requires_grad_(False)
    assert not xpapply.apply_along_axis(net, 1, x).requires_grad
    net[0].weight.requires_grad_(True)
    assert xpapply.apply_along_axis(net, 1, x).requires_grad


def test_numpy_arrays_are_not_recorded():
    net = network()
    x = torch.randn(5, 4, dtype=torch.float64).numpy()
    assert xpapply.explain(net, 1, x).engine in FUSED


def images(layers, shape):
    torch.manual_seed(0)
    net = nn.Sequential(*layers).double().eval()
    return net, torch.randn(shape, dtype=torch.float64)


CONVOLUTIONS = {
    "series": lambda: ([nn.Conv1d(2, 3, 3, padding=1), nn.Tanh(), nn.AvgPool1d(2)], (3, 2, 6)),
    "images": lambda: (
        [nn.Conv2d(1, 2, (2, 3)), nn.BatchNorm2d(2), nn.Tanh(), nn.MaxPool2d(2), nn.Flatten()],
        (3, 1, 5, 6),
    ),
    "volumes": lambda: (
        [nn.Conv3d(1, 2, 2), nn.GELU(), nn.Flatten(), nn.Linear(16, 2)],
        (2, 1, 3, 3, 3),
    ),
    "up": lambda: ([nn.ConvTranspose2d(2, 1, 2, 2), nn.ELU()], (2, 2, 2, 3)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("last", [False, True])
def test_convolutions(name, last):
    """Gradients of the input and of the parameters; with the stack's axis last, too."""
    net, x = images(*CONVOLUTIONS[name]())
    axes = tuple(range(x.ndim - 1)) if last else tuple(range(1, x.ndim))
    stack = (x.movedim(0, -1).contiguous() if last else x).requires_grad_()

    def f(v):
        return xpapply.apply_along_axis(net, axes, v)

    assert torch.autograd.gradcheck(f, (stack,))
    y = f(stack)
    y.square().sum().backward()
    got = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    want = net(x.detach())
    want.square().sum().backward()
    torch.testing.assert_close(y.movedim(-1, 0) if last else y, want)
    for g, p in zip(got, net.parameters(), strict=True):
        torch.testing.assert_close(g, p.grad)
