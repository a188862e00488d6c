"""What is replaced, for whom, and that all of it comes back."""

import copy
import functools
import itertools
import math
import os
import pickle
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest
from in_threads import in_threads

import xpapply
from xpapply.limits import LIMITS
from xpapply.loop import originals, processes
from xpapply.loop.originals import Replaced

X = np.random.default_rng(0).random((3000, 8))
OWN = types.SimpleNamespace(along=np.apply_along_axis, call=np.vectorize.__call__)
"""In an object: names of this module are replaced too."""


def above(v):
    return v[v > 0.5].sum()


def by_hash(v):
    return hash(v.max()) % 7


def by_hash_of_number(a):
    return hash(a) % 7


def larger(a, b):
    return a - b if a > b else a + b


def engines(patched, name):
    (row,) = (row for row in patched.report.rows if row.name.endswith(name))
    return set(row.engines)


def raised(call):
    try:
        pytest.fail(f"nothing was raised, the result is {call()}")
    except Exception as error:
        return error


# --- places -------------------------------------------------------------------------------------


def test_all_is_back_after_it():
    before = {
        name: dict(vars(m))
        for name, m in list(sys.modules.items())
        if type(m) is types.ModuleType and name.startswith(("numpy", "scipy", "sklearn", "xarray"))
    }
    import copyreg

    table = dict(copyreg.dispatch_table)
    finders = list(sys.meta_path)
    with xpapply.patch():
        assert type(np.apply_along_axis) is Replaced
        assert np.vectorize.__call__ is not OWN.call
        np.apply_along_axis(above, 1, X)
    assert np.apply_along_axis is OWN.along
    assert np.vectorize.__call__ is OWN.call
    assert np.ma.apply_along_axis is originals.masked_apply_along_axis()
    assert copyreg.dispatch_table == table
    assert sys.meta_path == finders
    for name, names in before.items():
        now = vars(sys.modules[name])
        assert all(now[k] is x for k, x in names.items()), name


@pytest.fixture
def module():
    made = types.ModuleType("holds_the_function")
    made.along = OWN.along
    made.other = sorted
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def test_modules_that_hold_the_function_are_served(module):
    with xpapply.patch() as patched:
        assert module.along is np.apply_along_axis is not OWN.along
        np.testing.assert_array_equal(module.along(above, 1, X), OWN.along(above, 1, X))
        assert engines(patched, "above") != {"loop"}
    assert module.along is OWN.along
    assert module.other is sorted


def test_what_was_put_there_since_is_left_alone(module):
    with xpapply.patch():
        module.along = len
    assert module.along is len


def test_what_was_imported_meanwhile_is_put_back():
    late = types.ModuleType("imported_late")
    sys.modules[late.__name__] = late
    try:
        with xpapply.patch():
            exec("from numpy import apply_along_axis as along", vars(late))
            kept = late.along
        assert late.along is OWN.along
    finally:
        del sys.modules[late.__name__]
    # who holds on to it elsewhere gets the original
    assert kept(above, 1, X[:20]).shape == (20,)


def test_modules_of_numpy_hold_it():
    with xpapply.patch():
        assert np.lib._shape_base_impl.apply_along_axis is np.apply_along_axis
    assert np.lib._shape_base_impl.apply_along_axis is OWN.along


def test_a_call_that_another_tool_replaced_is_left_alone(monkeypatch):
    def other(self, *args, **kwargs):
        return 5

    with xpapply.patch():
        monkeypatch.setattr(np.vectorize, "__call__", other)
    assert np.vectorize.__call__ is other


def test_nested_and_twice():
    first = xpapply.patch()
    with xpapply.patch() as second:
        np.apply_along_axis(above, 1, X)
        assert second.is_active
    assert not second.is_active
    assert type(np.apply_along_axis) is Replaced
    np.apply_along_axis(above, 1, X)
    first.undo()
    first.undo()
    assert np.apply_along_axis is OWN.along
    assert [row.calls for row in first.report.rows] == [2]
    assert [row.calls for row in second.report.rows] == [1]
    with first:
        assert type(np.apply_along_axis) is Replaced
    assert np.apply_along_axis is OWN.along
    assert not first.report.rows


def test_importing_it_changes_nothing():
    code = (
        "import numpy as np; own = np.apply_along_axis, np.vectorize.__call__\n"
        "import xpapply.patching, xpapply.patching.runner\n"
        "print(own == (np.apply_along_axis, np.vectorize.__call__))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "True\n"


def test_patched_before_anything_else_of_xpapply_is_loaded():
    code = (
        "import numpy as np, xpapply; own = np.apply_along_axis; p = xpapply.patch()\n"
        "x = np.random.default_rng(0).random((3000, 4)); f = lambda v: hash(v.max())\n"
        "with xpapply.options(fallback='silent'): y = xpapply.apply_along_axis(f, 1, x)\n"
        "v = xpapply.vectorize(lambda a: hash(a) % 3); z = v(x)\n"
        "print(p.report.rows, (y == own(f, 1, x)).all(), z.shape)"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    assert ran.stdout == "[] True (3000, 4)\n", ran.stderr


# --- the class vectorize ------------------------------------------------------------------------


def test_the_class_stays_what_it_is():
    made = np.vectorize(larger)
    cls = np.vectorize
    with xpapply.patch() as patched:
        assert np.vectorize is cls
        assert isinstance(made, np.vectorize)
        got = made(X[:, 0], 0.5)  # objects made before are served
        assert engines(patched, "larger") != {"loop"}
        assert issubclass(xpapply.vectorize, np.vectorize)
        assert type(copy.copy(made)) is cls
    np.testing.assert_array_equal(got, made(X[:, 0], 0.5))


def test_classes_made_of_it_stay_as_they_are():
    class Twice(np.vectorize):
        def __call__(self, *args):
            return 2 * super().__call__(*args)

    with xpapply.patch() as patched:

        class Meanwhile(np.vectorize):
            pass

        np.testing.assert_array_equal(Twice(larger)(X, 0.5), 2 * np.vectorize(larger)(X, 0.5))
        Meanwhile(larger)(X, 0.5)
        assert [row.calls for row in patched.report.rows] == [1]


def test_attributes_and_the_decorator():
    with xpapply.patch():

        @np.vectorize(otypes=[np.float32], excluded={"k"})
        def scaled(a, k):
            "Scale it."
            return a * k[0]

        assert scaled.__doc__ == "Scale it."
        assert scaled.__name__ == "scaled"
        got = scaled(X, k=[3])
        assert scaled.otypes == ["f"]
        assert scaled.excluded == {"k"}
        assert scaled.signature is None
        assert scaled.cache is False
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, scaled(X, k=[3]))


def test_pickles():
    made, partial = np.vectorize(above), functools.partial(OWN.along, above)
    with xpapply.patch():
        held = np.apply_along_axis
        sent = [pickle.dumps(x) for x in (made, partial, np.apply_along_axis, np.sum)]
        assert pickle.loads(sent[2]) is np.apply_along_axis
        assert pickle.loads(sent[3]) is np.sum
        assert copy.deepcopy(held) is held
    loaded = [pickle.loads(x) for x in sent]
    assert type(loaded[0]) is np.vectorize
    assert loaded[1].func is loaded[2] is OWN.along
    assert pickle.loads(pickle.dumps(held)) is OWN.along


def test_pickles_go_to_processes_without_xpapply():
    with xpapply.patch():
        sent = pickle.dumps([np.apply_along_axis, np.vectorize(len)])
    code = (
        "import sys, pickle; sys.modules['xpapply'] = None\n"
        f"import numpy as np; a, v = pickle.loads({sent!r})\n"
        "print(a is np.apply_along_axis, v(np.array(['ab', 'c'])))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout == "True [2 1]\n", ran.stderr


# --- other libraries' own arrays ----------------------------------------------------------------


class Own:
    """An array of a library with its own apply_along_axis."""

    table = {}  # noqa: RUF012

    def __array_function__(self, func, types, args, kwargs):
        return self.table[func](*args, **kwargs)


def test_functions_are_found_in_tables_of_array_functions():
    Own.table = {OWN.along: lambda f, axis, arr: "before"}
    with xpapply.patch():
        assert np.apply_along_axis(len, 0, Own()) == "before"
        Own.table = {np.apply_along_axis: lambda f, axis, arr: "meanwhile"}
        assert np.apply_along_axis(len, 0, Own()) == "meanwhile"
        assert np.apply_along_axis == OWN.along
        assert np.apply_along_axis._implementation is OWN.along._implementation
        assert not hasattr(np.apply_along_axis, "nothing")


# --- calls --------------------------------------------------------------------------------------


def test_calls_by_keyword():
    with xpapply.patch() as patched:
        for call in (
            lambda along: along(func1d=above, axis=1, arr=X),
            lambda along: along(above, 1, arr=X),
            lambda along: along(np.percentile, 1, X, 25),
            lambda along: along(np.percentile, 1, X, q=25),
            lambda along: along(lambda v, self, original: v.sum() + self, 1, X, self=1, original=2),
        ):
            np.testing.assert_allclose(call(np.apply_along_axis), call(OWN.along), rtol=1e-13)
        assert all(set(row.engines) != {"loop"} for row in patched.report.rows)


@pytest.mark.parametrize(
    "given",
    [
        (),
        (above,),
        (above, 1),
        (above, 2, X),
        (above, "1", X),
        (above, None, X),
        (None, 1, X),
        (above, 1, X, 5),
        (above, 0, np.zeros((3, 0))),
        (lambda v: v[20], 1, X),
        (lambda v: np.zeros(2 + (v[0] > 0.5)), 1, X),
        (lambda v: 1 // int(v[0] > 0.01), 1, X),
        (lambda v: [][1], 1, X),
    ],
)
def test_errors_are_those_of_the_original(given, patched):
    own, ours = raised(lambda: OWN.along(*given)), raised(lambda: np.apply_along_axis(*given))
    assert type(ours) is type(own)
    assert str(ours) == str(own)
    assert getattr(ours, "__notes__", None) is None


@pytest.mark.parametrize(
    ("f", "how", "given"),
    [
        (larger, {}, ()),
        (larger, {}, (X,)),
        (larger, {}, (X, np.zeros(7))),
        (larger, {}, (X, np.zeros((0, 8)))),
        (lambda a: 1 // int(a > 0.01), {}, (X,)),
        (lambda a: [][1], {"otypes": "d"}, (X,)),
        (lambda v, w: v @ w, {"signature": "(n),(n)->()"}, (X, np.zeros(7))),
        (lambda v: v, {"signature": "(n)->()"}, (X,)),
        (lambda v: (v, v), {"signature": "(n)->(n)"}, (X,)),
        (lambda v: v[20], {"signature": "(n)->()"}, (X,)),
    ],
)
def test_errors_of_vectorize_are_those_of_the_original(f, how, given, patched):
    made = np.vectorize(f, **how)
    own, ours = raised(lambda: OWN.call(made, *given)), raised(lambda: made(*given))
    assert type(ours) is type(own)
    assert str(ours) == str(own)
    assert getattr(ours, "__notes__", None) is None


def test_no_warning_of_ours_comes_out():
    with warnings.catch_warnings(), xpapply.patch() as patched:
        warnings.simplefilter("error")
        np.apply_along_axis(by_hash, 1, X)
        np.vectorize(lambda a: hash(a) % 7)(X)
        assert all(row.reasons for row in patched.report.rows)


@pytest.mark.parametrize("how", ["raise", "warn"])
def test_what_xpapply_does_about_loops_is_for_its_own_calls(how, patched):
    with xpapply.options(fallback=how):
        got = np.apply_along_axis(by_hash, 1, X)
    np.testing.assert_array_equal(got, OWN.along(by_hash, 1, X))
    with xpapply.options(fallback="raise"), pytest.raises(xpapply.UnsupportedError):
        xpapply.apply_along_axis(by_hash, 1, X)


def caught(call):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = call()
    return result, [(w.category, str(w.message)) for w in found]


@pytest.mark.parametrize(
    "f",
    [
        lambda a: a * 1e308 * a,
        lambda a: a - a if a > 0.5 else 1.0,
        lambda a: 1.0 / (1.0 + np.exp(1000 * a)),
        lambda a: float("nan"),
        lambda a: np.log(a - 0.5),
    ],
)
def test_warnings_of_floating_point_are_those_of_the_original(f, patched):
    x = np.concatenate([X.ravel()[:500] * 2, [np.inf, 1e300]])
    made = np.vectorize(f)
    want, own = caught(lambda: OWN.call(made, x))
    got, ours = caught(lambda: made(x))
    np.testing.assert_allclose(got, want, rtol=1e-13)
    assert set(ours) == set(own)


@pytest.mark.parametrize("threads", [4])
def test_threads(threads):
    want = OWN.along(above, 1, X), OWN.along(by_hash, 1, X)
    failed = []

    def work():
        try:
            for _ in range(5):
                np.testing.assert_allclose(np.apply_along_axis(above, 1, X), want[0], rtol=1e-13)
                np.testing.assert_array_equal(np.apply_along_axis(by_hash, 1, X), want[1])
        except BaseException as error:
            failed.append(error)

    with xpapply.patch() as patched:
        in_threads(work, times=threads)
        assert not failed
        assert sum(row.calls for row in patched.report.rows) == threads * 10


def test_patched_and_undone_in_threads_at_a_time():
    def work():
        for _ in range(20):
            with xpapply.patch():
                np.apply_along_axis(above, 1, X[:20])

    in_threads(work, times=4)
    assert np.apply_along_axis is OWN.along
    assert np.vectorize.__call__ is OWN.call


def test_the_function_is_called_once_for_each_slice(patched):
    calls = []

    def kept(v):
        calls.append(float(v[0]))
        return len(calls)

    np.testing.assert_array_equal(np.apply_along_axis(kept, 1, X), np.arange(1, len(X) + 1))
    assert calls == X[:, 0].tolist()
    for how, extra in (({}, 1), ({"otypes": "d"}, 0)):
        calls.clear()
        np.vectorize(lambda a: kept([a]), **how)(X[:, 0])
        assert calls == X[:extra, 0].tolist() + X[:, 0].tolist()
    calls.clear()
    np.vectorize(kept, signature="(n)->()")(X)
    assert calls == X[:, 0].tolist()


def test_patched_calls_within_functions(patched):
    def inner(v):
        return np.apply_along_axis(above, 0, np.outer(v, v)).sum()

    np.testing.assert_allclose(
        np.apply_along_axis(inner, 1, X[:200]),
        OWN.along(lambda v: OWN.along(above, 0, np.outer(v, v)).sum(), 1, X[:200]),
    )


def test_options_hold(patched):
    with xpapply.options(engine="loop"):
        np.apply_along_axis(above, 1, X)
    assert engines(patched, "above") == {"loop"}
    with xpapply.options(engine="numpy"):
        np.apply_along_axis(np.median, 1, X)
    assert engines(patched, "median") == {"numpy"}
    with xpapply.options(engine="cupy"):  # which cannot run it
        got = np.apply_along_axis(np.ptp, 1, X)
    np.testing.assert_array_equal(got, np.ptp(X, 1))
    assert engines(patched, "ptp") == {"loop"}


def test_loops_are_shared_by_processes(patched, monkeypatch):
    pytest.importorskip("joblib")
    x = X[:300]

    def slow(v):
        return hash(sum(math.sin(k * v[0]) for k in range(10_000)))

    asked, own = [], processes.called

    def called(*given):
        asked.append(given[1])
        return own(*given)

    monkeypatch.setattr(processes, "called", called)
    with xpapply.options(workers=2):
        found = np.apply_along_axis(slow, 1, x)
        by_process = np.apply_along_axis(lambda v: os.getpid(), 1, X)  # which stays here
    np.testing.assert_array_equal(found, OWN.along(slow, 1, x))
    assert set(by_process) == {os.getpid()}
    assert slow in asked


def test_reasons_are_those_of_the_call(patched):
    made = np.vectorize(by_hash_of_number)
    with xpapply.options(engine="loop"):
        made(X)
    made(X)
    (row,) = patched.report.rows
    assert row.reasons.pop("options(engine='loop')") == 1
    (why,) = row.reasons
    assert why.startswith("the hash of a value")


def test_models_are_left_to_the_original(torch, patched):
    net = torch.nn.Linear(8, 2)
    with pytest.raises(TypeError) as own:
        OWN.along(net, 1, X)
    with pytest.raises(TypeError) as ours:
        np.apply_along_axis(net, 1, X)
    assert str(ours.value) == str(own.value)


def test_methods_are_not_tried_with_batches(patched):
    linear = pytest.importorskip("sklearn.linear_model")
    model = linear.LinearRegression().fit(X, X[:, 0])
    for f in (model.predict, lambda v: model.predict(v)):
        with pytest.raises(ValueError, match="2D array"):
            np.apply_along_axis(f, 1, X)


def test_masked_arrays_are_counted_and_left(patched):
    x = np.ma.masked_greater(X[:50], 0.9)
    np.testing.assert_array_equal(
        np.ma.apply_along_axis(np.ma.median, 1, x),
        originals.masked_apply_along_axis()(np.ma.median, 1, x),
    )
    (row,) = (row for row in patched.report.rows if row.loop == "numpy.ma.apply_along_axis")
    assert (row.name, row.calls, row.slices, row.engines) == ("median", 1, 50, {"loop": 1})


def test_a_wrong_environment_is_told_at_once(monkeypatch):
    code = "import xpapply; xpapply.patch()"
    monkeypatch.setenv("XPAPPLY_THREADS", "two")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "XPAPPLY_THREADS='two'" in ran.stderr


def rarely_writes(v):
    if v[0] > 0.5:
        return v.max()
    v[2] += 7  # twice would be seen
    return v.min()


def test_looking_at_a_function_writes_into_no_slice(always, patched, monkeypatch):
    """A few calls tell how long one takes, of a slice that writes too."""
    monkeypatch.setattr(LIMITS, "patched_sample", 1e9)
    asked = itertools.count()
    spent = property(lambda self: next(asked) >= 3)
    monkeypatch.setattr("xpapply.frontends.python.run.account.Account.is_overdrawn", spent)
    x = np.random.default_rng(0).random((60, 6)) + 1.0
    x[40] = 0.1
    want = x.copy()
    result = originals.apply_along_axis(rarely_writes, -1, want)
    for _ in range(3):
        arr = x.copy()
        np.testing.assert_array_equal(np.apply_along_axis(rarely_writes, -1, arr), result)
        np.testing.assert_array_equal(arr, want)
