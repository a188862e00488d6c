"""Chunks of the size that takes least time, found while they run."""

import numpy as np
import pytest

import xpapply
from conftest import library

torch = library("torch")
from xpapply.frontends.torch.chunk_sizes import ChunkSize  # noqa: E402


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
    for _ in range(3):
        assert sizes.next(left) == 64
        sizes.took(64, 1.0)
    assert sizes.next(left) == 128


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
