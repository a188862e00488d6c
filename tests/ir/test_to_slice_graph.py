"""Graphs of one slice as slice graphs: the same results, or none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xpapply
from xpapply import arrays
from xpapply.backends import array_api
from xpapply.ir.rewrite import compact
from xpapply.ir.slices.to_slice_graph import sliced

N = 7
W = np.linspace(-1, 2, N)
ROW, NUMBER = W[None], np.array([1.5])

FUNCTIONS = {
    # one number per element
    "x - mean": lambda v: v - v.mean(),
    "zscore": lambda v: (v - v.mean()) / v.std(),
    "zscore, correction": lambda v: (v - v.mean()) / v.std(ddof=1),
    "softmax": lambda v: np.exp(v - v.max()) / np.exp(v - v.max()).sum(),
    "softmax, unshifted": lambda v: np.exp(v) / np.exp(v).sum(),
    "log_softmax": lambda v: (v - v.max()) - np.log(np.exp(v - v.max()).sum()),
    "unit": lambda v: v / np.sqrt((v * v).sum()),
    "min to max": lambda v: (v - v.min()) / (v.max() - v.min()),
    "weighted": lambda v: v * W + 1,
    "weighted, as a row": lambda v: (v * ROW).reshape(-1),
    "sum of each": lambda v: v + v.sum(keepdims=True),
    "number": lambda v: v * NUMBER,
    "clipped": lambda v: np.clip(v, -1, 2),
    "chosen": lambda v: np.where(v > v.mean(), v, W),
    "sums times weights": lambda v: v.sum() * W,
    "elementwise": lambda v: np.exp(-abs(v)),
    # one number per slice
    "sum": lambda v: v.sum(),
    "sum, with its dim": lambda v: v.sum(keepdims=True),
    "prod": lambda v: v.prod(),
    "range": lambda v: v.max() - v.min(),
    "argmax": lambda v: v.argmax(),
    "argmin": lambda v: v.argmin(),
    "mean": lambda v: v.mean(),
    "var": lambda v: v.var(ddof=1),
    "logsumexp": lambda v: np.log(np.exp(v - v.max()).sum()) + v.max(),
    "sum of exp(x - max)": lambda v: np.exp(v - v.max()).sum(),
    "mean of exp(x - max)": lambda v: np.exp(v - v.max()).mean(),
    "sum of exp(x - min)": lambda v: np.exp(v.min() - v).sum(),
    "sum of squares": lambda v: (v * v).sum(),
    "sum of squared differences": lambda v: np.sum((v - v.mean()) ** 2),
    "the same of a sum": lambda v: np.sum((v - v.sum() / N) ** 2),
    "not quite the same": lambda v: np.sum((v - v.sum() / (N - 1)) ** 2),
    "differences from another mean": lambda v: np.sum((v - (v * W).mean()) ** 2),
    "differences and their mean": lambda v: np.sum((v - v.mean()) * (v - v.max())),
    "std by hand": lambda v: np.sqrt(((v - v.mean()) ** 2).mean()),
    "dot": lambda v: v @ W,
    "product with a row": lambda v: ROW @ v,
    "norm": lambda v: np.linalg.norm(v),
    "two levels": lambda v: abs(v - v.mean()).max() / v.std(),
    "three levels": lambda v: ((v - v.mean()) / v.std()).max() + np.exp(v / v.max()).sum(),
}
REFUSED = {
    "reversed": lambda v: v[::-1] - v,
    "every second": lambda v: v[::2].sum(),
    "first": lambda v: v - v[0],
    "neighbours": lambda v: v[1:] - v[:-1],
    "joined": lambda v: np.concatenate([v, v * 2]),
    "stacked": lambda v: np.stack([v.sum(), v.max()]),
    "matrix": lambda v: np.ones((3, N)) @ v,
    "row": lambda v: v * ROW,
    "row of one": lambda v: v.sum() * ROW,
    "new dim": lambda v: v[None] * 2,
    "column": lambda v: v.reshape(-1, 1) * W,
    "matrix of weights": lambda v: (v * np.ones((3, N))).sum(),
    "reshaped": lambda v: v[:6].reshape(2, 3).sum(),
    "nothing of the slice": lambda v: v.sum() * 0 + np.array([1.0, 2.0]),
}


def both(graph, x):
    """The results of the slice graph, and those of the graph itself: a row of each slice."""
    graph = compact(graph)
    found = sliced(graph)
    assert found is not None
    given = [x]
    for i, k in zip(found.graph.inputs[1:], found.consts, strict=True):
        vector = found.graph.is_vector(i)
        given.append(graph.consts[k].reshape(1, -1) if vector else graph.consts[k].reshape(())[()])
    xp = arrays.compat(x)
    with np.errstate(all="ignore"):
        (got,) = array_api.evaluate(xp, found.graph, given, axes=(1,))
        lowered = array_api.BACKEND.lower(graph)
        want = np.asarray(lowered(x, 1, lowered.bind(graph.consts, x)))
    got = np.broadcast_to(got, (len(x), N if found.graph.is_vector(found.graph.outs[0]) else 1))
    assert got.dtype == want.dtype
    return got, want.reshape(got.shape)


def close(got, want, x, eps):
    with np.errstate(all="ignore"):
        size = np.nanmax(np.where(np.isfinite(x), abs(x), 0), initial=1)
        np.testing.assert_allclose(got, want, rtol=1e4 * eps, atol=100 * eps * size * size)


def rows(seed, odd, dtype):
    """Slices with NaN and infinities, among them some that have nothing else."""
    rng = np.random.default_rng(seed)
    x = np.round(rng.standard_normal((12, N)) * 3, 2).astype(dtype)
    if odd:
        some = rng.random(x.shape) < 0.15
        x[some] = rng.choice(np.array([np.nan, np.inf, -np.inf, -0.0, 0.0], dtype), some.sum())
        x[:4] = np.array([np.inf, -np.inf, np.nan, 0.0], dtype)[:, None]
        x[4, 1:] = -np.inf
        x[5, :] = np.where(np.arange(N) % 2, np.inf, -np.inf)
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_slices(name, dtype):
    """What the graph gives, NaN and infinities included."""
    graph = xpapply.lift(FUNCTIONS[name], (N,), dtype)
    eps = np.finfo(dtype).eps

    @settings(max_examples=6)
    @given(st.integers(0, 2**32 - 1), st.booleans())
    def each(seed, odd):
        x = rows(seed, odd, dtype)
        got, want = both(graph, x)
        if "zscore" in name or "two" in name or "three" in name or "to max" in name:
            with np.errstate(all="ignore"):  # constant slices are 0 / 0 but for rounding
                clear = ~(x.std(axis=1) == 0)
            got, want, x = got[clear], want[clear], x[clear]
        close(got, want, x, eps)

    each()


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_function_of_whole_slices(name):
    graph = compact(xpapply.lift(REFUSED[name], (N,), "float64"))
    assert sliced(graph) is None


def test_slices_of_one_element_are_refused():
    """A number per element would look like one per slice."""
    assert sliced(xpapply.lift(lambda v: v - v.mean(), (1,), "float64")) is None


MODULES = {
    "Softmax": lambda nn: nn.Softmax(-1),
    "LogSoftmax": lambda nn: nn.LogSoftmax(-1),
    "LayerNorm": lambda nn: nn.LayerNorm(N),
    "LayerNorm, plain": lambda nn: nn.LayerNorm(N, elementwise_affine=False),
    "activations": lambda nn: nn.Sequential(nn.GELU(), nn.LayerNorm(N), nn.Softmax(-1), nn.SiLU()),
}


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_modules(torch, name, odd):
    torch.manual_seed(0)
    net = MODULES[name](torch.nn).eval()
    for p in net.parameters():
        torch.nn.init.normal_(p)
    x = rows(1, odd, "float32")
    if "Norm" in name or name == "activations":
        x = x[6:]  # constant slices of large numbers are noise over noise
    got, want = both(xpapply.lift(net, (N,), "float32"), x)
    close(got, want, x, np.finfo("f").eps)


def test_a_linear_layer_is_none(torch):
    net = torch.nn.Sequential(torch.nn.Linear(N, N), torch.nn.Softmax(-1)).eval()
    assert sliced(compact(xpapply.lift(net, (N,), "float32"))) is None


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("sum of exp(x - max)", "sum of exponentials"),
        ("mean of exp(x - max)", "sum of exponentials"),
        ("sum of squared differences", "moments"),
        ("the same of a sum", "moments"),
        ("std by hand", "moments"),
        ("sum of exp(x - min)", None),
        ("not quite the same", None),
        ("differences from another mean", None),
        ("differences and their mean", None),
    ],
)
def test_what_takes_one_pass(name, by):
    """Sums that need the maximum or the mean first are found together with that."""
    graph = sliced(compact(xpapply.lift(FUNCTIONS[name], (N,), "float64"))).graph
    names = {a.name for a, _ in graph.accumulations()}
    assert (names == {by}) if by else not names & {"sum of exponentials", "moments"}
    assert (max(graph.levels()) == 1) == (by is not None)


@pytest.mark.parametrize(
    ("f", "want"),
    [
        (lambda v: v.mean(), 100.0),
        (lambda v: v.sum() / 1000, np.inf),  # as NumPy: the sum is a float16
        (lambda v: v.var(), 0.0),
        (lambda v: (v - v.mean()).max(), 0.0),
        (lambda v: (v / 1000).sum(), 300.0),
        (lambda v: np.exp(v - v.max()).sum(), 3000.0),
        (lambda v: (v / 1000) @ np.ones(3000, "float16"), 300.0),
    ],
)
def test_float16_is_summed_in_more_bits(f, want):
    """Lengths and sums that float16 does not hold on the way, as NumPy has it."""
    found = sliced(compact(xpapply.lift(f, (3000,), "float16")))
    x = np.full((1, 3000), 100, "float16")
    with np.errstate(all="ignore"):
        given = [x, np.ones((1, 3000), "float16")][: 1 + len(found.consts)]
        (got,) = array_api.evaluate(np, found.graph, given, axes=(1,))
    assert got.dtype == np.float16
    np.testing.assert_allclose(got.ravel(), [want], rtol=1e-3)
