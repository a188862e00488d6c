"""Random Python functions as kernels: what the plain loop gives, warns of and raises."""

import os
import random
import warnings
from contextlib import contextmanager
from unittest import mock

import guarded
import numpy as np
import pytest
from hypothesis import event, given, note, settings
from hypothesis import strategies as st
from kernel_functions import allowed, draw, long_slices, make, slices
from thresholds import always_plan

import xpapply
from xpapply.backends import numpy as numpy_backend
from xpapply.frontends.python.run.rows import Rows
from xpapply.functions import cache
from xpapply.limits import LIMITS
from xpapply.planning.python import kernel_of_paths, python_functions
from xpapply.planning.python import traced as tracing

pytest.importorskip("llvmlite")

from xpapply.backends.cpu import compiler, kernels

STATES = ({},) * 12 + (
    {"all": "ignore"},
    {"divide": "raise"},
    {"invalid": "raise", "over": "ignore"},
    {"over": "raise"},
    {"all": "warn"},
    {"all": "raise"},
)
TARGETS = ("", *(t for t in ("AVX2", "SSE2") if compiler.host().name != "NEON"))


@pytest.fixture(scope="module", autouse=True)
def _always_compile():
    with pytest.MonkeyPatch.context() as patch:
        always_plan(patch)
        patch.setattr(LIMITS, "slices_compiling", 0.0)
        # nothing hides what is wrong with a kernel
        patch.setattr(kernel_of_paths.KernelOfPaths, "_check", lambda *_: None)
        patch.setattr(LIMITS, "kernel_marked", 2.0)
        yield
    cache.clear()


@contextmanager
def on(target):
    """As if this machine had no more than these vector instructions."""
    with mock.patch.dict(os.environ, {"XPAPPLY_CPU": target} if target else {}):
        compiler.host.cache_clear()
        try:
            compiler.host()
        except xpapply.InputError as error:
            pytest.skip(str(error))
        yield
    compiler.host.cache_clear()


def outcome(apply, f, axis, x, state):
    """The result or the exception, with the warnings."""
    with warnings.catch_warnings(record=True) as seen, xpapply.options(fallback="silent"):
        warnings.simplefilter("always")
        with np.errstate(**state):
            try:
                found = apply(f, axis, x)
            except Exception as error:
                return error, None
    return found, {(w.category, str(w.message)) for w in seen}


def compare(source, axis, x, state):
    """Compare three calls with the loop; why there is no kernel, or ""."""
    f = make(source)
    want, warned = outcome(np.apply_along_axis, f, axis, x, state)
    f = make(source)
    for _ in range(3):  # the kernel is made anew with the paths that were found
        got, warns = outcome(xpapply.apply_along_axis, f, axis, x, state)
        if isinstance(want, Exception):
            assert type(got) is type(want), (got, want)
            assert str(got) == str(want)
            continue
        if isinstance(got, Exception):
            raise got
        assert (type(got), got.shape, got.dtype) == (type(want), want.shape, want.dtype)
        assert_close(source, axis, x, got, want)
        # of what casts to the first slice's dtype lose, other engines do not warn
        assert warns <= warned if no_kernel(f, axis, x, state) else warns == warned
    return no_kernel(f, axis, x, state)


def no_kernel(f, axis, x, state):
    """Why a function did not run as one kernel, or ""."""
    known, _ = python_functions.cache_of(f)
    # beside it may stand what compiling the source waits for, or why that is refused
    made = (t for t in known.traced.values() if isinstance(t, tracing.TracedFunction))
    traced = next(made, None)
    if traced is None:
        return "it is not traced"
    with np.errstate(**state):
        call = traced.ways[0].call_for(Rows(x, axis))
    if call is None:
        return traced.ways[0].why_not(None) or "of this array"
    return "" if call.engine == "cpu" else f"{call.engine}: {call.reasons}"


def assert_close(source, axis, x, got, want):
    """Equal, but for rounding; and NaN, infinities and decisions in the same places."""
    own = range(axis, axis + want.ndim - x.ndim + 1)
    rows, mine, theirs = np.moveaxis(x, axis, -1), to_end(got, own), to_end(want, own)
    f = make(source)
    for at in np.ndindex(rows.shape[:-1]):
        a, b = mine[at], theirs[at]
        if a.tobytes() == b.tobytes():
            continue
        tolerance, certain = allowed(f, rows[at], b)
        with np.errstate(all="ignore"):
            apart = np.abs(a.astype(float) - b.astype(float))
            fine = (apart <= tolerance) | (a == b) | (np.isnan(a) & np.isnan(b))
        fine &= ~certain | (np.signbit(a) == np.signbit(b)) if certain.any() else True
        if np.ndim(tolerance) or np.isfinite(tolerance):
            assert np.all(fine), (rows[at], a, b, tolerance)


def to_end(x, axes):
    return np.moveaxis(x, list(axes), range(x.ndim - len(axes), x.ndim))


def check(r, x, target):
    """A random function on slices; how it ran is an event of Hypothesis."""
    source = draw(r, x.array.shape[x.axis])
    state = r.choice(STATES)
    note(f"{source}\n{x!r}\n{state}")
    with on(target), forms() as found, guard_pages(r.random() < 0.5) as outs:
        # at the end of its memory, or where that begins
        array = x.array if outs is None else between_pages(x.array, r.random() < 0.5)
        why = compare(source, x.axis, array, state)
    assert all(map(guarded.intact, outs or ()))
    event(f"no kernel: {why.split('(')[0][:60]}" if why else "one kernel")
    for form in found:
        event(form)


def between_pages(x, end):
    return guarded.guarded(x, end, misaligned=x.ctypes.data % x.itemsize, writable=False)


@contextmanager
def guard_pages(wanted):
    """Results beside pages that nobody may touch: a list of the arrays; None if not wanted."""
    outs = []

    def empty(shape, dtype, like):
        outs.append(guarded.guarded(np.zeros(shape, dtype), len(outs) % 2 == 0))
        return outs[-1]

    if not (wanted and guarded.HERE):
        yield None
        return
    with mock.patch.object(numpy_backend.BACKEND, "empty", empty):
        yield outs


@contextmanager
def forms():
    """How the kernels that run go through slices."""
    found = set()

    def noted(*args, way=kernels.way):
        made = way(*args)
        where = "across" if made.form.across else "along"
        found.update(f"{where}, {move}" for move in made.form.moves)
        found.update(["in pieces"] * (made.form.piece >= 0))
        return made

    with mock.patch.object(kernels, "way", noted):
        yield found


@pytest.mark.kernels
@pytest.mark.parametrize("target", TARGETS)
@given(seed=st.integers(0, 2**63))
def test_random_functions(target, seed):
    r = random.Random(seed)
    check(r, slices(r), target)


@pytest.mark.kernels
@pytest.mark.parametrize("target", TARGETS)
@given(seed=st.integers(0, 2**63))
@settings(max_examples=max(10, settings().max_examples // 4))
def test_random_functions_of_long_slices(target, seed):
    r = random.Random(seed)
    check(r, long_slices(r), target)
