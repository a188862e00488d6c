"""What docs/models.md says has a graph, and what has none."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.special

import xpapply

NAMESPACES = {"np": np, "special": scipy.special, "X": np.arange(8.0), "W": np.eye(8)}
NUMPY = {
    "has a graph": {
        "where": "np.where(v > 0, v, 0)",
        "clip": "np.clip(v, 0, 1)",
        "hypot": "np.hypot(v, 1)",
        **{k: f"np.{k}(v)" for k in "exp log sin sum prod mean var std max min ptp".split()},
        **{k: f"np.{k}(v)" for k in "argmax argmin".split()},
        "dot": "np.dot(v, v)",
        "@": "W @ v",
        "linalg.norm": "np.linalg.norm(v)",
        "concatenate": "np.concatenate([v, v])",
        "special.expit": "special.expit(v)",
        "special.erf": "special.erf(v)",
    },
    "has none": {
        **{
            k: f"np.{k}(v)"
            for k in "sort argsort median cumsum cumprod diff gradient unique round any".split()
        },
        **{k: f"np.{k}(v, 0.3)" for k in "percentile quantile".split()},
        **{k: f"np.{k}(v)" for k in "count_nonzero nanmean histogram fft.rfft".split()},
        "partition": "np.partition(v, 3)",
        "convolve": "np.convolve(v, [1, 2, 1])",
        "interp": "np.interp(2.5, X, v)",
        "searchsorted": "np.searchsorted(v, 0.5)",
        "einsum": "np.einsum('i,i', v, v)",
        "roll": "np.roll(v, 1)",
        "linalg.lstsq": "np.linalg.lstsq(W, v)[0]",
        "polyfit": "np.polyfit(X, v, 1)",
        "if": "v.sum() if v[0] > 0 else v.max()",
        **{f"special.{k}": f"special.{k}(v)" for k in "logsumexp softmax gamma".split()},
    },
}
TORCH = {
    "has a graph": "mean std var amax max argmax prod softmax where clamp matmul",
    "has none": "sort argsort median quantile kthvalue topk logsumexp norm cumsum cumprod diff "
    "flip roll einsum cdist fft.rfft nn.MultiheadAttention",
}
OTHERS = {"stats"}


def columns():
    """The names in the table, by the head of the column."""
    text = Path(__file__).parents[2].joinpath("docs", "models.md").read_text()
    rows = [r.split("|") for r in text.splitlines() if re.match(r"\| (NumPy|SciPy|torch) in", r)]
    assert len(rows) == 3
    for k, head in ((2, "has a graph"), (3, "has none")):
        of_numpy, of_torch = rows[0][k] + rows[1][k], rows[2][k]
        yield head, *(set(re.findall("`(.+?)`", x)) - OTHERS for x in (of_numpy, of_torch))


def test_the_table_has_what_is_tested_here():
    for head, of_numpy, of_torch in columns():
        assert of_numpy == set(NUMPY[head])
        assert of_torch == set(TORCH[head].split())


@pytest.mark.parametrize("name", NUMPY["has a graph"])
def test_functions_that_have_a_graph(name, tmp_path):
    f = eval(f"lambda v: {NUMPY['has a graph'][name]}", NAMESPACES)
    plan = xpapply.compile(f, (8,), "float64")
    plan.save(tmp_path / "f.xpapply")
    rows = np.random.default_rng(0).random((5, 8))
    want = np.apply_along_axis(f, 1, rows)
    np.testing.assert_allclose(xpapply.load_model(tmp_path / "f.xpapply")(rows), want, rtol=1e-12)


@pytest.mark.parametrize("name", NUMPY["has none"])
def test_functions_that_have_none(name):
    f = eval(f"lambda v: {NUMPY['has none'][name]}", NAMESPACES)
    with pytest.raises(xpapply.UnsupportedError):
        xpapply.compile(f, (8,), "float64")


@pytest.mark.parametrize("name", [n for names in TORCH.values() for n in names.split()])
def test_networks(name):
    torch = pytest.importorskip("torch")
    more = {
        "where": lambda x: torch.where(x > 0, x, 0),
        "clamp": lambda x: x.clamp(0, 1),
        "matmul": lambda x: torch.matmul(x, torch.ones(8, 3)),
        "max": lambda x: x.max(-1).values,
        "quantile": lambda x: x.quantile(0.3, -1),
        "kthvalue": lambda x: x.kthvalue(2, -1).values,
        "topk": lambda x: x.topk(2, -1).values,
        "norm": lambda x: x.norm(dim=-1),
        "flip": lambda x: x.flip(-1),
        "roll": lambda x: x.roll(1, -1),
        "einsum": lambda x: torch.einsum("...i,ij->...j", x, torch.ones(8, 3)),
        "cdist": lambda x: torch.cdist(x[None], torch.ones(3, 8))[0],
        "fft.rfft": lambda x: torch.fft.rfft(x).abs(),
    }
    f = more.get(name) or (lambda x: getattr(torch, name)(x, dim=-1))

    class Net(torch.nn.Module):
        def forward(self, x):
            return f(x)

    net = Net().eval()
    if name == "nn.MultiheadAttention":
        net = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
    if name in TORCH["has a graph"].split():
        xpapply.compile(net, (8,))
        return
    with pytest.raises(xpapply.UnsupportedError):
        xpapply.compile(net, (8,))
