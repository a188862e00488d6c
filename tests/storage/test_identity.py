"""A function is known again in another process, and one that computes something else is not."""

import functools
import os
import subprocess
import sys

import numpy as np
import pytest

from xpapply.errors import UnsupportedError
from xpapply.functions import identity

OFFSET = 1


def adds(v, k=2):
    return v + OFFSET + k


def calls(v):
    return adds(v) * 2


def scaled(weights):
    return lambda v: v @ weights


class Model:
    def __init__(self, weights):
        self.weights = weights

    def __call__(self, v):
        return self.weights @ v

    def other(self, v):
        return v


W = np.arange(3.0)


def test_what_is_the_same():
    for make in (
        lambda: scaled(W.copy()),
        lambda: Model(W.copy()),
        lambda: Model(W.copy()).other,
        lambda: functools.partial(adds, k=3),
        lambda: {"a": {1, 2, "x"}, "b": frozenset("abc")},
        lambda: np.random.default_rng(0),
        lambda: slice(1, 2),
    ):
        assert identity.of(make()) == identity.of(make())


def test_what_is_not(monkeypatch):
    def body(v):
        return v + 1

    def other_body(v):
        return v - 1

    found = [
        identity.of(f)
        for f in (
            adds, calls, body, other_body, scaled(W), scaled(W + 1), Model(W), Model(W + 1),
            Model(W).other, functools.partial(adds, k=3), functools.partial(adds, k=4), np.sum,
            np.max, np.add, len, W, W.astype("f4"), W.reshape(3, 1), None, 1, 1.0, "1", b"1", True,
        )
    ]  # fmt: skip
    assert len(set(found)) == len(found)
    before = identity.of(adds), identity.of(calls)
    monkeypatch.setitem(globals(), "OFFSET", 2)
    assert identity.of(adds) != before[0]
    assert identity.of(calls) != before[1]
    monkeypatch.setattr(adds, "__defaults__", (3,))
    assert identity.of(adds) not in before


def test_torch_modules():
    torch = pytest.importorskip("torch")
    nets = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        nets.append(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()).eval())
    a, b, c = map(identity.of, nets)
    assert a == b != c
    with torch.no_grad():
        nets[0][0].weight[0, 0] += 1
    assert identity.of(nets[0]) != b


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from xpapply.functions import identity
import test_identity as t
print(identity.of(t.calls), identity.of(t.scaled(t.W)), identity.of(t.Model(t.W)),
      identity.of({"x", "y", "z"}), identity.of(np.median, (1,), {"q": 2}))
"""


def test_another_process():
    command = [sys.executable, "-c", SCRIPT, os.path.dirname(__file__)]
    said = [
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, text=True,
            capture_output=True, timeout=120,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert said[0] == said[1]
    assert len(said[0].split()) == 5


def test_what_has_no_contents(tmp_path):
    with open(tmp_path / "x", "w") as file, pytest.raises(UnsupportedError, match="TextIOWrapper"):
        identity.of(lambda: file)
