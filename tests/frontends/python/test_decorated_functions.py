"""Functions within decorators: `**kwargs` is handed on, and each is remembered for itself."""

import functools
import gc

import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.functions import cache
from xpapply.limits import LIMITS

needs_kernels = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))
SLICES = np.random.default_rng(0).normal(size=(60, 40))
CALLS = []


def logged(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs)

    return wrapper


def as_pandas(f):  # what pandas makes of a function with raw=True
    def wrapper(*args, **kwargs):
        result = f(*args, **kwargs)
        if isinstance(result, str):
            result = np.array(result, dtype=object)
        return result

    return wrapper


def smoothed(v, share=0.3, *, start=0.0):
    e = start
    for x in v:
        if not np.isnan(x):
            e = share * x + (1 - share) * e
    return e


def above(v, limit=0.5):
    n = 0
    for x in v:
        if x > limit:
            n += 1
        else:
            n = 0
    return n


SETTINGS = {"share": 0.2, "start": 1.0}


def with_settings(v):
    return smoothed(v, **SETTINGS)


def reads(v, **kwargs):
    return smoothed(v, kwargs["share"], start=kwargs["start"])


def reads_what_is_not_there(v, **kwargs):
    return smoothed(v, kwargs["part"])


def twice(v, **kwargs):
    return smoothed(v, share=0.1, **kwargs)


def wrong(v, **kwargs):
    return above(v, **kwargs)


def compared(f, *args, **kwargs):
    def outcome(apply):
        try:
            return apply(f, -1, SLICES, *args, **kwargs)
        except (TypeError, KeyError) as e:
            return type(e), str(e)

    loop = outcome(np.apply_along_axis)
    with xpapply.options(engine="cpu" if not isinstance(loop, tuple) else ""):
        ours = outcome(xpapply.apply_along_axis)
        if isinstance(loop, tuple):
            assert ours == loop
            return
        engine = xpapply.explain(f, -1, SLICES, *args, **kwargs).engine
    np.testing.assert_array_equal(ours, loop)
    assert ours.dtype == loop.dtype
    assert engine == "cpu"


@needs_kernels
@pytest.mark.parametrize("wrap", [logged, as_pandas, lambda f: logged(logged(f))])
@pytest.mark.parametrize("given", [{}, {"share": 0.5}, {"start": 2.0, "share": 0.25}])
def test_what_hands_its_arguments_on_is_compiled(wrap, given):
    compared(wrap(smoothed), **given)


@needs_kernels
def test_the_arguments_of_a_dict_are_compiled():
    compared(with_settings)
    compared(logged(with_settings))
    SETTINGS["share"] = 0.6  # which is noticed
    try:
        compared(with_settings)
    finally:
        SETTINGS["share"] = 0.2


@needs_kernels
@pytest.mark.parametrize(
    ("f", "given"),
    [
        (reads, {"share": 0.5, "start": 1.0}),
        (reads_what_is_not_there, {"share": 1.0}),
        (twice, {"share": 1.0}),
        (twice, {"start": 1.0}),
        (wrong, {"share": 1.0}),
    ],
)
def test_further_arguments_are_what_they_are(f, given):
    compared(f, **given)


def test_functions_of_one_decorator_are_remembered_side_by_side():
    one, two = logged(smoothed), logged(above)
    known = cache.cache_of(one)[0]
    other = cache.cache_of(two)[0]
    assert known is not other
    assert cache.cache_of(one)[0] is known
    assert cache.cache_of(two)[0] is other
    assert cache.cache_of(logged(smoothed))[0] is known  # as good as the first


def test_of_functions_with_other_numbers_one_is_remembered():
    def made(k):
        return lambda v: v.sum() + k

    for k in range(4):
        f = made(float(k))
        cache.cache_of(f)
    assert len(cache._by_code[f.__code__]) == 1


def test_few_are_remembered_and_none_that_is_gone():
    def many(count):
        made = [logged(lambda v, k=k: v.sum() + k) for k in range(count)]
        for f in made:
            cache.cache_of(f)
        return made

    kept = many(LIMITS.decorated + 5)
    some = cache._by_code[kept[0].__code__]
    assert len(some) == LIMITS.decorated
    del kept
    gc.collect()
    cache.cache_of(logged(above))
    assert len(cache._by_code[logged(above).__code__]) <= 3  # it, and those of other tests
