import gc
import json
import pickle
import warnings
import weakref
from unittest import mock

import numpy as np
import pytest

import xpapply
from conftest import FUSED
from xpapply.limits import LIMITS

RNG = np.random.default_rng(0)
NET = xpapply.MLP([RNG.standard_normal((5, 8)), RNG.standard_normal((2, 5))])
ARR = RNG.standard_normal((10, 8, 3))
MANY = np.zeros((1000, 2))


def plain(v):
    return v.sum()


def plans():
    yield xpapply.explain(NET, 1, ARR)
    yield xpapply.explain(plain, 1, ARR)
    yield xpapply.compile(NET, (8,), "float64")
    with xpapply.options(engine="array_api"):
        yield xpapply.explain(NET, 1, ARR)


def test_repeated_calls_ask_for_the_same_things():
    first = xpapply.apply_along_axis(NET, 1, ARR)
    for axis in (1, -2, np.int64(1)):
        np.testing.assert_array_equal(xpapply.apply_along_axis(NET, axis, ARR), first)
    np.testing.assert_array_equal(xpapply.apply_along_axis(NET, 1, ARR.tolist()), first)
    for axis in (3, -4, -5):
        with pytest.raises(np.exceptions.AxisError):
            xpapply.apply_along_axis(NET, axis, ARR)
    with pytest.raises(TypeError):
        xpapply.apply_along_axis(NET, 1.0, ARR)
    with pytest.raises(xpapply.InputError, match="features"):
        xpapply.apply_along_axis(NET, 0, ARR)
    with xpapply.options(engine="loop"):
        np.testing.assert_allclose(xpapply.apply_along_axis(NET, 1, ARR), first)


def test_a_plan_for_one_library_given_the_array_of_another():
    torch = pytest.importorskip("torch")
    plan = xpapply.explain(NET, 1, ARR)
    got = plan(torch.from_numpy(ARR), 1)
    assert isinstance(got, torch.Tensor)
    np.testing.assert_allclose(got.numpy(), plan(ARR, 1))


@pytest.mark.parametrize("plan", list(plans()), ids=lambda p: p.engine)
def test_what_a_plan_shows(plan):
    assert plan.vectorized == (plan.engine != "loop")
    assert len(str(plan).splitlines()) <= 6
    assert plan.name in str(plan)
    assert json.loads(json.dumps(plan.to_dict()))["engine"] == plan.engine
    assert plan.vectorized or plan.reasons


def test_what_it_says_is_what_happens():
    plan = xpapply.explain(NET, 1, ARR)
    result = xpapply.apply_along_axis(NET, 1, ARR)
    assert plan.out_shape == result.shape == (10, 2, 3)
    assert plan.out_dtype == result.dtype.name
    assert plan.slices == 30
    assert plan.cost() == (30 * (8 + 2) * 8, 30 * plan.graph.flops())
    np.testing.assert_array_equal(plan(ARR, 1), result)


def test_notebooks_show_the_text():
    pretty = pytest.importorskip("IPython.lib.pretty")
    plan = xpapply.explain(NET, 1, ARR)
    assert pretty.pretty(plan) == str(plan)


def test_compiled_plans_go_through_pickle(xp):
    net = xpapply.MLP([w.astype(np.float32) for w in NET.weights])
    plan = pickle.loads(pickle.dumps(xpapply.compile(net, (8,), "float32")))
    numbers = ARR.astype(np.float32)
    arr = xp.array(numbers)
    result = plan(arr, 1)
    assert type(result) is type(arr)
    expected = xpapply.apply_along_axis(net, 1, numbers)
    np.testing.assert_allclose(xp.numpy(result), expected, rtol=1e-5, atol=1e-6)


def test_compiled_plans_need_no_torch(torch, tmp_path):
    import subprocess
    import sys

    net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Tanh()).eval()
    plan = xpapply.compile(net, (8,), "float64")
    arr = np.ascontiguousarray(np.moveaxis(ARR, 1, -1))
    np.save(tmp_path / "arr.npy", arr)
    (tmp_path / "plan").write_bytes(pickle.dumps(plan))
    code = (
        "import pickle, sys, numpy as np\n"
        "plan = pickle.loads(open('plan', 'rb').read())\n"
        "np.save('out.npy', plan(np.load('arr.npy')))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    expected = xpapply.apply_along_axis(net, -1, arr)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, rtol=1e-5, atol=1e-6)


def test_a_compiled_plan_keeps_its_weights(torch):
    net = torch.nn.Linear(8, 4)
    plan = xpapply.compile(net, (8,), "float64")
    before = plan(ARR, 1)
    net.weight.data.zero_()
    np.testing.assert_array_equal(plan(ARR, 1), before)


@pytest.mark.parametrize("net", [NET, xpapply.MLP([np.ones((1, 1))])])
def test_wrong_arrays_for_a_compiled_plan(net):
    plan = xpapply.compile(net, (net.weights[0].shape[1],), "float64")
    with pytest.raises(xpapply.InputError, match=r"float64\[\d\].*float64\[10\]"):
        plan(np.zeros((2, 10)))
    with pytest.raises(xpapply.InputError, match=r"float64.*float32"):
        plan(np.zeros((2, *plan.slice.shape), np.float32))
    with pytest.raises(np.exceptions.AxisError):
        plan(ARR, 3)


def test_a_compiled_plan_takes_lists():
    np.testing.assert_array_equal(
        xpapply.compile(NET, (8,), "float64")(ARR.tolist(), 1),
        xpapply.apply_along_axis(NET, 1, ARR),
    )


def test_plans_run_arrays_of_any_layout(torch):
    """The engine that was chosen for one array may be unable to read another one's memory."""
    expected = xpapply.apply_along_axis(NET, 1, ARR)
    compiled = xpapply.compile(NET, (8,), "float64")
    compiled(ARR, 1)
    for plan in (compiled, xpapply.explain(NET, 1, ARR)):
        for view in (np.s_[::-1], np.s_[:, :, ::-1], np.s_[::2, :, ::-2]):
            np.testing.assert_allclose(plan(ARR[view], 1), expected[view], rtol=1e-12)


def test_plans_without_a_graph_are_not_pickled():
    with pytest.raises(TypeError, match="slow"):
        pickle.dumps(xpapply.explain(slow, 1, ARR))


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (lambda v: print(v), "calls print"),
        (lambda v: v if v[0] > 0 else -v, r"decides by the data \(test_plan.py:\d+\)"),
        (lambda v: np.convolve(v, [1, 1]), r"numpy.convolve is not an op of the table \(test_plan"),
        (lambda v: v.nothing, "raises AttributeError"),
    ],
)
def test_compile_and_lift_refuse_with_the_reason(f, reason):
    for call in (xpapply.compile, xpapply.lift):
        with pytest.raises(xpapply.UnsupportedError, match=reason):
            call(f, (8,))


def test_a_python_function_is_compiled():
    plan = pickle.loads(pickle.dumps(xpapply.compile(plain, (8,), "float64")))
    np.testing.assert_allclose(plan(ARR, 1), np.apply_along_axis(plain, 1, ARR), rtol=1e-13)


# --- the slow way is never silent -----------------------------------------------------


def slow(v):
    """What cannot be traced, and takes a while."""
    return sum(ord(c) for c in str(v[0]) * 20)


def test_one_warning_per_function():
    def one(v):
        return slow(v)

    def other(v):
        return slow(v) + 1

    for f in (one, other):
        with pytest.warns(xpapply.FallbackWarning, match=r"slice by slice.*1,000 calls") as caught:
            xpapply.apply_along_axis(f, 1, MANY)
        assert caught[0].filename == __file__
        assert f.__name__ in str(caught[0].message)
        xpapply.apply_along_axis(f, 1, MANY)  # a second warning would be an error


def test_few_slices_of_plain_functions_do_not_warn():
    xpapply.apply_along_axis(lambda v: slow(v), 1, MANY[1:])
    xpapply.apply_along_axis(lambda v: slow(v), 0, np.zeros((2, 999)))
    with pytest.warns(xpapply.FallbackWarning):
        xpapply.apply_along_axis(lambda v: slow(v), 0, np.zeros((2, 10, 100)))


def test_what_takes_no_time_does_not_warn(monkeypatch):
    monkeypatch.setattr(LIMITS, "plan_worth", 60.0)
    xpapply.apply_along_axis(lambda v: hash(v[0]) == 1, 1, MANY)


def test_networks_warn_sooner(torch):
    net = torch.nn.Linear(2, 2)
    net.register_forward_hook(lambda *_: None)
    with pytest.warns(xpapply.FallbackWarning, match="hook") as caught:
        xpapply.apply_along_axis(net, 1, MANY[:3])
    assert caught[0].filename == __file__
    net = torch.nn.Linear(2, 2)
    net.register_forward_hook(lambda *_: None)
    with pytest.warns(xpapply.FallbackWarning, match="2 calls"):
        xpapply.apply_along_axis(net, 1, torch.zeros(2, 2))


def test_silent_and_raise():
    calls = []
    with xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(lambda v: slow(v), 1, MANY)
    with (
        xpapply.options(fallback="raise"),
        pytest.raises(xpapply.UnsupportedError, match="slice by slice"),
    ):
        xpapply.apply_along_axis(lambda v: calls.append(1), 1, MANY)
    assert not calls
    with xpapply.options(fallback="raise"):  # what is fast is not refused
        xpapply.apply_along_axis(NET, 1, ARR)


def test_asking_for_the_loop_is_no_reason_to_warn():
    with warnings.catch_warnings(), xpapply.options(engine="loop", fallback="raise"):
        warnings.simplefilter("error")
        xpapply.apply_along_axis(NET, 1, ARR)


def test_functions_are_not_kept_alive(torch):
    net = torch.nn.Linear(8, 4)
    xpapply.apply_along_axis(net, 1, ARR)
    xpapply.apply_along_axis(net.forward, 1, ARR)
    dead = weakref.ref(net)
    del net
    gc.collect()
    assert dead() is None


@pytest.mark.parametrize("args", [(), (2.0,)])
def test_repeated_calls_of_functions_choose_no_engine(torch, monkeypatch, args):
    """Also with arguments of `f`, whose plan is made anew: what the trace tells stays."""
    f = lambda v, a=1.0: torch.relu(v * a) + v.mean()  # noqa: E731
    x = torch.randn(20, 8)
    want = torch.stack([f(v, *args) for v in x])
    torch.testing.assert_close(xpapply.apply_along_axis(f, 1, x, *args), want)
    chosen = mock.Mock(side_effect=AssertionError("chosen again"))
    monkeypatch.setattr("xpapply.planning.engines.choose", chosen)
    monkeypatch.setattr("xpapply.frontends.python.sandbox.tracing.impure", chosen)
    for _ in range(2):
        torch.testing.assert_close(xpapply.apply_along_axis(f, 1, x, *args), want)
    monkeypatch.undo()
    with xpapply.options(engine="array_api"):
        assert xpapply.explain(f, 1, x, *args).engine == "array_api"
    assert xpapply.explain(f, 1, x, *args).engine in FUSED
