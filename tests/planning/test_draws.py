"""Functions that draw random numbers: the loop's values, and the state that the loop leaves."""

import functools
import random
import warnings

import numpy as np
import pytest
from loop_functions import for_others, machine_code, typed_function

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.llvm.typed import NAME, kernel
from xpapply.errors import TraceError
from xpapply.frontends.python.source.typed import Input, typed
from xpapply.frontends.python.source.values import DEVICE
from xpapply.functions.cache import cache_of
from xpapply.functions.guards import Guards
from xpapply.ir.typed import Array
from xpapply.ir.typed.evaluate import evaluate
from xpapply.ir.typed.verify import verify
from xpapply.limits import LIMITS
from xpapply.planning.python.typed_loop import TypedLoop

pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]

X = np.random.default_rng(1).normal(size=(150, 12))
MAKERS = (
    np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64,
)  # fmt: skip
rng = np.random.default_rng(0)
UNCORRELATED = np.eye(2)


def state_of(g):
    return repr(g.bit_generator.state), repr(np.random.get_state(legacy=False)), random.getstate()


def states():
    """To be put back by `put_back`."""
    return rng.bit_generator.state, np.random.get_state(legacy=False), random.getstate()


def put_back(found):
    rng.bit_generator.state = found[0]
    np.random.set_state(found[1])
    random.setstate(found[2])


def outcome(apply, f, arr, state):
    """What a call gives or raises, what it warns of, and the generators afterwards."""
    put_back(state)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = apply(f, -1, arr)
        except Exception as error:
            found = np.array([repr(error)])
    return found, {str(w.message) for w in said}, state_of(rng)


def check(f, arr=X, engine="cpu", compiled=True):
    """Compare with NumPy's loop, call after call, each where the last one has left off."""
    state = state_of(rng)
    if compiled:
        with xpapply.options(engine="cpu"):
            plan = xpapply.explain(f, -1, arr)
        assert "one compiled loop" in plan.kernels[0]
    assert state_of(rng) == state
    for _ in range(2):
        state = states()
        want = outcome(np.apply_along_axis, f, arr, state)
        with xpapply.options(engine=engine):
            got = outcome(xpapply.apply_along_axis, f, arr, state)
        assert want[0].dtype == got[0].dtype
        assert np.array_equal(want[0], got[0], equal_nan=want[0].dtype.kind == "f")
        assert want[1:] == got[1:]


DRAWS = [
    lambda v: v + rng.normal(size=12) + rng.normal(v, abs(v)) + rng.normal(loc=v),
    lambda v: rng.normal() + rng.normal(v[0], 2.0, (3, 4)).sum() + rng.normal(1, v[1] * v[1]),
    lambda v: rng.normal(1, np.abs(v)) + v * rng.normal(scale=abs(v[1]), size=len(v)),
    lambda v: rng.standard_normal(12) + rng.standard_normal(12, dtype=np.float32),
    lambda v: np.float32(v[0]) * rng.standard_normal(dtype=np.float32),
    lambda v: rng.random((3, 4)) * rng.random() + rng.random(1)[0] + rng.random(0).sum(),
    lambda v: rng.random(v.shape, dtype="float32"),
    lambda v: rng.uniform(0, np.abs(v)) + rng.uniform(v[0], v[0] + 1) + rng.uniform(-1, 1, 12),
    lambda v: rng.exponential(2.0, size=9) + rng.standard_exponential(9, np.float32),
    lambda v: rng.gamma(2.0, 3.0, 7) + rng.standard_exponential(method="zig") + rng.gamma(0.5),
    lambda v: rng.standard_gamma(abs(v[0]), size=2, dtype=np.float32) + rng.standard_gamma(0.0),
    lambda v: rng.beta(2, 3, size=(2, 3)) + rng.chisquare(3.5, (2, 3)) + rng.f(3, 4, (2, 3)),
    lambda v: rng.lognormal(size=3) + rng.laplace(1, 2, 3) + rng.gumbel(1, 2, 3),
    lambda v: rng.logistic(size=3) + rng.rayleigh(2.0, 3) + rng.pareto(3, 3) + rng.standard_t(4),
    lambda v: rng.weibull(2.0, 3) + rng.power(3.0, 3) + rng.vonmises(0.5, 4.0, 3),
    lambda v: rng.wald(1.0, 2.0, 3) + rng.standard_cauchy(3) + rng.poisson() + rng.geometric(0.3),
    lambda v: rng.poisson(3.5, 12) + rng.poisson(np.abs(v) * 20),
    lambda v: rng.integers(10) + rng.integers(0, 10, 5) + rng.integers(1 << 32, size=5),
    lambda v: rng.integers(-5, 5, (3, 4), endpoint=True) + rng.integers(0, 1 << 40, (3, 4)),
    lambda v: rng.integers(0, 200, 7, dtype=np.uint8) + rng.integers(3, 4, 7),
    lambda v: rng.integers(-100, 100, 7, dtype=np.int16) + rng.integers(-9, 9, 7, dtype=np.int32),
    lambda v: v[rng.integers(0, len(v), len(v))].mean() + v[rng.integers(0, len(v))],
    lambda v: rng.choice(v, size=(20, len(v))).mean(axis=1) + rng.choice(v, 20) + rng.choice(v),
    lambda v: rng.choice(7, 5) + rng.choice(3) + rng.choice(4, (2, 5)).sum(axis=0),
    lambda v: rng.choice(3, 6, p=[0.25, 0.25, 0.5]) + rng.choice(v, 6, p=np.full(12, 1 / 12)),
    lambda v: rng.choice(v, 5, replace=False) + rng.choice(12, 5, False) + rng.permutation(v)[:5],
    lambda v: rng.choice(20_000, 12, False, shuffle=False) + rng.permutation(12),
    lambda v: rng.choice(10_001, 1_000, replace=False)[:9],
    lambda v: rng.normal(size=1) + rng.normal(size=0).sum() + rng.exponential(1.5, 0).sum(),
    lambda v: sum([rng.permutation(n)[:1].sum() for n in (0, 1, 2, 3, 4, 5, 8, 9)]),
    lambda v: rng.permutation(v > 0) * rng.permutation((v * 9).astype(np.int16)),
    lambda v: rng.binomial(10, 0.3) + rng.binomial(200, 0.4, 3) + rng.binomial(5, abs(v[:3] / 9)),
]  # fmt: skip


@pytest.mark.parametrize("f", DRAWS)
def test_values_and_states_are_the_loops(f):
    check(f)


LEGACY = [
    lambda v: v + np.random.normal(size=12) + np.random.normal(v, np.abs(v)),
    lambda v: np.random.randn(3, 2).sum() + np.random.randn() + np.random.rand(),
    lambda v: np.random.rand(4) + np.random.random(4) + np.random.random_sample(),
    lambda v: np.random.uniform(-1, 1, 5) + np.random.standard_normal(5) + np.random.poisson(3, 5),
    lambda v: np.random.exponential(2.0, 5) + np.random.standard_exponential(5),
    lambda v: v[np.random.randint(0, len(v), len(v))].mean() + np.random.randint(10),
    lambda v: np.random.randint(0, 200, (3, 4), dtype=np.uint8).sum(axis=0),
    lambda v: np.random.choice(v, 5) + np.random.choice(7, 5) + np.random.choice(3),
    lambda v: np.random.choice(v) + np.random.choice(v, 4, replace=False)
    + np.random.binomial(10, 0.3, 4) + np.random.choice(12, 4, False),
    lambda v: np.random.choice(3, 6, p=[0.25, 0.25, 0.5]),
    lambda v: np.random.permutation(v) + np.random.permutation(12),
]  # fmt: skip


@pytest.mark.parametrize("f", LEGACY)
def test_legacy_values_and_states_are_the_loops(f):
    np.random.seed(4)
    check(f)


def test_legacy_normals_are_kept_from_call_to_call():
    own = np.random.RandomState(8)

    def f(v):
        own.shuffle(w := v.copy())
        return w[0] + own.normal() / v[2]

    arr = X.copy()
    arr[[3, 4, 90], 2] = 0.0
    state = own.get_state()
    with np.errstate(divide="ignore"):
        check(lambda v: v[0] + np.random.normal(), arr)
        want = [np.apply_along_axis(f, -1, arr), own.normal(size=3)]
    after, _ = repr(own.get_state()), own.set_state(state)
    with xpapply.options(engine="cpu"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        got = [xpapply.apply_along_axis(f, -1, arr), own.normal(size=3)]
    assert all(map(np.array_equal, want, got))
    assert repr(own.get_state()) == after


PYTHONS = [
    lambda v: v[0] + random.random() + random.uniform(-1, 1) + random.gauss(0, 2),
    lambda v: random.randint(0, 9) + random.randrange(5) + random.getrandbits(7),
    lambda v: random.expovariate(2.0) + random.normalvariate(0, 1) + random.choice([1, 2, 3]),
    lambda v: v[random.randrange(len(v))] + random.choice(v) + random.triangular(0, 1, 0.25),
]  # fmt: skip


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("f", PYTHONS)
def test_pythons_own_generator(f):
    random.seed(4)
    check(f)


def from_constant(v):
    own = np.random.default_rng(0)
    return v + own.normal(size=12) + own.integers(0, 9, 12)


def from_slice(v):
    own = np.random.default_rng(int(abs(v[0]) * 1e15))
    return own.permutation(v)[:3] + own.gamma(2.0) + own.random(3)


def by_turns(v):
    s, first = 0.0, np.random.default_rng(seed=5)
    for k in range(3):
        own = np.random.default_rng(k * 1_000_003)
        other = np.random.default_rng(own)
        s += own.exponential() + other.poisson(3.0) + first.choice(v) + rng.random()
    return s


def below_zero(v):
    return np.random.default_rng(int(v[0] * 10)).random()


def of_several(v):
    own = np.random.default_rng([int(abs(v[0]) * 1e6), 3, 1 << 40])
    other = np.random.default_rng(np.random.PCG64((1, 2, 3, 4, 5, 6)))
    return own.normal(size=3) + other.permutation(v)[:3]


def of_sequences(v):
    seeds = np.random.SeedSequence([int(abs(v[0]) * 1e6), 7], spawn_key=(2, 1 << 33))
    other = np.random.SeedSequence(int(abs(v[1]) * 1e6), spawn_key=[len(v)])
    third = np.random.PCG64(np.random.SeedSequence(entropy=3))
    own = np.random.default_rng(seeds).normal(size=3)
    return own + np.random.default_rng(other).random() + np.random.Generator(third).random()


def of_bits(v):
    own = np.random.Generator(np.random.PCG64(int(abs(v[0]) * 1e15)))
    return own.exponential(2.0, 4) + np.random.Generator(np.random.PCG64(7)).integers(0, 9, 4)


def one_below_zero(v):
    return np.random.default_rng([1, int(v[0] * 10)]).random()


def legacy_of_seed(v):
    own = np.random.RandomState(int(abs(v[0]) * 1e6))
    own.shuffle(w := v.copy())
    return own.normal(size=3) + own.rand(3) + own.choice(v, 3) + own.randint(0, 9, 3) + w[:3]


def legacy_below_zero(v):
    return np.random.RandomState(int(v[0] * 10)).rand()


def reseeded(v):
    x = np.random.normal()
    if v[0] > 0:
        np.random.seed(int(v[1] * v[1] * 1000))
        x += np.random.normal()
    return x + np.random.randint(5)


SEEDED = [
    of_several,
    of_sequences,
    of_bits,
    one_below_zero,
    legacy_of_seed,
    legacy_below_zero,
    reseeded,
]


@pytest.mark.parametrize("f", [from_constant, from_slice, by_turns, below_zero, *SEEDED])
def test_generators_of_seeds(f):
    check(f)


def simulates(v):
    s, n = 0.0, 0
    for x in v:
        if x > rng.normal():
            s += x * rng.exponential()
            n += rng.integers(0, 3)
    return s + n


def branches(v):
    if v[0] > 0:
        return v[0] + rng.exponential(2.0)
    w = v.copy()
    rng.shuffle(w)
    return w[0] - rng.random()


def walks(v):
    n = 0
    while rng.random() > 0.1:
        n += 1
    return rng.normal(size=n).sum() + v[0]


def helped(v):
    def noise(k):
        return rng.normal(0.0, k)

    return sum([noise(k + 1) for k in range(3)]) + v.mean()


@pytest.mark.parametrize("f", [simulates, branches])
@pytest.mark.parametrize("maker", MAKERS)
def test_loops_that_draw_with_each_kind_of_generator(f, maker, monkeypatch):
    monkeypatch.setitem(globals(), "rng", np.random.Generator(maker(5)))
    check(f)


@pytest.mark.parametrize("f", [walks, helped])
def test_draws_whose_number_depends_on_draws_and_those_of_helpers(f):
    check(f)


@pytest.mark.parametrize("maker", MAKERS)
def test_arrays_with_each_kind_of_generator(maker, monkeypatch):
    monkeypatch.setitem(globals(), "rng", np.random.Generator(maker(5)))
    check(lambda v: v + rng.normal(size=12) + rng.integers(0, 5, 12) + rng.random(12), engine="")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_slices_of_any_dtype(dtype):
    arr = (X * 10).astype(dtype)
    check(lambda v: v + rng.normal(size=12), arr)
    check(lambda v: v[rng.permutation(12) < 6].sum() * rng.random(), arr)


def test_the_next_call_goes_on_where_the_caller_has_drawn():
    def f(v):
        return v[0] + rng.normal(size=3)

    def run(apply):
        rng.bit_generator.state = state
        found = []
        for _ in range(4):
            found.append(apply(f, -1, X))
            found.append(rng.integers(0, 9, 3))
        return np.concatenate([x.ravel() for x in found])

    state = rng.bit_generator.state
    want = run(np.apply_along_axis)
    with xpapply.options(engine="cpu"):
        assert np.array_equal(want, run(xpapply.apply_along_axis))


@pytest.mark.parametrize("at", [0, 1, 70, 149])
def test_what_raises_leaves_the_generator_as_the_loop_does(at):
    arr = X.copy()
    arr[at, 3] = 100.0

    def f(v):
        x = rng.normal(size=2)
        if v[3] > 50:
            rng.random()
            raise ValueError("too large")
        return x.sum() + rng.exponential()

    check(f, arr, compiled=at > 0, engine="cpu" if at else "")


def test_a_parameter_that_is_refused_raises_as_in_the_loop():
    arr = np.abs(X) + 0.1
    arr[80, 0] = -1.0
    check(lambda v: rng.random() + rng.normal(0.0, v[0], 3), arr)
    check(lambda v: rng.random() + rng.poisson(v), arr)
    check(lambda v: rng.integers(0, int(v[0] * 10), 3), arr)
    check(lambda v: rng.random() + rng.normal(0.0, v[0], 0).sum(), arr)  # nothing is drawn
    check(lambda v: rng.random() + rng.gamma(v[0], 1.0, 0).sum(), arr)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: rng.random() + rng.normal(0.0, v[0]) + rng.weibull(v[0] + 0.0),
        lambda v: rng.normal(0.0, v),
        lambda v: rng.exponential(v[0]),
        lambda v: rng.gamma(v[0]) + rng.gamma(2.0, v[1]),
        lambda v: rng.uniform(0.0, v[0]),
        lambda v: rng.standard_gamma(v[0], dtype=np.float32),
        lambda v: rng.vonmises(0.0, v[0]),
        lambda v: rng.weibull(v[0]),
        lambda v: rng.poisson(v[0]) + rng.binomial(3, v[0] / 9),
        lambda v: np.random.normal(0.0, v[0]) + np.random.exponential(v[1]),
        lambda v: rng.normal(0.0, -0.0) if v[0] == 0.0 else rng.normal(),
    ],
)
def test_zeros_below_zero_raise_as_in_the_loop(f):
    arr = np.abs(X)
    arr[80, 0], arr[30, 0] = -0.0, 0.0
    check(f, arr)


@pytest.mark.parametrize("share", [0.01, 0.3, 1.0])
def test_slices_that_are_marked_find_the_generator_as_in_the_loop(share):
    arr = X.copy()
    arr[np.random.default_rng(3).random(150) < share, 2] = 0.0

    def f(v):
        x = rng.normal()
        return x / v[2] + rng.random()  # NumPy warns of a division by zero

    check(f, arr)


def test_several_generators():
    other = np.random.default_rng(9)

    def f(v):
        return rng.normal() + other.random() if v[0] > 0 else other.normal(size=2)[1]

    state = other.bit_generator.state
    want = np.apply_along_axis(f, -1, X)
    after = state_of(other)
    other.bit_generator.state = state
    rng.bit_generator.state = np.random.PCG64(0).state
    other.bit_generator.state = state
    want = np.apply_along_axis(f, -1, X)
    other.bit_generator.state = state
    rng.bit_generator.state = np.random.PCG64(0).state
    with xpapply.options(engine="cpu"):
        assert np.array_equal(want, xpapply.apply_along_axis(f, -1, X))
    assert state_of(other) == after


def drawn_in_a_helper(v):
    return rng.normal() * v[0]


@pytest.mark.parametrize("where", ["closure", "global", "global of a helper"])
def test_another_generator_in_the_same_place(where, monkeypatch):
    """It is drawn from, without reading the function again, unless it is of another kind."""

    def function(own):
        monkeypatch.setitem(globals(), "rng", own)
        if where == "closure":
            return lambda v: v[0] + own.normal()
        return (lambda v: rng.random(2)) if where == "global" else lambda v: drawn_in_a_helper(v)

    made = []
    for k, maker in enumerate([*MAKERS[:1] * 3, *MAKERS[2:3] * 2]):
        own = np.random.Generator(maker(k))
        want, after = np.apply_along_axis(function(own), -1, X), state_of(own)
        own = np.random.Generator(maker(k))
        f = function(own)
        with xpapply.options(engine="cpu"):
            assert np.array_equal(want, xpapply.apply_along_axis(f, -1, X))
        assert state_of(own) == after
        made += [x for x in cache_of(f)[0].traced.values() if isinstance(x, TypedLoop)]
    assert len({*map(id, made)}) == 2


class Simulation:
    def __init__(self):
        self.rng = rng

    def __call__(self, v):
        return v[0] + self.rng.normal()

    def method(self, v, k=1.0):
        return v[0] * k + self.rng.exponential()


@pytest.mark.parametrize(
    "call",
    [
        lambda apply, arr: apply(lambda v, g: v + g.normal(size=12), -1, arr, rng),
        lambda apply, arr: apply(lambda v, g=None: v.sum() + g.random(), -1, arr, g=rng),
        lambda apply, arr: apply(Simulation(), -1, arr),
        lambda apply, arr: apply(Simulation().method, -1, arr, 2.0),
        lambda apply, arr: apply(functools.partial(lambda v, f: v[0] + f(), f=rng.normal), -1, arr),
        lambda apply, arr: apply(lambda v: v[:2] + rng.random(2), 0, arr.reshape(-1, 3, 10)),
        lambda apply, arr: apply(lambda v: v.sum() + rng.random(), 1, np.asfortranarray(arr)),
    ],
)  # fmt: skip
def test_generators_reach_a_function_in_any_way(call):
    state = states()
    want, after = call(np.apply_along_axis, X), state_of(rng)
    put_back(state)
    with xpapply.options(engine="cpu"):
        assert np.array_equal(want, call(xpapply.apply_along_axis, X))
    assert after == state_of(rng)


def test_arrays_in_files(tmp_path):
    arr = np.memmap(tmp_path / "x", np.float64, "w+", shape=X.shape)
    arr[:] = X
    check(lambda v: v + rng.normal(size=12), arr)
    check(lambda v: v.sum() + rng.normal(), arr, engine="")


def test_what_is_not_compiled_says_why():
    for f, why in (
        (lambda v: rng.permuted(v), "it draws random numbers by permuted"),
        (lambda v: rng.normal(size=(2, 3, 2)).sum(), "more than two axes"),
        (lambda v: rng.choice(v, (3, 2), replace=False), "without replacement"),
        (lambda v: rng.multivariate_normal(v[:2], UNCORRELATED), "factor @ rng.standard_normal"),
        (lambda v: np.random.default_rng(3).spawn(2)[0].random(), "default_rng([seed, k])"),
        (lambda v: np.random.RandomState([1, 2]).rand(), "makes a RandomState of a list"),
    ):
        with xpapply.options(fallback="silent"):
            assert why in str(xpapply.explain(f, -1, X))
        with xpapply.options(fallback="silent"):
            check(f, engine="", compiled=False)


def test_explain_draws_nothing_and_says_what_runs():
    def f(v):
        return v + rng.normal(size=12)

    state = state_of(rng)
    assert "one compiled loop" in xpapply.explain(f, -1, X).kernels[0]
    assert state_of(rng) == state


def two_draws(a, b):
    x = rng.normal(a, 2.0)
    if x > b:
        x += rng.exponential()
    return x


def noisy(v, k):
    return v * k + rng.normal(size=v.shape)


@pytest.mark.parametrize("engine", ["", "cpu"])
@pytest.mark.parametrize(
    ("f", "more", "shapes"),
    [
        (two_draws, {}, ((7, 20), (20,))),
        (two_draws, {"otypes": "d"}, ((200,), (200,))),
        (two_draws, {"otypes": "f"}, ((50, 1), (1, 4))),
        (lambda a, b: rng.poisson(abs(a)) if a > b else rng.integers(3), {}, ((150,), ())),
        (noisy, {"signature": "(n),()->(n)"}, ((150, 6), (150,))),
        (noisy, {"signature": "(n)->(n)", "excluded": {1}}, ((150, 6), ())),
    ],
)
def test_vectorize_draws_as_numpys_own_does(f, more, shapes, engine):
    given = [np.random.default_rng(k).normal(size=s)[()] for k, s in enumerate(shapes)]
    state = states()

    def run(vectorize):
        put_back(state)
        found = vectorize(f, **more)
        return [found(*given) for _ in range(3)], state_of(rng)

    want, after = run(np.vectorize)
    with xpapply.options(engine=engine):
        got, mine = run(xpapply.vectorize)
    for a, b in zip(want, got, strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)
    assert after == mine


def draws_then_raises(a, b):
    x = rng.normal(a, 2.0)
    if a > 3.0:
        raise ValueError("too large")
    return x * b


@pytest.mark.parametrize("engine", ["", "cpu"])
@pytest.mark.parametrize("more", [{}, {"otypes": "d"}])
@pytest.mark.parametrize(
    "lie",
    [
        lambda x: (x.reshape(20, 15).T, 2.0),
        lambda x: (x.reshape(20, 15).T, x.reshape(20, 15).T[0]),
        lambda x: (np.asfortranarray(x.reshape(20, 15)), x.reshape(20, 15)),
        lambda x: (x.reshape(5, 6, 10).transpose(2, 0, 1), x.reshape(5, 6, 10).transpose(2, 0, 1)),
        lambda x: (x.reshape(5, 6, 10).transpose(2, 1, 0)[::-1, 1:], x[:5, None]),
        lambda x: (np.broadcast_to(x[:20, None], (20, 15)), x[:15]),
        lambda x: (x[::-1].reshape(20, 15)[:, ::2].T, x[:1]),
    ],
)
def test_vectorize_draws_in_the_order_in_which_elements_lie(lie, more, engine):
    given, state = lie(np.random.default_rng(4).normal(size=300)), states()

    def run(vectorize, f, *given):
        put_back(state)
        try:
            found = [vectorize(f, **more)(*given) for _ in range(2)]
        except ValueError as error:
            found = [np.array([str(error), *error.__notes__][:2])]
        return [(x.tolist(), x.strides) for x in found], state_of(rng)

    large = given[0].copy("K")
    large[-1, 1] = 9.0
    for f, arrays in ((two_draws, given), (draws_then_raises, (large, *given[1:]))):
        with xpapply.options(engine="loop"):
            want = run(xpapply.vectorize, f, *arrays)
        if f is two_draws:
            assert want == run(np.vectorize, f, *arrays)
        with xpapply.options(engine=engine):
            assert run(xpapply.vectorize, f, *arrays) == want


def many(v):
    s = rng.normal(size=300).sum() + rng.standard_exponential(300).sum() + rng.integers(0, 7)
    for n in (1 << 32, (1 << 32) - 1, (1 << 31) + 5, 1 << 40):  # halves are kept between
        s += rng.integers(0, 3) + rng.integers(0, n) * 1e-9
    return s + rng.permutation(30)[0] + rng.random()


def test_tails_and_halves_that_are_kept():
    check(many, np.zeros((900, 2)))


@pytest.mark.parametrize(
    "f", [simulates, branches, many, by_turns, of_sequences, of_bits, legacy_of_seed]
)
def test_the_evaluator_draws_the_same(f):
    made, _ = typed_function(f, X[0])
    verify(made)
    for v in X[:4]:
        state, out = states(), np.zeros(np.shape(f(v.copy())))
        put_back(state)
        want, after = f(v.copy()), state_of(rng)
        put_back(state)
        assert evaluate(made, [v.copy()], [out]) == 0
        assert np.array_equal(out, want)
        assert state_of(rng) == after


@for_others
def test_draws_compile_for_other_cpus(name):
    for f in (many, by_turns, of_several, legacy_of_seed):
        made, _ = typed_function(f, X[0])
        assert NAME.encode() in machine_code(kernel(made, TARGETS[name]), name)


def test_slices_on_a_device_are_refused():
    watch, kind = Guards(), Array("float64", 1)
    watch.start(simulates)
    with pytest.raises(TraceError, match="random numbers of NumPy's for slices on a device"):
        typed(simulates, [Input(0)], {}, [kind], None, watch, DEVICE)


class Proxy:
    """Whose attributes are those of something that is not there, as of a proxy of a request."""

    def __getattr__(self, name):
        raise RuntimeError(f"nothing is there that has {name}")

    @property
    def __self__(self):
        raise RuntimeError("nothing is there")

    def __call__(self, v):
        return 1.0


class Closed(Proxy):
    def __getattribute__(self, name):
        raise RuntimeError(f"nothing is there that has {name}")


@pytest.mark.parametrize("kind", [Proxy, Closed])
def test_attributes_of_other_objects_are_not_asked_for(kind, monkeypatch):
    monkeypatch.setitem(globals(), "proxy", kind())

    def f(v):
        s = 0.0
        for x in v:
            s += x * rng.random()
        return s + proxy(v)  # noqa: F821

    # reading it from the source may fail for what is closed: then the loop runs
    with xpapply.options(fallback="silent"), LIMITS.set(raised_faults=kind is Proxy):
        check(lambda v: proxy(v) + v[0], engine="", compiled=False)  # noqa: F821
        check(f, engine="", compiled=False)
