"""Chunks of the size that takes least time, found while they run."""

import numpy as np
import pytest

import xpapply
from conftest import library

torch = library("torch")
from xpapply.frontends.torch.calls.chunk_sizes import ChunkSize  # noqa: E402


def found(first, most, seconds, slices=100_000):
    sizes, left, ran = ChunkSize(first, most), slices, []
    while left and not sizes.found:
        size = sizes.next(left)
        sizes.took(size, size * seconds(size) * (50 if size not in ran else 1))
        ran.append(size)
        left -= size
    assert max(ran, default=1) <= max(first, most)
    return sizes.next(1 << 40)


@pytest.mark.parametrize("best", [1, 16, 64, 128, 1024, 4096])
def test_the_best_is_found(best):
    got = found(128, 4096, lambda size: 1 + abs(np.log2(size / best)))
    assert best / 2 < got <= best


def test_no_size_is_better():
    assert abs(found(100, 10_000, lambda size: 1.0) - 100) <= 1


def test_no_more_than_allowed():
    assert found(10, 35, lambda size: 1 / size) == 20
    assert found(1, 1, lambda size: 1 / size) == 1


def test_a_few_chunks_are_of_one_size():
    assert [ChunkSize(64, 640).next(100)] == [50]
    sizes, left = ChunkSize(64, 640), 1000
    for size in (64, 128, 64, 128, 64, 128):  # by turns
        assert sizes.next(left) == size
        sizes.took(size, size * 1.0)
    assert sizes.next(left) == 64
    assert sizes.next(200) == 50  # 4 chunks of at most 64: it does not pay to compare


def test_a_slow_minute_does_not_count():
    """What else the machine does slows down both sizes that are compared."""
    sizes = ChunkSize(64, 6400)
    busy = 0
    while not sizes.found:
        busy += 1
        size = sizes.next(100_000)
        sizes.took(size, size * (10 if busy < 8 else 1))  # all sizes are equally fast
    assert sizes.next(1 << 40) <= 64


def test_what_a_call_is_too_short_for_is_not_taken():
    sizes = ChunkSize(64, 6400)
    for _ in range(100):
        assert sizes.next(300) == 60
        sizes.took(60, 1.0)


@pytest.mark.parametrize("axis", [0, 1])
def test_results_do_not_depend_on_it(axis):
    torch.manual_seed(0)
    nn = torch.nn
    net = nn.Sequential(nn.Unflatten(-1, (8, 8)), nn.GRU(8, 4, batch_first=True)).eval()
    net = Last(net)
    rng = np.random.default_rng(0)
    with xpapply.options(engine="torch.batch"):
        for n in (3000, 50_000, 50_000, 7001):
            x = rng.standard_normal((n, 64)).astype("f")
            got = xpapply.apply_along_axis(net, axis, x if axis else np.ascontiguousarray(x.T))
            with torch.no_grad():
                want = net(torch.from_numpy(x)).numpy()
            np.testing.assert_allclose(got if axis else got.T, want, rtol=1e-5, atol=1e-5)


class Last(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)[0][..., -1, :]


class Viewed(torch.nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x).view(len(x), -1)  # an error where the channels lie last


def convolved(last=()):
    nn = torch.nn
    torch.manual_seed(0)
    layers = [nn.Conv2d(2, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 3, 1)]
    return nn.Sequential(*layers, *last).eval().requires_grad_(False)


CHANNELS = {
    "flatten": (convolved([torch.nn.Flatten(), torch.nn.Linear(75, 2)]), (2, 12, 12), True),
    "images": (convolved(), (2, 12, 12), True),
    "volumes": (
        torch.nn.Sequential(torch.nn.Conv3d(1, 4, 2), torch.nn.MaxPool3d(2)).eval(),
        (1, 5, 5, 5),
        True,
    ),
    "view": (Viewed(convolved()), (2, 12, 12), False),
    "one channel": (torch.nn.MaxPool2d(2), (1, 6, 6), False),
    "no pool": (torch.nn.Conv2d(2, 3, 2).eval(), (2, 6, 6), False),
}


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("n", [1, 5, 3000])
def test_channels_lie_last_where_maxima_are_taken(name, n):
    net, shape, last = CHANNELS[name]
    x = np.random.default_rng(0).standard_normal((n, *shape)).astype("f")
    axes = tuple(range(1, x.ndim))
    with xpapply.options(engine="torch.batch"):
        assert ("channels last" in str(xpapply.explain(net, axes, x))) == last
        for _ in range(3):
            got = xpapply.apply_along_axis(net, axes, x)
            with torch.no_grad():
                want = net(torch.from_numpy(x)).numpy()
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
            assert got.flags.c_contiguous


def test_channels_that_lie_last_are_differentiable():
    net, shape, _ = CHANNELS["flatten"]
    x = torch.randn(5, *shape, requires_grad=True)
    with xpapply.options(engine="torch.batch"):
        xpapply.apply_along_axis(net, (1, 2, 3), x).square().sum().backward()
    y = x.detach().requires_grad_()
    net(y).square().sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
