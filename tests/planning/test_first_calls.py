"""The first calls of networks and estimators run in the loop, until a plan has paid."""

import gc
import subprocess
import sys
import textwrap
import weakref

import numpy as np
import pytest

import xpapply
from xpapply.functions.cache import cache_of
from xpapply.limits import LIMITS
from xpapply.planning.python import unplanned

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def waits(monkeypatch):
    monkeypatch.setattr(LIMITS, "first_plan", 60.0)
    monkeypatch.setattr(LIMITS, "plan_worth_of_networks", 60.0)


def network(seed=0):
    torch.manual_seed(seed)
    layers = torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
    return torch.nn.Sequential(*layers).eval()


def slices(n=50):
    return np.random.default_rng(0).normal(size=(n, 6)).astype("f4")


def by_torch(net, x):
    with torch.no_grad():
        return np.stack([net(torch.from_numpy(v)).numpy() for v in x])


def entries(f):
    return list(cache_of(f)[0].plans.values())


def test_results_are_those_of_each_slice_to_the_bit():
    net, x = network(), slices()
    for _ in range(3):
        np.testing.assert_array_equal(xpapply.apply_along_axis(net, 1, x), by_torch(net, x))
    np.testing.assert_array_equal(xpapply.apply_along_axis(net, 0, x.T), by_torch(net, x).T)
    assert all(found.plan is None for found in entries(net))


def test_then_there_is_a_plan():
    net, x = network(), slices()
    xpapply.apply_along_axis(net, 1, x)
    (found,) = entries(net)
    found.unchanged.quick.spent = 100.0
    again = xpapply.apply_along_axis(net, 1, x)
    (found,) = entries(net)
    assert found.plan is not None
    assert found.plan.vectorized
    np.testing.assert_allclose(again, by_torch(net, x), rtol=1e-5, atol=1e-6)


def until_planned(net, x):
    """Calls, until there is a plan and it is known whether the loop takes less time."""
    xpapply.apply_along_axis(net, 1, x)
    (found,) = entries(net)
    found.unchanged.quick.spent = 100.0
    for _ in range(LIMITS.loop_looks + 2):
        xpapply.apply_along_axis(net, 1, x)


def test_the_loop_stays_where_it_takes_less_time(monkeypatch, recwarn):
    monkeypatch.setattr(LIMITS, "loop_less", 0.0)
    net, x = network(), slices()
    until_planned(net, x)
    np.testing.assert_array_equal(xpapply.apply_along_axis(net, 1, x), by_torch(net, x))
    p = xpapply.explain(net, 1, x)
    assert p.engine == "loop"
    assert "us for 50 slices, the loop" in p.reasons[0]
    assert not [w for w in recwarn if w.category is xpapply.FallbackWarning]
    with torch.no_grad():
        net[0].weight += 1.0
    found = xpapply.apply_along_axis(net, 1, x)  # for which there is a plan again
    np.testing.assert_allclose(found, by_torch(net, x), rtol=1e-5, atol=1e-6)
    with xpapply.options(fallback="raise"):
        found = xpapply.apply_along_axis(net, 1, x)
    np.testing.assert_allclose(found, by_torch(net, x), rtol=1e-5, atol=1e-6)
    alive = weakref.ref(net)
    del net, p
    gc.collect()
    assert alive() is None


def test_where_the_loop_has_run_for_long_there_is_another_try(monkeypatch):
    monkeypatch.setattr(LIMITS, "loop_less", 0.0)
    net, x = network(), slices()
    until_planned(net, x)
    (found,) = entries(net)
    first = found.unchanged.budget
    first.spent = first.limit
    monkeypatch.setattr(LIMITS, "loop_less", 1e9)
    xpapply.apply_along_axis(net, 1, x)
    assert xpapply.explain(net, 1, x).vectorized


def test_a_kernel_that_is_due_ends_the_loop(monkeypatch):
    monkeypatch.setattr(LIMITS, "loop_less", 0.0)
    monkeypatch.setattr(LIMITS, "small_patience", 1e-3)
    net, x = network(), slices()
    until_planned(net, x)
    (found,) = entries(net)
    assert found.plan.engine == "loop"
    monkeypatch.setattr(LIMITS, "loop_less", 1e9)
    for _ in range(2000):
        xpapply.apply_along_axis(net, 1, x)
        (found,) = entries(net)
        if found.plan.engine != "loop":
            break
    assert found.plan.engine != "loop"


def test_a_plan_stays_where_it_takes_less_time():
    net, x = network(), slices()
    until_planned(net, x)  # loop_less is a large number here
    assert xpapply.explain(net, 1, x).vectorized


@pytest.mark.parametrize("most", [60.0, 1e-9])
def test_of_many_slices_the_first_tell_whether_the_loop_takes_less_than_a_plan(monkeypatch, most):
    monkeypatch.setattr(LIMITS, "first_plan", most)
    net, x = network(), slices(LIMITS.first_plan_slices + 1)
    found = xpapply.apply_along_axis(net, 1, x)
    assert [found.plan is None for found in entries(net)] == [most > 1]
    if most > 1:
        np.testing.assert_array_equal(found, by_torch(net, x))


def test_the_first_of_many_slices_are_called_once():
    x = slices(5 * LIMITS.first_plan_slices)
    net = Noise().eval()
    xpapply.apply_along_axis(net, 1, x)
    assert net.n == len(x)
    x[1, 0] = 12.0
    with pytest.raises(ArithmeticError, match="too much") as error:
        xpapply.apply_along_axis(net, 1, x)
    assert any("1" in note for note in error.value.__notes__)
    assert net.n == len(x) + 2


def test_explain_makes_the_plan_and_the_next_call_runs_it():
    net, x = network(), slices()
    xpapply.apply_along_axis(net, 1, x)
    p = xpapply.explain(net, 1, x)
    assert p.vectorized
    assert [found.plan is not None for found in entries(net)] == [True]


def test_what_changes_in_between_counts():
    net, x = network(), slices()
    xpapply.apply_along_axis(net, 1, x)
    with torch.no_grad():
        net[0].weight += 1.0
    np.testing.assert_array_equal(xpapply.apply_along_axis(net, 1, x), by_torch(net, x))
    hook = net.register_forward_hook(lambda module, given, found: found * 2)
    np.testing.assert_array_equal(xpapply.apply_along_axis(net, 1, x), by_torch(net, x))
    hook.remove()
    np.testing.assert_array_equal(xpapply.apply_along_axis(net, 1, x), by_torch(net, x))
    net.double()
    wanted = np.stack([net(torch.from_numpy(v).double()).detach().numpy() for v in x])
    np.testing.assert_array_equal(xpapply.apply_along_axis(net, 1, x.astype("f8")), wanted)


class Noise(torch.nn.Module):
    """Counts its calls, draws a number in each, and raises for some slices."""

    def __init__(self):
        super().__init__()
        self.inner, self.drop, self.n, self.limit = torch.nn.Linear(6, 3), torch.nn.Dropout(), 0, 9
        self.selves = []

    def forward(self, v):
        self.n += 1
        self.selves.append(type(self))
        if float(v.flatten()[0]) > self.limit:
            raise ArithmeticError("too much")
        return self.drop(self.inner(v)) + float(v.sum().item()) + torch.rand(3) + len({self})

    encode = forward


def test_training_mode_is_refused_as_ever():
    for name in ("forward", "encode", None):
        for part in ("drop", None):
            net = Noise().eval()
            f = net if name is None else getattr(net, name)
            for n in (50, 1000):
                with xpapply.options(fallback="silent"):
                    for _ in range(3):
                        xpapply.apply_along_axis(f, 1, slices(n))
                    (net if part is None else net.drop).train()
                    with pytest.raises(xpapply.InputError, match="training mode"):
                        xpapply.apply_along_axis(f, 1, slices(n))
                net.eval()


@pytest.mark.parametrize("n", [5, 50, 500])
@pytest.mark.parametrize("name", ["forward", "encode", None])
def test_calls_and_draws_are_those_of_the_loop(n, name):
    results, counts = [], []
    for ours in (False, True):
        torch.manual_seed(1)
        net = Noise().eval()
        f = net if name is None else getattr(net, name)
        torch.manual_seed(5)
        for _ in range(3):
            with xpapply.options(fallback="silent"), torch.no_grad():
                if ours:
                    found = xpapply.apply_along_axis(f, 1, slices(n))
                else:
                    found = np.stack([f(torch.from_numpy(v)).numpy() for v in slices(n)])
            results.append(found)
            counts.append(net.n)
            assert set(net.selves) == {Noise}
    if n <= LIMITS.first_plan_slices:
        assert counts[:3] == counts[3:]
        for a, b in zip(results[:3], results[3:], strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_raises_says_at_which_slice_and_nothing_runs_twice():
    x = slices()
    x[7, 0] = 12.0
    for first in (False, True):
        net = Noise().eval()
        if not first:
            xpapply.apply_along_axis(net, 1, slices())
        before = net.n
        with pytest.raises(ArithmeticError, match="too much") as error:
            xpapply.apply_along_axis(net, 1, x)
        assert any("7" in note for note in error.value.__notes__)
        assert net.n - before == 8


def test_who_wants_no_loop_is_told_after_a_first_call_too():
    net = Noise().eval()
    xpapply.apply_along_axis(net, 1, slices())
    with xpapply.options(fallback="raise"), pytest.raises(xpapply.UnsupportedError):
        xpapply.apply_along_axis(net, 1, slices())


def test_slices_that_f_writes_into():
    sklearn = pytest.importorskip("sklearn.preprocessing")
    pipeline = pytest.importorskip("sklearn.pipeline")
    linear = pytest.importorskip("sklearn.linear_model")

    def adds(rows):
        if len(rows) == 1:
            rows += 1
        return rows

    x = slices().astype("f8")
    steps = sklearn.FunctionTransformer(adds, validate=False), linear.LinearRegression()
    model = pipeline.make_pipeline(*steps).fit(x.copy(), x[:, 0])
    given, wanted = x.copy(), x.copy()
    want = np.apply_along_axis(lambda v: model.predict(v[None])[0], 1, wanted)
    with xpapply.options(fallback="silent"):
        found = xpapply.apply_along_axis(model.predict, 1, given)
    np.testing.assert_allclose(found, want, rtol=1e-12)
    np.testing.assert_array_equal(given, wanted)


def test_nothing_is_kept_alive():
    net = network()
    gone = weakref.ref(net)
    xpapply.apply_along_axis(net, 1, slices())
    del net
    gc.collect()
    assert gone() is None


def test_methods_of_estimators():
    linear_model = pytest.importorskip("sklearn.linear_model")
    x = slices().astype("f8")
    model = linear_model.LinearRegression().fit(x, x @ np.arange(6.0))
    wanted = np.array([model.predict(v[None])[0] for v in x])
    for f in (model, model.predict):
        for _ in range(2):
            np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, x), wanted)
    gone = weakref.ref(model)
    del model, f
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("how", [{"engine": "numpy"}, {"fallback": "raise"}])
def test_who_wants_no_loop_gets_none(how):
    net = network()
    with xpapply.options(**how):
        xpapply.apply_along_axis(net, 1, slices())
    assert [found.plan is not None for found in entries(net)] == [True]


def helper(net):
    def through(v):
        return net(torch.from_numpy(v)).detach().numpy()

    return through


def test_functions_that_hold_a_network():
    net = network()
    through = helper(net)
    assert unplanned.holds_network(through)
    assert unplanned.holds_network(lambda v: through(v) + 1)
    assert not unplanned.holds_network(lambda v: v + 1)
    assert not unplanned.holds_network(np.median)
    np.testing.assert_array_equal(
        xpapply.apply_along_axis(through, 1, slices()), by_torch(net, slices())
    )


def test_an_empty_cell_is_no_network():
    def outer():
        f = lambda v: later(v)  # noqa: E731
        found = unplanned.holds_network(f)
        later = np.sort
        return found, f, later

    assert not outer()[0]


MODULES = """
    import sys
    import numpy as np, torch, xpapply
    net = torch.nn.Sequential(torch.nn.Linear(4, 2)).eval()
    xpapply.apply_along_axis(net, 1, np.ones((20, 4), "f4"))
    print(*[m for m in sys.modules if m.startswith(("xpapply.backends.cpu", "xpapply.codegen"))])
    f = lambda v: net(torch.from_numpy(v)).detach().numpy()
    xpapply.apply_along_axis(f, 1, np.ones((20, 4), "f4"))
    print(*[m for m in sys.modules if m.startswith("xpapply.frontends.python.trac")])
"""


def test_no_kernel_and_no_tracer_is_loaded():
    command = [sys.executable, "-c", textwrap.dedent(MODULES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "xpapply.codegen.llvm" not in done.stdout
    assert "backends.cpu.kernels" not in done.stdout
