"""options(progress=True): how far loops, blocks of slices and blocks of networks are, on stderr."""

import re

import numpy as np
import pytest

import xpapply
from xpapply.limits import LIMITS
from xpapply.runtime import progress

X = np.random.default_rng(0).normal(size=(40, 50, 8))


@pytest.fixture(params=["tqdm", "a line"])
def bars(request, monkeypatch):
    """Every run shows how far it is, whatever it takes."""
    if request.param == "tqdm":
        pytest.importorskip("tqdm")
    else:
        find = progress.importlib.util.find_spec
        monkeypatch.setattr(
            progress.importlib.util, "find_spec", lambda n: None if n == "tqdm" else find(n)
        )
    monkeypatch.setattr(LIMITS, "progress_after", -1.0)
    monkeypatch.setattr(LIMITS, "progress_every", 0.0)
    with xpapply.options(progress=True, fallback="silent"):
        yield request.param


def counts(err):
    """What was shown of how many slices were done, and of how many."""
    found = re.findall(r"([\d.,]+k?)(?:/| of )([\d.,]+k?)", err)
    number = lambda t: round(float(t.strip("k").replace(",", "")) * (1000 if "k" in t else 1))  # noqa: E731
    return [tuple(map(number, pair)) for pair in found]


def text(v):
    return len(f"{v[0]}")


RUNS = {
    "loop": lambda: xpapply.apply_along_axis(text, -1, X),
    "loop of several axes": lambda: xpapply.apply_along_axis(text, (2, 1), X[None]),
    "functions of numbers": lambda: xpapply.vectorize(lambda a: len(str(a)))(X),
    "functions of slices": lambda: xpapply.vectorize(text, signature="(n)->()")(X),
}


@pytest.mark.parametrize("name", RUNS)
def test_loops(name, bars, capsys):
    RUNS[name]()
    shown, total = zip(*counts(capsys.readouterr().err), strict=True)
    wanted = {"loop of several axes": 8, "functions of numbers": X.size}.get(name, 2000)
    assert set(total) == {wanted}
    assert shown[-1] == wanted
    assert list(shown) == sorted(shown)
    assert len(shown) > 5


def test_blocks_of_slices(bars, capsys, monkeypatch):
    monkeypatch.setattr(LIMITS, "python_block", 1 << 13)
    with xpapply.options(engine="numpy"):
        xpapply.apply_along_axis(lambda v: np.sort(v)[::-1].cumsum(), -1, X)
    shown = counts(capsys.readouterr().err)
    assert shown[-1] == (2000, 2000)
    assert len({done for done, _ in shown}) > 3


def test_blocks_of_a_network(bars, capsys):
    net = xpapply.MLP([np.ones((4, 8)), np.ones((1, 4))])
    with xpapply.options(engine="numpy", block_bytes=1 << 14):
        xpapply.apply_along_axis(net, -1, X)
    shown = counts(capsys.readouterr().err)
    assert shown[-1][0] == shown[-1][1] > 3


def test_only_the_outermost_run_is_shown(bars, capsys):
    def outer(v):
        return xpapply.apply_along_axis(text, 0, v.reshape(4, 2)).sum() + len(str(v))

    with xpapply.options(engine="loop"):
        xpapply.apply_along_axis(outer, -1, X[:2])
    assert {total for _, total in counts(capsys.readouterr().err)} == {100}


def test_in_several_processes(bars, capsys, monkeypatch):
    pytest.importorskip("joblib")

    monkeypatch.setattr(LIMITS, "workers_look", 0.0)
    monkeypatch.setattr(LIMITS, "workers_worth", -1.0)
    with xpapply.options(workers=2):
        xpapply.apply_along_axis(text, -1, X)
    assert counts(capsys.readouterr().err)[-1] == (2000, 2000)


def test_an_error_ends_the_bar(bars, capsys):
    def f(v):
        if v[0] == X[1, 0, 0]:
            raise KeyError(str(v))
        return v[0]

    with pytest.raises(KeyError), xpapply.options(engine="loop"):
        xpapply.apply_along_axis(f, -1, X)
    assert counts(capsys.readouterr().err)[-1] == (51, 2000)
    xpapply.apply_along_axis(text, -1, X)
    assert counts(capsys.readouterr().err)[-1] == (2000, 2000)


@pytest.mark.parametrize("on", [False, True])
def test_nothing_is_shown_of_quick_runs_or_unasked(on, capsys, monkeypatch):
    if not on:
        monkeypatch.setattr(LIMITS, "progress_after", -1.0)
    with xpapply.options(progress=on, fallback="silent"):
        for run in RUNS.values():
            run()
    assert capsys.readouterr().err == ""
