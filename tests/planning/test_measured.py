"""Networks with convolutions: what runs them faster is measured on some of the slices."""

import itertools

import numpy as np
import pytest

import xpapply
from xpapply.functions import cache
from xpapply.limits import LIMITS
from xpapply.planning import measured

torch = pytest.importorskip("torch")
nn = torch.nn

SLICES = 600
"""Enough for a sample of 64."""


@pytest.fixture(autouse=True)
def small_samples(monkeypatch):
    """And nothing is known of networks of this structure."""

    cache.clear()
    monkeypatch.setattr(LIMITS, "numpy_sample", 64)
    monkeypatch.setattr(LIMITS, "numpy_sample_blocks", 0)
    yield
    cache.clear()


@pytest.fixture
def net():
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(27, 2)]
    return nn.Sequential(*layers).eval().requires_grad_(False)


@pytest.fixture
def times(monkeypatch):
    """Seconds that a sample takes in each way, and the shapes of samples."""
    found = {"numpy": 1e-3, "torch": 2e-3, "asked": []}

    def seconds(calls, x, axis):
        want = calls[1](x, axis)
        np.testing.assert_allclose(calls[0](x, axis), want, rtol=1e-4, atol=1e-5)
        found["asked"].append((x.shape, axis))
        return [found["numpy"], found["torch"]]

    monkeypatch.setattr(measured, "_seconds", seconds)
    return found


def images(n=SLICES, dtype="f"):
    return np.random.default_rng(0).standard_normal((n, 1, 8, 8)).astype(dtype)


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_faster_runs_and_it_is_said(net, times, order):
    x = np.asarray(images(), order=order)
    want = net(torch.from_numpy(np.ascontiguousarray(x))).numpy()
    p = xpapply.explain(net, (1, 2, 3), x)
    assert p.engine == "numpy"
    said = "31.2 us per slice, numpy 15.6, measured on 64 slices; options(engine='torch.batch')"
    assert said in p.reasons[-1]
    assert p.reasons[-1].startswith("torch.batch (the module itself")
    assert p.expected == pytest.approx(SLICES * 1e-3 / 64)
    assert "9.38 ms expected" in str(p)
    got = xpapply.apply_along_axis(net, (1, 2, 3), x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert len(times["asked"]) == 1


def test_the_other_one_is_faster(net, times):
    times["numpy"] = 1.9e-3  # by less than times are off
    p = xpapply.explain(net, (1, 2, 3), images())
    assert p.engine == "torch.batch"
    assert "29.7 us per slice, torch.batch 31.2, measured on 64 slices" in p.reasons[-1]
    assert p.expected == pytest.approx(SLICES * 2e-3 / 64)


def test_once_for_a_structure(net, times):
    """Weights that change and arrays of other shapes are nothing new."""
    xpapply.apply_along_axis(net, (1, 2, 3), images())
    with torch.no_grad():
        net[0].weight += 1
    xpapply.apply_along_axis(net, (1, 2, 3), images(2 * SLICES))
    assert len(times["asked"]) == 1
    with xpapply.options(threads=1):
        xpapply.apply_along_axis(net, (1, 2, 3), images())
    assert len(times["asked"]) == 2


def test_few_slices_are_not_measured(net, times):
    p = xpapply.explain(net, (1, 2, 3), images(100))
    assert p.engine == "torch.batch"
    assert "there are too few slices to measure which are faster" in p.reasons[-1]
    assert not times["asked"]


def test_what_is_asked_for_is_not_measured(net, times):
    for engine in ("numpy", "torch.batch"):
        with xpapply.options(engine=engine):
            assert xpapply.explain(net, (1, 2, 3), images()).engine == engine
    assert not times["asked"]


def test_tensors_are_torchs(net, times):
    p = xpapply.explain(net, (1, 2, 3), torch.from_numpy(images()))
    assert p.engine == "torch.batch"
    assert "only the definition, one array operation per node, can run it" in p.reasons[-1]
    assert not times["asked"]


def test_times_are_taken_by_turns():
    asked = []
    found = measured._seconds(
        [lambda x, a: asked.append("a"), lambda x, a: asked.append("b")], 0, 0
    )
    assert [name for name, _ in itertools.groupby(asked)] == ["a", "b"] * 3
    assert asked[:3] == ["a", "b", "a"]  # the first turn does not count
    assert len(asked) > 20, "calls that take no time follow each other"
    assert all(0 <= s < 1e-3 for s in found)


def test_what_follows_the_first_call_is_measured():
    """A plan decides for an array what each of its calls would, and then is called."""

    class Call:
        def prepared(self, x, axis):
            prepared.append((x, axis))
            return lambda x: x

    prepared = []
    measured._seconds([Call(), lambda x, axis: x], 5, 1)
    assert prepared == [(5, 1)]


@pytest.fixture
def compiled(monkeypatch):
    """However few the multiply-adds are, a kernel is worth it."""
    pytest.importorskip("llvmlite")

    monkeypatch.setattr(LIMITS, "network_compiled", 0)
    monkeypatch.setattr(LIMITS, "network_sample_macs", 0)


def test_a_kernel_is_measured_as_well(net, times, compiled):
    x = images(4 * SLICES)
    p = xpapply.explain(net, (1, 2, 3), x)
    assert p.engine == "cpu"
    assert p.kernels[0].startswith("one kernel")
    assert p.reasons[-1].startswith("torch.batch (the module itself")
    assert "; options(engine='torch.batch') takes it" in p.reasons[-1]
    times["numpy"] = 1.9e-3
    cache.clear()
    p = xpapply.explain(net, (1, 2, 3), x)
    assert p.engine == "torch.batch"
    assert p.reasons[-1].startswith("cpu (one kernel")


def test_a_kernel_notices_what_changes(net, times, compiled):
    x = images(4 * SLICES)

    def same():
        got = xpapply.apply_along_axis(net, (1, 2, 3), x)
        with torch.no_grad():
            want = net(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)

    same()
    with torch.no_grad():
        net[0].weight += 1
        net[4].bias -= 3
    same()
    net[1] = nn.Tanh()
    same()
    handle = net[2].register_forward_hook(lambda m, i, y: 2 * y)
    with xpapply.options(fallback="silent"):
        same()
    handle.remove()
    same()
    net.append(nn.Dropout(0.5).eval())
    same()
    with pytest.raises(xpapply.InputError, match=r"\.eval\(\)"):
        xpapply.apply_along_axis(net.train(), (1, 2, 3), x)


def test_a_kernel_for_tensors(net, times, compiled):
    x = torch.from_numpy(images(4 * SLICES))
    assert xpapply.explain(net, (1, 2, 3), x).engine == "cpu"
    got = xpapply.apply_along_axis(net, (1, 2, 3), x)
    assert isinstance(got, torch.Tensor)
    np.testing.assert_allclose(got.numpy(), net(x).numpy(), rtol=1e-4, atol=1e-5)


def test_few_multiply_adds_are_not_worth_a_kernel(net):
    pytest.importorskip("llvmlite")
    p = xpapply.explain(net, (1, 2, 3), images())
    assert p.engine in ("numpy", "torch.batch")
    why = "so few slices with convolutions take less time than a kernel to compile: one is tried "
    assert f"cpu: {why}once such calls have taken about 0.2 s" in p.reasons
    with xpapply.options(engine="cpu"):
        assert xpapply.explain(net, (1, 2, 3), images(40)).engine == "cpu"


def test_a_saved_plan_has_the_kernel(net, compiled):
    import pickle

    x = images(70)
    plan = pickle.loads(pickle.dumps(xpapply.compile(net, (1, 8, 8), "float32")))
    want = net(torch.from_numpy(x)).numpy()
    with xpapply.options(engine="cpu"):
        np.testing.assert_allclose(plan(x, (1, 2, 3)), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(plan(x, (1, 2, 3)), want, rtol=1e-4, atol=1e-5)


@pytest.fixture
def soon(monkeypatch):
    """Ten calls of few slices are worth a kernel; those that began to compile one."""
    pytest.importorskip("llvmlite")
    from xpapply.backends.cpu import compiler

    monkeypatch.setattr(LIMITS, "network_compiling", 5 * LIMITS.windows_call)
    monkeypatch.setattr(LIMITS, "network_loading", 10 * LIMITS.windows_call)
    monkeypatch.setattr(LIMITS, "windows_mac", 0)
    found, begun = [], compiler.begun
    monkeypatch.setattr(compiler, "begun", lambda make: found.append(make) or begun(make))
    return found


def engines_of(net, x, calls, axes=(1, 2, 3)):
    """Which of them serve so many calls, whose results are right."""
    found = []
    for _ in range(calls):
        found.append(xpapply.explain(net, axes, x).engine)
        got = np.asarray(xpapply.apply_along_axis(net, axes, x))
        want = net(torch.as_tensor(x)).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    return found


@pytest.mark.parametrize("as_array", [np.asarray, torch.from_numpy])
def test_few_slices_are_worth_a_kernel_once_there_were_many_calls(net, times, soon, as_array):
    times.update(numpy=1e-3, torch=2e-3)
    found = engines_of(net, as_array(images(5)), 14)
    assert found == ["torch.batch"] * 10 + ["cpu"] * 4
    assert len(soon) == 1
    p = xpapply.explain(net, (1, 2, 3), as_array(images(5)))
    assert "400 us per slice, cpu 200, measured on 5 slices" in p.reasons[-1]
    assert [shape for shape, _ in times["asked"]] == [(5, 64)]


def test_calls_of_all_sizes_count(net, times, soon):
    sizes = [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 6, 20]
    found = [engines_of(net, images(n), 1)[0] for n in sizes]
    assert found == ["torch.batch"] * 10 + ["cpu"] * 2


def test_the_networks_own_way_stays_where_a_kernel_is_slower(net, times, soon):
    times.update(numpy=2e-3, torch=1e-3)
    assert engines_of(net, images(5), 14) == ["torch.batch"] * 14
    assert xpapply.explain(net, (1, 2, 3), images(5)).reasons[-1].startswith("cpu (one kernel")
    assert len(times["asked"]) == 1


def test_plans_count_as_well(net, soon):
    plan, x = xpapply.compile(net, (1, 8, 8), "float32"), images(5)
    want = net(torch.from_numpy(x)).numpy()
    for _ in range(14):
        np.testing.assert_allclose(plan(x, (1, 2, 3)), want, rtol=1e-4, atol=1e-5)
    names = [e.backend for e in plan._call._flat._engines.values()]
    assert names == ["cpu"]


def test_a_kernel_that_does_not_compile_is_not_tried_again(net, times, soon, monkeypatch):
    from xpapply.backends.cpu import compiler

    def broken(*_):
        raise compiler.CompilerError("LLVM is out of sorts")

    monkeypatch.setattr(compiler, "compile", broken)
    monkeypatch.setattr(compiler, "load", lambda *_: None)  # nor is it there already
    assert set(engines_of(net, images(5), 14)) == {"torch.batch"}
    net[0].weight += 1
    for n in 5, 6:
        p = xpapply.explain(net, (1, 2, 3), images(n))
        assert p.engine == "torch.batch"
        assert "cpu: LLVM is out of sorts" in p.reasons
    assert len(soon) == 1


def test_a_kernel_on_disk_is_tried_soon(net, times, soon, monkeypatch, tmp_path):
    from xpapply.backends.cpu import compiler

    monkeypatch.setattr(compiler, "_alive", {})  # another test's would not be written
    monkeypatch.setenv("XPAPPLY_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(LIMITS, "network_loading", 3 * LIMITS.windows_call)
    assert engines_of(net, images(5), 11)[-1] == "cpu"
    compiler._alive.clear()
    cache.clear()
    assert engines_of(net, images(5), 5) == ["torch.batch"] * 3 + ["cpu"] * 2


def test_large_images_count_by_their_tiles(soon, monkeypatch):

    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1)]
    net = nn.Sequential(*layers).eval().requires_grad_(False)
    x = np.random.default_rng(0).standard_normal((1, 1, 300, 280)).astype("f4")
    monkeypatch.setattr(LIMITS, "network_compiled", 1e12)
    assert engines_of(net, x, 11)[:10] == ["torch.batch"] * 10
    assert len(soon) == 1


def test_one_slice_says_nothing_of_many(net, times, soon, compiled):
    """What was measured on one slice does not decide for arrays with many."""
    times.update(numpy=2e-3, torch=1e-3)
    assert set(engines_of(net, images(1), 12)) == {"torch.batch"}
    times.update(numpy=1e-3, torch=2e-3)
    assert xpapply.explain(net, (1, 2, 3), images(4 * SLICES)).engine == "cpu"
    assert len(times["asked"]) == 2


@pytest.mark.parametrize("shape", [(5, 1, 8, 8), (1, 1, 300, 280)], ids=["whole", "in tiles"])
def test_no_kernel_is_compiled_that_never_runs(soon, shape, monkeypatch):
    """It does not take numbers whose bytes are in another order, however many calls there are."""

    monkeypatch.setattr(LIMITS, "network_compiled", 1e12)
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1)]
    net = nn.Sequential(*layers).eval().requires_grad_(False)
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    want = net(torch.from_numpy(x)).numpy()
    swapped = x.astype(x.dtype.newbyteorder())
    for _ in range(12):
        got = xpapply.apply_along_axis(net, (1, 2, 3), swapped)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert not soon
