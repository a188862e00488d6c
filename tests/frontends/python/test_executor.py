"""Values are freed after their last use, and blocks are cut by what is alive at once."""

import functools

import numpy as np
import pytest
from calls_of import assert_at_once

import xpapply
from xpapply.batching import BatchingRule, ragged, rules, syntax
from xpapply.frontends.python.run import in_blocks
from xpapply.frontends.python.trace.tree import Branch, Call, Path, Ref, Tree
from xpapply.limits import LIMITS
from xpapply.planning.python import python_functions

RNG = np.random.default_rng(0)
ADD, SINE = rules.ufunc_row(np.add), rules.ufunc_row(np.sin)
INDEX, BOTH = syntax.INDEX, BatchingRule("both", None)


def call(row, *args, nbytes=80, view_of=None, shape=(10,)):
    return Call(row, args, {}, "f.py:1", shape=shape, nbytes=nbytes, view_of=view_of)


def test_values_are_freed_after_their_last_use():
    a, b, c = call(SINE, Ref(0)), call(ADD, Ref(1), Ref(1)), call(ADD, Ref(2), Ref(0))
    tree = Tree(Path((a, b, c), Ref(3)), 80)
    assert [set(gone) for gone in tree.root.frees] == [set(), {1}, {0, 2}]
    assert tree.root.needs == {0}
    assert tree.root.nbytes == 3 * 80


def test_what_nothing_uses_is_freed_at_once():
    tree = Tree(Path((call(SINE, Ref(0)), call(SINE, Ref(0))), Ref(1)), 80)
    assert [sorted(gone) for gone in tree.root.frees] == [[], [0, 2]]
    assert tree.root.nbytes == 3 * 80


def test_a_view_keeps_the_memory_that_it_lies_in():
    whole, part = call(SINE, Ref(0), nbytes=8000), call(SINE, Ref(1), nbytes=8, view_of=1)
    tree = Tree(Path((whole, part, call(SINE, Ref(2)), call(SINE, Ref(3))), Ref(4)), 80)
    assert tree.root.nbytes == 8000 + 80 + 80 - 80  # the slice is free when the third one runs


def test_other_slices_may_have_more_values_of_a_mask():
    mask = call(SINE, Ref(0), nbytes=800)
    few = Call(ragged.SELECT, (Ref(0), Ref(1)), {}, "f.py:1", shape=(2,), nbytes=16)
    more = Call(ragged.ELEMENTWISE, (Ref(2),), {}, "f.py:1", shape=(2,), nbytes=16)
    tree = Tree(Path((mask, few, more), Ref(3)), 800)
    assert tree.root.nbytes == 3 * 800


def test_what_another_path_needs_is_kept_up_to_where_they_part():
    first, ask = call(SINE, Ref(0), nbytes=8, shape=()), call(ADD, Ref(0), 1.0)
    tree = Tree(Path((first, ask, Branch(Ref(2), True, "")), Ref(0)), 80)
    assert tree.root.frees == [[1], []]
    tree.add(Path((first, ask, Branch(Ref(2), False, "")), Ref(1)))
    assert tree.root.frees == [[], []]
    assert tree.root.children[False].needs == {1}
    assert tree.root.children[True].needs == {0}


def test_what_need_not_run_takes_no_bytes():
    mask = call(SINE, Ref(0), nbytes=8)
    few = Call(ragged.SELECT, (Ref(0), Ref(1)), {}, "f.py:1", nbytes=8000)
    tree = Tree(Path((mask, few, call(SINE, Ref(0))), Ref(3)), 80)
    assert tree.root.needless == {2}
    assert tree.root.nbytes == 2 * 80
    assert tree.root.frees == [[1], [], [0]]


def test_bytes_that_a_call_moves():
    """What it reads or makes, whichever is more; a view moves none."""
    copied, part = call(SINE, Ref(0)), call(SINE, Ref(1), nbytes=8, view_of=1)
    total = call(ADD, Ref(2), Ref(0), nbytes=8, shape=())
    tree = Tree(Path((copied, part, total), Ref(3)), 80)
    assert tree.per_call == 3 * 80 // 4


def test_writes_in_place():
    """Into what a write has made; of the first array, the caller may have kept something."""
    write = functools.partial(call, syntax.SET)
    one, two = write(Ref(0), 0, 1.0), write(Ref(1), 1, 2.0)
    assert Tree(Path((one, two, write(Ref(2), 2, 3.0)), Ref(3))).root.reused == {2, 3}
    number = Call(INDEX, (Ref(1), 0), {}, "f.py:1", dtype=np.dtype(float))
    assert Tree(Path((one, number, two), Ref(3))).root.reused == {3}
    for kept in (call(INDEX, Ref(1), shape=(2,), view_of=1), call(BOTH, Ref(1), 3)):
        two = write(Ref(1), 1, 2.0)
        assert not Tree(Path((one, kept, two), Ref(3))).root.reused
    assert not Tree(Path((one, write(Ref(1), 1, Ref(1))), Ref(2))).root.reused
    assert not Tree(Path((one, write(Ref(0), 1, 2.0)), Ref(2))).root.reused


def test_bytes_of_traced_calls():
    """A view lies in the memory of another value, and several results take all their parts."""

    def f(v):
        square = v.reshape(8, 8)
        values, vectors = np.linalg.eigh(square + square.T)
        return vectors[0, 0] - values[0]

    xpapply.explain(f, -1, RNG.random((50, 64)))
    known, _ = python_functions.cache_of(f)
    (found,) = known.traced.values()
    sizes = {c.row.name: (c.nbytes, c.view_of) for c in found.tree.calls}
    assert sizes["numpy.reshape"] == (8 * 64, 0)
    assert sizes["numpy.add"] == (8 * 64, None)
    assert sizes["numpy.linalg.eigh"] == (8 * 72, None)


def while_loop(v):
    total = v * 3
    while total.max() > 1:
        total = total * 0.7
    return total.min() + v[0]


def nested(v):
    a, b = np.sin(v), np.cos(v)
    if v[0] > 0.5:
        if a.sum() > 2:
            return b.sum()
        return (a * b).max()
    if b.max() < 0.9:
        return v.min()
    return a.mean() + v[-1]


def written(v):
    out = np.zeros(4)
    for k in range(4):
        if v[k] > 0.3:
            out[k] = v[k] * 2
    return out


def by_a_mask(v):
    big = v[v > 0.4]
    return big.sum() if len(big) > 2 else -v.sum()


def caught(v):
    try:
        return np.linalg.inv((v[:4] * (v[0] > 0.1)).reshape(2, 2))[0]
    except np.linalg.LinAlgError:
        return np.zeros(2)


def by_count(v):
    return np.cumsum(v)[int(v[0] * 5)]


def by_a_number(v):
    total = 0.0
    for k in range(int(v[0] * 4)):
        total += v[k + 1]
    return total


def one_or_three(v):
    return v[:3] * 2 if v[0] > 0.2 else v[:1] + 1


def heavy(v):
    """All slices go the way that needs much more than what comes before."""
    if v[0] > -1:
        return np.outer(v, v).sum() + np.outer(v, v).max()
    return v[0]


BRANCHES = [
    by_a_number,
    one_or_three,
    heavy,
    while_loop,
    nested,
    written,
    by_a_mask,
    caught,
    by_count,
]


@pytest.mark.parametrize("f", BRANCHES)
@pytest.mark.parametrize("block_bytes", [1, 1000, 100_000])
def test_blocks_of_any_size_give_the_same(f, block_bytes):
    arr = RNG.random((60, 8))
    arr[0, 0] = 0.9  # the first result is the longest
    want = np.apply_along_axis(f, 1, arr)
    with xpapply.options(block_bytes=block_bytes, fallback="silent", engine="numpy", threads=1):
        got = xpapply.apply_along_axis(f, 1, arr)
        np.testing.assert_allclose(got, want, rtol=1e-12)
        np.testing.assert_allclose(xpapply.apply_along_axis(f, 1, arr), want, rtol=1e-12)


def shapes(v):
    if v[0] < 0.3:
        return v[:3]
    return v[:3].reshape(1, 3) if v[0] < 0.6 else v[0]


def test_shapes_that_fit_the_first_result():
    """Leading axes of length 1 go, and numbers are repeated, as in NumPy's assignment."""
    arr = RNG.random((200, 8))
    for first in (0.1, 0.5):
        arr[0, 0] = first
        with xpapply.options(engine="numpy"):
            assert_at_once(shapes, 1, arr)


def test_shapes_that_do_not_fit():
    arr = RNG.random((200, 8))
    arr[0, 0], arr[1:, 0], arr[150, 0] = 0.1, 0.2, 0.9
    f = lambda v: v[:3] if v[0] < 0.6 else v[:6].reshape(2, 3)  # noqa: E731
    for apply in (np.apply_along_axis, xpapply.apply_along_axis):
        with xpapply.options(fallback="silent"), pytest.raises(ValueError, match="shape"):
            apply(f, 1, arr)


def test_results_that_have_only_a_name():
    x = np.arange(8.0)
    stats = pytest.importorskip("scipy.stats")

    def f(v):
        found = stats.linregress(x, v)
        return found.intercept_stderr + found.slope

    with xpapply.options(engine="numpy"):
        assert_at_once(f, 1, RNG.random((200, 8)))

    def parts(v):
        found = stats.linregress(x, v)
        if v[0] < 0.5:  # some of the slices of a block go on with it
            return found.intercept_stderr
        return found.stderr

    with xpapply.options(engine="numpy"):
        assert_at_once(parts, 1, RNG.random((200, 8)))


def test_paths_that_need_what_was_free_already():
    """A path found within a block may use what the paths known by then did not."""

    def f(v):
        whole = np.sqrt(v)
        few = v[:1] + 0
        if few[0] > 0.9:
            return whole.sum()
        return few[0]

    arr = RNG.random((500, 8))
    arr[0, 0] = 0.5
    with xpapply.options(engine="numpy", threads=1):
        got = xpapply.apply_along_axis(f, 1, arr)
    np.testing.assert_allclose(got, np.apply_along_axis(f, 1, arr), rtol=1e-14)


@pytest.mark.parametrize("block_bytes", [0, 1 << 16])
def test_blocks_are_cut_by_the_worst_moment(monkeypatch, block_bytes):
    grid = np.linspace(0, 1, 2000)
    seen = []

    def f(v):
        return np.exp(grid * v[0]).max()

    room = block_bytes or 1 << 19
    monkeypatch.setattr(LIMITS, "python_blocks", 1 << 19)
    monkeypatch.setattr(LIMITS, "python_least_block", 0)
    monkeypatch.setattr(in_blocks.Executor, "__call__", _noted(in_blocks.Executor.__call__, seen))
    with xpapply.options(engine="numpy", threads=1, block_bytes=block_bytes):
        xpapply.apply_along_axis(f, 1, RNG.random((300, 2)))
    assert sum(seen) == 300
    assert max(seen) <= room / (2 * 8 * 2000) + 1


def _noted(method, seen):
    def noted(self, rows, out, start):
        seen.append(len(rows))
        return method(self, rows, out, start)

    return noted


def branching(v):
    return v.max() if v[0] > 0.5 else v.min()


def straight(v):
    return (v * 2.0 + v).max()


@pytest.mark.parametrize(("f", "times"), [(straight, 1), (branching, 4)])
@pytest.mark.parametrize("axis", [0, 1])
def test_blocks_stay_in_cache(monkeypatch, f, times, axis):
    """Fewer bytes in each call than that is too many calls, more is slow memory."""
    seen = []
    monkeypatch.setattr(LIMITS, "python_block", 1 << 14)
    monkeypatch.setattr(in_blocks.Executor, "__call__", _noted(in_blocks.Executor.__call__, seen))
    arr = RNG.random((3000, 8)) if axis else RNG.random((8, 3000))
    with xpapply.options(engine="numpy", threads=1):
        got = xpapply.apply_along_axis(f, axis, arr)
    np.testing.assert_array_equal(got, np.apply_along_axis(f, axis, arr))
    (found,) = python_functions.cache_of(f)[0].traced.values()
    rows = times * (1 << 14) // found.tree.per_call
    assert 50 < rows < 3000
    assert sum(seen) == 3000
    assert rows / 2 < max(seen) <= rows


def test_blocks_of_tensors_are_larger(monkeypatch, torch):
    """A call of torch's takes longer to begin; on a GPU calls must not be many."""
    seen = []
    monkeypatch.setattr(LIMITS, "python_block", 1 << 14)
    monkeypatch.setattr(in_blocks.Executor, "__call__", _noted(in_blocks.Executor.__call__, seen))
    arr = torch.rand((3000, 8))
    with xpapply.options(fallback="raise"):
        got = xpapply.apply_along_axis(lambda v: v.max() if v[0] > 0.5 else v.min(), 1, arr)
    np.testing.assert_array_equal(got, [v.max() if v[0] > 0.5 else v.min() for v in arr])
    assert seen == [3000]


def test_a_branch_that_needs_much_is_cut_further(monkeypatch):
    monkeypatch.setattr(LIMITS, "python_blocks", 1 << 19)
    monkeypatch.setattr(LIMITS, "python_least_block", 0)
    seen = []
    rule = rules.elementwise

    def noted(xp, function, args, kwargs):
        found = rule(xp, function, args, kwargs)
        seen.append(found.array.size)
        return found

    multiply = rules.ufunc_row(np.arctan2)

    def f(v):
        if v[0] > 0.5:
            return np.arctan2(v[:, None], v[None, :]).max()
        return v.sum()

    object.__setattr__(multiply, "rule", noted)
    try:
        with xpapply.options(engine="numpy", threads=1):
            arr = RNG.random((2000, 30))
            got = xpapply.apply_along_axis(f, 1, arr)
    finally:
        object.__setattr__(multiply, "rule", rule)
    np.testing.assert_allclose(got, np.apply_along_axis(f, 1, arr), rtol=1e-13)
    assert 8 * max(seen) <= 1 << 19
    assert len(seen) > 900 * 2000 * 8 / (1 << 20)
