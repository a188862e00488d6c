"""Masks, order and numbers of torch tensors inside a function: torch's results, without a loop."""

import numpy as np
import pytest

import xpapply
from conftest import library

torch = library("torch")
GENERATOR = torch.Generator().manual_seed(0)
A = torch.rand((300, 16), generator=GENERATOR)
LEVELS = torch.randint(0, 5, (300, 16), generator=GENERATOR)


def check(f, arr=A, *, vectorized=True, exact=False):
    with xpapply.options(engine="loop"):
        want = xpapply.apply_along_axis(f, -1, arr)
    plan = xpapply.explain(f, -1, arr)
    assert plan.vectorized == vectorized, str(plan)
    with xpapply.options(fallback="silent"):
        got = xpapply.apply_along_axis(f, -1, arr)
    after = xpapply.explain(f, -1, arr)
    assert after.vectorized == vectorized, str(after)
    assert "ran in the loop" not in str(after)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    tolerance = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-5, "atol": 1e-6}
    torch.testing.assert_close(got, want, equal_nan=True, **tolerance)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: v[v > 0.5].mean(),
        lambda v: v[v > 0.5].std(),
        lambda v: v[v > 0.5].var(unbiased=False),
        lambda v: v[v > 0.5].std(0),
        lambda v: v[v > 0.9].sum(),
        lambda v: v[v > 2].median(),
        lambda v: v[v > 0.2].median(),
        lambda v: v[v > 0.2].max(),
        lambda v: v[v > 0.2].min() + v.max(),
        lambda v: v[v > 0.2].argmax(),
        lambda v: (v[v > 0.5] * 2 - 1).exp().sum(),
        lambda v: (v[v > 0.5] - v.mean()).pow(2).mean(),
        lambda v: v[v > 0.5].double().sum() + (v[v > 0.5] > 0.7).sum(),
        lambda v: torch.quantile(v[v > 0.1], 0.3),
        lambda v: torch.linalg.norm(v[v > 0.5]),
        lambda v: torch.masked_select(v, v > 0.5).mean(),
        lambda v: (v[v > 0.5] * v.flip(0)[v > 0.5]).sum(),
        lambda v: v[v > 0.5].sort().values.sum(),
        lambda v: v[v > 0.5].numel(),
        lambda v: len(v[v > 0.5]) / 16,
        lambda v: v[v > 0.5].cumsum(0)[-1] if (v > 0.5).any() else v[0],
        lambda v: v[v > 0.5][v[v > 0.5] < 0.8].sum(),
        lambda v: (v > 0.5).sum() * 1.0,
    ],
)
def test_masks(f):
    check(f)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: v.median(),
        lambda v: v.median(0).values,
        lambda v: v.sort(descending=True).values[:3],
        lambda v: torch.topk(v, 3).values,
        lambda v: v.argsort()[:2],
        lambda v: v.kthvalue(3).values,
        lambda v: torch.quantile(v, 0.3),
        lambda v: v.quantile(torch.tensor([0.2, 0.5]), interpolation="nearest"),
        lambda v: v[v.argmax()],
        lambda v: v.cumsum(0),
        lambda v: v.std(),
        lambda v: v.var(correction=0),
        lambda v: v.max(0).indices,
        lambda v: torch.where(v > 0.5, v, 0.0).sum(),
        lambda v: torch.diff(v).abs().max(),
        lambda v: v[:15].unfold(0, 5, 5).mean(1),
    ],
)
def test_order_and_sums(f):
    check(f)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: v[v > 2].sum(),
        lambda v: v[v > 2].float().mean(),
        lambda v: (v[v > 2] * 0.5).sum(),
        lambda v: (v[v > 2] / v.double().mean()).sum(),
        lambda v: v[v > 2].median() if (v > 2).any() else v[0],
        lambda v: (v[v > 2] == 3).any(),
        lambda v: v[v > 2].prod(),
    ],
)
@pytest.mark.parametrize("dtype", ["int64", "uint8", "int16"])
def test_dtypes_of_masks(f, dtype):
    check(f, LEVELS.to(getattr(torch, dtype)))


def written(v):
    x = np.sort(v.numpy())
    x[0], x[x > 0.9] = x[1], 0.0
    return x


@pytest.mark.parametrize(
    "f",
    [
        lambda v: v.max().item(),
        lambda v: v.argmax().item(),
        lambda v: v.numpy().mean(),
        lambda v: v.numpy().copy(),
        lambda v: np.sort(v.numpy())[0],
        lambda v: np.sort(v.numpy())[np.argmax(v.numpy())],
        lambda v: v.numpy()[v.numpy() > 0.99].sum(),
        written,
        lambda v: 1 if v[0] > 0.5 else 2,
        lambda v: [v[0], v[1]],
    ],
)
def test_numbers_as_results(f):
    check(f)


def test_a_path_for_each_count_is_not_needed():
    plan = xpapply.explain(lambda v: v[v > 0.5].mean(), -1, A)
    assert "grouped" not in plan.kernels[0]


def test_an_empty_selection_raises_as_in_the_loop():
    few = A.clone()
    few[200] = 0.0

    def f(v):
        return v[v > 0.01].max()

    with pytest.raises(RuntimeError) as theirs, xpapply.options(engine="loop"):
        xpapply.apply_along_axis(f, -1, few)
    with pytest.raises(RuntimeError) as ours, xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(f, -1, few)
    assert str(ours.value) == str(theirs.value)
