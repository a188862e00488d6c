"""What only a real GPU shows: streams, memory, poisoned outputs, 2**31 elements."""

import itertools

import numpy as np
import pytest
from in_threads import in_threads

import xpapply

pytestmark = pytest.mark.gpu

WIDTHS = [(8, 16, 1), (16, 32, 32, 3), (5, 100), (32, 128, 128, 8), (40, 150, 60), (300, 1)]
SLICES = [1, 127, 129, 1000, 41_003]


def network(*widths, seed=0, **how):
    rng = np.random.default_rng(seed)
    pairs = list(itertools.pairwise(widths))
    weights = [(rng.standard_normal((n, m)) / np.sqrt(m)).astype("f") for m, n in pairs]
    return xpapply.MLP(weights, [rng.standard_normal(n).astype("f") for _, n in pairs], **how)


def expected(net, x, axis=-1):
    with xpapply.options(engine="numpy"):
        return xpapply.apply_along_axis(net, axis, x)


def close(got, want):
    np.testing.assert_allclose(got, want, atol=2e-5 * np.abs(want).max(), rtol=1e-4)


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("slices", SLICES)
def test_every_result_is_written(cupy, widths, slices):
    """Tails that fill no tile; memory that holds NaN before."""
    net = network(*widths)
    x = np.random.default_rng(1).standard_normal((slices, widths[0])).astype("f")
    want = expected(net, x)
    for array, axis in ((cupy.asarray(x), 1), (cupy.asarray(np.ascontiguousarray(x.T)), 0)):
        poison = cupy.full(want.shape, np.nan, "f")
        del poison  # the pool hands this memory out next
        got = xpapply.apply_along_axis(net, axis, array).get()
        close(got if axis else got.T, want)


@pytest.mark.parametrize("widths", WIDTHS)
def test_every_result_is_written_along_a_middle_axis(cupy, widths):
    """Results that lie apart; blocks and output in memory that holds NaN before."""
    net = network(*widths)
    x = np.random.default_rng(7).standard_normal((7, 2 * widths[0] + 1, 9)).astype("f")
    array = cupy.asarray(x)[:, 1::2][::-1]
    for numbers in (504, 1 << 13, 1 << 16, 1 << 20):
        poison = [cupy.full(numbers, np.nan, "f") for _ in range(4)]
        del poison
    got = xpapply.apply_along_axis(net, 1, array).get()
    close(got, expected(net, x[:, 1::2][::-1], 1))


def test_only_the_output_is_allocated(cupy):
    net = network(16, 32, 32, 3)
    x = cupy.ones((50_000, 16), "f")
    xpapply.apply_along_axis(net, 1, x)
    asked = []

    class Count(cupy.cuda.MemoryHook):
        name = "count"

        def malloc_preprocess(self, **kwargs):
            asked.append(kwargs["size"])

    with Count():
        xpapply.apply_along_axis(net, 1, x)
    assert asked == [50_000 * 3 * 4]


def test_memory_of_wide_networks_is_bounded(cupy):
    """Output plus blocks: one hidden layer of the whole array would take 2 GB."""
    net = network(32, 256, 256, 4)
    x = cupy.ones((1 << 21, 32), "f")
    pool = cupy.get_default_memory_pool()
    xpapply.apply_along_axis(net, 1, x[:1000])
    pool.free_all_blocks()
    before = pool.total_bytes()
    out = xpapply.apply_along_axis(net, 1, x)
    assert pool.total_bytes() - before - out.nbytes < 3 * (1 << 28)


def test_current_stream(cupy):
    """Work is ordered by the current stream, and by nothing else."""
    net, x = network(8, 16, 1), np.random.default_rng(2).standard_normal((100_000, 8)).astype("f")
    source, array = cupy.asarray(x), cupy.zeros(x.shape, "f")
    busy = cupy.ones((4000, 4000), "f")
    xpapply.apply_along_axis(net, 1, array)
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _ in range(20):
            busy @ busy
        array[...] = source
        got = xpapply.apply_along_axis(net, 1, array)
        stream.synchronize()
    close(got.get(), expected(net, x))


def test_current_stream_of_torch(cupy, torch):
    net, x = network(8, 16, 1), np.random.default_rng(3).standard_normal((100_000, 8)).astype("f")
    source, array = torch.from_numpy(x).cuda(), torch.zeros(x.shape, device="cuda")
    busy = torch.ones((4000, 4000), device="cuda")
    xpapply.apply_along_axis(net, 1, array)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(20):
            busy @ busy
        array.copy_(source)
        got = xpapply.apply_along_axis(net, 1, array)
        doubled = got * 2
    stream.synchronize()
    assert got.is_cuda
    close(doubled.cpu().numpy() / 2, expected(net, x))


def test_tensors_by_address(cupy, torch):
    """CuPy's view of a tensor is kept by its address, for one layout and dtype."""
    net = network(8, 16, 1)
    x = np.random.default_rng(5).standard_normal((4, 1000, 8)).astype("f")
    for tensor in (torch.from_numpy(x).cuda(), torch.from_numpy(x.astype("d")).cuda()):
        for k in (0, 1, 2, 3, 1, 0):
            results = [xpapply.apply_along_axis(net, 1, tensor[k]) for _ in range(3)]
            for got in results:
                close(got.cpu().numpy(), expected(net, x[k]))
            got = xpapply.apply_along_axis(net, 0, tensor[k].T)
            close(got.cpu().numpy().T, expected(net, x[k]))


def test_threads(cupy):
    """Threads with a stream each, on networks of one structure and different weights."""
    x = np.random.default_rng(4).standard_normal((20_000, 16)).astype("f")
    nets = [network(16, 32, 2, seed=seed) for seed in range(4)]
    wants = [expected(net, x) for net in nets]
    failures = []

    def work(net, want):
        try:
            with cupy.cuda.Stream(non_blocking=True) as stream:
                array = cupy.asarray(x)
                for _ in range(20):
                    got = xpapply.apply_along_axis(net, 1, array)
                stream.synchronize()
                close(got.get(), want)
        except Exception as error:
            failures.append(error)

    in_threads(work, nets, wants)
    assert not failures


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_models_that_change_in_place(cupy, torch, where):
    """Weights are copied once, from wherever the model is, and again when they change."""
    net = torch.nn.Linear(8, 2).to(where)
    array = cupy.ones((10, 8), "f")
    first = xpapply.apply_along_axis(net, 1, array)
    with torch.no_grad():
        net.weight.mul_(2)
        net.bias.mul_(2)
    second = xpapply.apply_along_axis(net, 1, array)
    np.testing.assert_allclose(second.get(), 2 * first.get(), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("axis", [0, 1])
def test_more_than_2_31_elements(cupy, axis):
    net = network(8, 16, 2)
    slices = (1 << 28) + 5003
    few = np.random.default_rng(5).integers(0, 255, (1000, 8), np.uint8)
    shape = (slices, 8) if axis else (8, slices)
    x = cupy.zeros(shape, np.uint8)
    rows = x if axis else x.T
    rows[-1000:] = cupy.asarray(few)
    rows[:1000] = cupy.asarray(few)
    assert x.size > 1 << 31
    got = xpapply.apply_along_axis(net, axis, x)
    got = got if axis else got.T
    want = expected(net, few)
    close(got[-1000:].get(), want)
    close(got[:1000].get(), want)
    close(got[slices // 2 : slices // 2 + 10].get(), expected(net, np.zeros((10, 8), np.uint8)))


def test_few_long_slices_in_one_reduction(cupy):
    net = network(5000, 1)
    x = np.random.default_rng(6).standard_normal((5000, 7, 3)).astype("f")
    close(xpapply.apply_along_axis(net, 0, cupy.asarray(x)).get(), expected(net, x, 0))
    with xpapply.options(engine="cupy-reduction"):
        assert "ReductionKernel" in str(xpapply.explain(net, 0, cupy.asarray(x)))
        close(xpapply.apply_along_axis(net, 0, cupy.asarray(x)).get(), expected(net, x, 0))


@pytest.mark.parametrize("shape", [(1, 200_000), (8, 100_000), (300, 256), (2000, 1000), (50, 7)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16", "bool"])
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_of_any_length(cupy, shape, dtype, axis):
    """CuPy has a text of its own for long slices (CUB), which meets our preamble."""
    most = 0.5 if dtype == "float16" else 4  # the sums of which float16 has
    x = (np.random.default_rng(7).random(shape) * most).astype(dtype)
    x = np.ascontiguousarray(x.T) if axis == 0 else x
    for f in (lambda v: (v * 2.0).max(), lambda v: np.sqrt((v * 0.5).sum())):
        want = np.apply_along_axis(f, axis, x)
        with xpapply.options(engine="cupy-reduction"):
            got = xpapply.compile(f, (x.shape[axis],), dtype)(cupy.asarray(x), axis)
        assert got.dtype == want.dtype
        rtol = 2e-3 if dtype == "float16" else 1e-5
        np.testing.assert_allclose(got.get().astype(float), want.astype(float), rtol=rtol)


@pytest.mark.parametrize("rows", [1, 1000, 100_000])
def test_small_results_of_tanh_are_as_near_as_large_ones(cupy, rows):
    """Where tanh comes last nothing hides an error that is small beside the others of a slice."""
    bias = np.linspace(0.001, 2, 7, dtype="f")
    net = xpapply.MLP([np.zeros((7, 1), "f")], [bias], "tanh", "tanh")
    want = np.tanh(bias.astype(float))
    got = xpapply.apply_along_axis(net, 1, cupy.zeros((rows, 1), "f")).get()
    np.testing.assert_allclose(got, np.broadcast_to(want, got.shape), rtol=5e-7)


def test_gradients_on_the_gpu(torch):
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
    net = net.double().cuda()
    x = torch.randn(3, 4, 2, dtype=torch.float64, device="cuda", requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: xpapply.apply_along_axis(net, 1, v), (x,))


def test_limits_of_the_device_are_in_the_plan(cupy):
    p = xpapply.explain(network(8, 16, 1), 1, cupy.ones((1000, 8), "f"))
    assert p.limits is not None
    assert "at least" in str(p)


BFLOAT16 = [(16, 64, 64, 4), (8, 16, 1), (10, 24, 3), (3, 24, 2), (7, 200, 5), (32, 128, 128, 8)]


@pytest.mark.parametrize("widths", BFLOAT16)
@pytest.mark.parametrize("dtypes", ["both", "input", "parameters"])
def test_bfloat16_tensors(cupy, torch, widths, dtypes):
    """By address, for rows, columns and views; every result is written."""
    half, nn = torch.bfloat16, torch.nn
    torch.manual_seed(0)
    layers = [x for m, n in itertools.pairwise(widths) for x in (nn.Linear(m, n), nn.ReLU())]
    net = nn.Sequential(*layers[:-1]).cuda()
    net = net if dtypes == "input" else net.to(half)
    x = torch.randn(3, widths[0], 1001, device="cuda").to(half)
    x = x.float() if dtypes == "parameters" else x
    weights = [p.detach().double() for p in net.parameters()]
    rows = x.double().movedim(1, -1).reshape(-1, widths[0])
    for k in range(0, len(weights), 2):
        rows = rows @ weights[k].T + weights[k + 1]
        rows = rows.relu() if k < len(weights) - 2 else rows
    want = rows.reshape(3, 1001, -1).movedim(-1, 1)
    lying = x.movedim(1, -1).contiguous().movedim(-1, 1)
    for array in (x, lying, x.flip(0)[::2], torch.cat([x, x], -1)[..., 1::2]):
        expected = want
        if array.shape[0] == 2:
            expected = want.flip(0)[::2]
        elif array.shape[-1] == 1001 and array.stride(-1) == 2:
            expected = torch.cat([want, want], -1)[..., 1::2]
        with torch.no_grad():
            assert xpapply.explain(net, 1, array).engine == "cupy"
            poison = torch.full(expected.shape, torch.nan, device="cuda")
            del poison
            got = xpapply.apply_along_axis(net, 1, array)
        assert got.dtype == (torch.float32 if dtypes == "input" else half)
        error = (got.double() - expected).abs().max() / expected.abs().max()
        assert error < (1e-5 if dtypes == "input" else 2.0**-6)


def test_bfloat16_ties_to_even(cupy, torch):
    """Results are rounded as torch rounds; NaN and infinity stay."""
    net = torch.nn.Linear(8, 8, bias=False).cuda().to(torch.bfloat16)
    with torch.no_grad():
        net.weight.copy_(torch.eye(8))
        net.weight[0, 1] = 2.0**-9
    x = torch.zeros(64, 8, device="cuda")
    x[:, 0] = 1 + torch.arange(64, device="cuda") * 2.0**-7  # 1 + k/128, all in bfloat16
    x[:, 1] = 2.0  # half a unit in the last place more
    x[5, 3], x[6, 4], x[7, 5] = torch.inf, -torch.inf, torch.nan
    x = x.to(torch.bfloat16)
    with torch.no_grad():
        got = xpapply.apply_along_axis(net, 1, x)
    want = (x[:, 0].double() + 2.0**-8).to(torch.bfloat16)
    assert torch.equal(got[:5, 0], want[:5])
    assert torch.equal(got[8:, 0], want[8:])
    assert got[7, 5].isnan()


# --- modules that are no graph ----------------------------------------------------------


def no_graph(torch, kind):
    nn = torch.nn
    torch.manual_seed(0)
    if kind == "cnn":
        layers = [nn.Unflatten(-1, (1, 6, 6)), nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2)]
        return nn.Sequential(*layers, nn.Flatten(-3), nn.Linear(32, 10)).cuda().eval()

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(4, 8, batch_first=True)
            self.inner = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x):
            steps = x.reshape(-1, 9, 4)
            if kind == "lstm":
                return self.lstm(steps)[0][:, -1]
            return self.inner(steps, steps, steps)[0].mean(1)

    return Net().cuda().eval()


@pytest.mark.parametrize("kind", ["cnn", "lstm", "attention"])
def test_modules_that_are_no_graph(cupy, torch, kind):
    """On CuPy's memory, however it lies; cut into chunks or not."""
    net = no_graph(torch, kind)
    x = np.random.default_rng(8).standard_normal((7, 36, 11)).astype("f")
    with torch.no_grad():
        rows = torch.from_numpy(x).movedim(1, -1).reshape(-1, 36).cuda()
        want = net(rows).reshape(7, 11, -1).movedim(-1, 1).cpu().numpy()
    base = cupy.asarray(x)
    for array in (
        base,
        cupy.asfortranarray(base),
        base[::-1][::-1],
        cupy.repeat(base, 2, 1)[:, ::2],
    ):
        for block in (0, 1 << 14):
            with xpapply.options(block_bytes=block, engine="torch.batch"):
                plan = xpapply.explain(net, 1, array)
                assert plan.engine == "torch.batch"
                got = xpapply.apply_along_axis(net, 1, array)
            assert type(got) is cupy.ndarray
            assert got.device == array.device
            got = got.get().reshape(want.shape)
            np.testing.assert_allclose(got, want, atol=2e-3 * abs(want).max())
    for dtype in ("uint8", "uint16", "float16", "float64", "bool"):
        array = (abs(base) * 3).astype(dtype)
        got = xpapply.apply_along_axis(net, 1, array)
        with xpapply.options(engine="loop"):
            one = xpapply.apply_along_axis(net, 1, array[:1, :, :2])
        assert got.dtype == one.dtype
        np.testing.assert_allclose(got[:1, ..., :2].get(), one.get(), atol=2e-3 * abs(want).max())


def test_modules_that_are_no_graph_on_the_current_stream(cupy, torch):
    """Nothing waits for the device, and nothing runs too early."""
    net = no_graph(torch, "cnn")
    x = np.random.default_rng(9).standard_normal((50_000, 36)).astype("f")
    source, array = cupy.asarray(x), cupy.zeros(x.shape, "f")
    xpapply.apply_along_axis(net, 1, array)
    busy = cupy.ones((8000, 8000), "f")
    busy @ busy
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        xpapply.apply_along_axis(net, 1, array)
        stream.synchronize()
        for _ in range(20):
            busy @ busy
        array[...] = source
        got = xpapply.apply_along_axis(net, 1, array)
        early = stream.done
        doubled = got * 2
        stream.synchronize()
    assert not early
    with torch.no_grad():
        want = net(torch.from_numpy(x).cuda()).cpu().numpy()
    np.testing.assert_allclose(doubled.get() / 2, want, atol=2e-3 * abs(want).max())


def test_modules_on_another_device_than_the_array(cupy, torch):
    """A copy of a module on the host goes where a CuPy array is; slices go where they must."""
    net = no_graph(torch, "cnn").cpu()
    x = np.random.default_rng(10).standard_normal((50, 36)).astype("f")
    with xpapply.options(engine="torch.batch"):
        plan = xpapply.explain(net, 1, cupy.asarray(x))
        assert "a copy of the weights there" in str(plan)
        got = xpapply.apply_along_axis(net, 1, cupy.asarray(x))
    assert type(got) is cupy.ndarray
    assert {p.device.type for p in net.parameters()} == {"cpu"}
    with torch.no_grad():
        want = net(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(got.get(), want, atol=2e-3 * abs(want).max())
    got = xpapply.apply_along_axis(net.cuda(), 1, x)
    assert type(got) is np.ndarray
    np.testing.assert_allclose(got, want, atol=2e-3 * abs(want).max())


def test_modules_inside_functions_on_the_gpu(cupy, torch):
    """Tensors are made of CuPy's slices, and arrays of them, where they are."""
    nn = torch.nn
    torch.manual_seed(0)
    conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)).cuda()
    mlp = nn.Sequential(nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 3)).cuda()
    cnn = no_graph(torch, "cnn")
    functions = {
        "asarray": lambda v: cupy.asarray(mlp(torch.as_tensor(v, device="cuda"))),
        "no device": lambda v: cupy.asarray(mlp(torch.as_tensor(v))) * 2,
        "dlpack": lambda v: cupy.from_dlpack(mlp(torch.from_dlpack(v))),
        "no graph": lambda v: cupy.asarray(cnn(torch.as_tensor(v, device="cuda"))),
        "image": lambda v: cupy.asarray(
            conv(torch.as_tensor(v, device="cuda").view(1, 1, 6, 6))[0].softmax(-1)
        ),
        "around": lambda v: cupy.asarray(cnn(torch.as_tensor(v - v.mean()))).max(),
    }
    x = cupy.asarray(np.random.default_rng(11).standard_normal((40, 36)).astype("f"))
    failed = {}
    for name, f in functions.items():
        with torch.no_grad(), xpapply.options(fallback="silent"):
            plan = xpapply.explain(f, 1, x)
            got = xpapply.apply_along_axis(f, 1, x)
            want = cupy.apply_along_axis(f, 1, x)
            if plan.engine != "cupy":
                failed[name] = plan.reasons
        assert got.dtype == want.dtype, name
        scale = abs(want.get()).max()
        np.testing.assert_allclose(got.get(), want.get(), atol=2e-3 * scale, err_msg=name)
    assert not failed
