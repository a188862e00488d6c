"""Derivatives of xpapply.special: as torch's, and as differences."""

import math

import pytest

from xpapply import special


def differentiable(torch, dtype=None):
    torch.manual_seed(0)
    return torch.randn(2, 3, 4, dtype=dtype or torch.float64, requires_grad=True)


TORCHS = {
    "logsumexp": (lambda x: special.logsumexp(x, 1), lambda t, x: t.logsumexp(x, 1)),
    "logsumexp of all": (special.logsumexp, lambda t, x: t.logsumexp(x, (0, 1, 2))),
    "softmax": (lambda x: special.softmax(x, 1), lambda t, x: t.softmax(x, 1)),
    "log_softmax": (lambda x: special.log_softmax(x, -1), lambda t, x: t.log_softmax(x, -1)),
    **{
        f"norm {p}": (
            lambda x, p=p: special.norm(x, p, 1),
            lambda t, x, p=p: t.linalg.vector_norm(x, p, 1),
        )
        for p in (1, 2, 3, 0.5, math.inf, -math.inf)
    },
    "normalize": (
        lambda x: special.normalize(x, axis=1),
        lambda t, x: t.nn.functional.normalize(x, dim=1),
    ),
    "mean": (lambda x: special.mean_var(x, 1).mean, lambda t, x: t.mean(x, 1)),
    "var": (
        lambda x: special.mean_var(x, (0, 2), 1).var,
        lambda t, x: t.var(x, (0, 2), correction=1),
    ),
    "standardize": (
        lambda x: special.standardize(x, 2, eps=1e-3),
        lambda t, x: t.nn.functional.layer_norm(x, (4,), eps=1e-3),
    ),
    "squared_diff": (lambda x: special.squared_diff(x, x[:1]), lambda t, x: (x - x[:1]) ** 2),
    "max": (lambda x: special.argmax_and_max(x, 1).max, lambda t, x: t.amax(x, 1)),
}


@pytest.mark.parametrize(("ours", "torchs"), TORCHS.values(), ids=TORCHS)
def test_derivatives_as_torchs(torch, ours, torchs):
    x = differentiable(torch)
    y, expected = ours(x), torchs(torch, x)
    torch.testing.assert_close(y, expected)
    g = torch.randn_like(y)
    found, right = (torch.autograd.grad(z, x, g)[0] for z in (y, expected))
    torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("ours", [f for f, _ in TORCHS.values()], ids=TORCHS)
def test_derivatives_as_differences(torch, ours):
    assert torch.autograd.gradcheck(ours, differentiable(torch).detach()[:, :, :2].requires_grad_())


def test_derivatives_of_weights(torch):
    x, b = differentiable(torch), differentiable(torch).detach().abs().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, b: special.logsumexp(x, 1, b), (x, b))
    signed = b.detach() * torch.tensor([1.0, -1.0, 3.0])[:, None]
    f = lambda x, b: special.logsumexp(x, 1, b, return_sign=True)[0]  # noqa: E731
    assert torch.autograd.gradcheck(f, (x, signed.requires_grad_()))


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "norm", "standardize", "normalize"])
def test_derivatives_of_complex_functions(torch, name):
    torch.manual_seed(0)
    z = torch.randn(2, 3, dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: getattr(special, name)(z, axis=1), z)


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax"])
def test_derivatives_beside_masked_elements(torch, name):
    x = torch.tensor([[1.0, -math.inf, 2.0], [0.0, 0.0, -math.inf]], dtype=torch.float64)
    x.requires_grad_()
    y = getattr(special, name)(x, axis=1)
    expected = getattr(torch, name)(x, 1)
    g = torch.where(torch.isfinite(y.detach()), 1.0, 0.0) * torch.arange(1.0, 4)[: y.shape[-1]]
    for z in (y, expected):
        assert torch.isfinite(torch.autograd.grad(z, x, g, retain_graph=True)[0]).all()
    found, right = (torch.autograd.grad(z, x, g)[0] for z in (y, expected))
    torch.testing.assert_close(found, right)


def test_derivatives_of_slices_that_are_masked_whole(torch):
    x = torch.full((2, 3), -math.inf, dtype=torch.float64)
    x[1] = 1.0
    x.requires_grad_()
    g = torch.autograd.grad(special.logsumexp(x, 1).sum(), x)[0]
    assert torch.isfinite(g).all()


@pytest.mark.parametrize("ord", [1, 2, 3, math.inf])
def test_derivatives_at_zero(torch, ord):
    x = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(special.norm(x, ord, 1).sum(), x)[0].isfinite().all()
    assert torch.autograd.grad(special.normalize(x, ord, 1).sum(), x)[0].isfinite().all()


def test_second_derivatives(torch):
    x = differentiable(torch).detach()[0].requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: special.logsumexp(x, 1), x)


def test_results_of_tensors_without_gradients_have_none(torch):
    assert not special.norm(torch.ones(3)).requires_grad
    with torch.no_grad():
        assert not special.norm(differentiable(torch)).requires_grad
