"""What a call says that has no answer: what was found, and what to do."""

import re
from pathlib import Path

import numpy as np
import pytest

import xpapply
from conftest import library
from xpapply.limits import LIMITS

ARR = np.arange(24.0).reshape(2, 3, 4)
MANY = np.arange(120_000.0).reshape(100, 300, 4)
CALLS = [xpapply.apply_along_axis, xpapply.explain]


# --- arguments ------------------------------------------------------------------------


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("axis", "says"),
    [
        ([0, 1], r"axis=\[0, 1\]: one axis.*a tuple: \(0, 1\)"),
        ("t", "axis='t': one axis, an integer from -3 to 2"),
        (None, r"axis=None: one axis.*f\(arr.ravel\(\)\)"),
        (1.0, "axis=1.0: one axis"),
        (np.array([1]), r"axis=ndarray \(1,\) int64: one axis"),
    ],
)
def test_one_axis(host_place, call, axis, says):
    with pytest.raises(TypeError):
        np.apply_along_axis(np.sum, axis, ARR)
    for arr in (host_place.array(ARR), ARR.tolist(), np.ma.masked_less(ARR, 3)):
        for f in (np.sum, xpapply.MLP([np.ones((2, 4))])):
            with pytest.raises(TypeError, match=says):
                call(f, axis, arr)


def test_one_axis_for_plans():
    plan = xpapply.compile(xpapply.MLP([np.ones((2, 4))]), (4,), "float64")
    with pytest.raises(TypeError, match=r"axis=\(1, 2\): one axis"):
        plan(ARR, (1, 2))


@pytest.mark.parametrize("axis", [np.int64(1), True, np.array(1), -2])
def test_whatever_numpy_takes_for_an_axis(axis):
    want = np.apply_along_axis(np.sum, axis, ARR)
    np.testing.assert_array_equal(xpapply.apply_along_axis(np.sum, axis, ARR), want)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("axis", [3, -4])
def test_an_axis_out_of_range_is_what_it_is_in_numpy(host_place, call, axis):
    with pytest.raises(np.exceptions.AxisError) as numpys:
        np.apply_along_axis(np.sum, axis, ARR)
    with pytest.raises(np.exceptions.AxisError, match=re.escape(str(numpys.value))):
        call(np.sum, axis, host_place.array(ARR))


def net():
    return xpapply.MLP([np.ones((2, 4))])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("make", [lambda: np.sum, lambda: lambda v: v.sum(), net])
@pytest.mark.parametrize("order", ["fra", "arf", "afr", "raf", "rfa"])
def test_the_order_of_arguments(host_place, call, make, order):
    """In this order: f(unction), a(xis), (a)r(ray)."""
    given = {"f": make(), "a": 2, "r": host_place.array(ARR)}
    with pytest.raises(TypeError, match="the order is f, axis, arr"):
        call(*(given[x] for x in order))


@pytest.mark.parametrize("call", [*CALLS, lambda f, axis, arr: xpapply.lift(f, (4,))])
@pytest.mark.parametrize(
    ("f", "says"),
    [
        ("median", r"f is not a function: found 'median'. Pass the function itself: np.median"),
        ("mediane", "f is not a function: found 'mediane'$"),
        (None, "f is not a function: found None"),
        (3.5, "f is not a function: found 3.5. Pass the function itself, not what it returns"),
        (np.float64(3.5), r"found float64 \(\) float64. Pass the function itself"),
        (ARR[0], r"f is not a function: found ndarray \(3, 4\) float64"),
        ([np.sum], "f is not a function: found a list of 1"),
        ({"0.weight": 1}, "f is not a function: found a dict of 1"),
        (object(), "f is not a function: found an object of class object"),
    ],
)
def test_what_is_no_function(call, f, says):
    with pytest.raises(TypeError, match=says):
        call(f, 2, ARR)


def test_a_tensor_is_no_function(torch):
    with pytest.raises(TypeError, match=r"f is not a function: found Tensor \(4,\)"):
        xpapply.apply_along_axis(torch.ones(4), 2, ARR)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("arr", "found"),
    [
        ({"a": 1}, "a dict of 1"),
        ({1, 2}, "a set of 2"),
        (3.0, "3.0"),
        ("abc", "'abc'; open the file: np.load(path, mmap_mode='r'), or zarr, h5py"),
        (None, "None"),
        ((x for x in (1, 2)), "an object of class generator"),
    ],
)
def test_what_is_no_array(call, arr, found):
    with pytest.raises(np.exceptions.AxisError) as numpys:
        np.apply_along_axis(np.sum, 0, arr)
    for f in (np.sum, net()):
        with pytest.raises(np.exceptions.AxisError) as caught:
            call(f, 0, arr)
        assert str(caught.value) == str(numpys.value)
        assert notes(caught.value) == [f"arr is neither an array nor a list: found {found}"]


@pytest.mark.parametrize("call", CALLS)
def test_missing_arguments(call):
    for args, kwargs, missing in (
        ((), {}, "f, axis, arr"),
        ((np.sum,), {}, "axis, arr"),
        ((np.sum, 0), {}, "arr"),
        ((np.sum,), {"arr": ARR}, "axis"),
        ((), {"arr": ARR, "axis": 0}, "f"),
        ((), {"func1d": net(), "axis": 0}, "arr"),
    ):
        with pytest.raises(TypeError, match=f"f, axis, arr; missing: {missing}$"):
            call(*args, **kwargs)


def test_other_names_than_the_arguments_have():
    for f in (np.sum, lambda v: v.sum()):
        with pytest.raises(TypeError, match=r"missing: axis; found others: ax$"):
            xpapply.apply_along_axis(f, ax=0, arr=ARR)


@pytest.mark.parametrize("call", [xpapply.lift, xpapply.compile])
def test_slices_of_no_shape_or_dtype(call):
    with pytest.raises(TypeError, match=r"slice_shape=8: give a tuple, as in \(8,\)"):
        call(net(), 8)
    with pytest.raises(TypeError, match=r"dtype='f32': data type 'f32' not understood\. Give"):
        call(net(), (4,), "f32")


@pytest.mark.parametrize("path", ["net.pt", Path("models") / "net.onnx"])
def test_a_file_is_loaded_first(path):
    with pytest.raises(TypeError, match=r"loaded first: xpapply.load_model\('.*net\.(pt|onnx)'\)"):
        xpapply.apply_along_axis(path, 0, ARR)


def test_which_layer_does_not_fit(torch):
    nn = torch.nn
    x = np.zeros((20, 8), "f4")
    for layers, axis, why in (
        ((nn.Linear(8, 16), nn.ReLU(), nn.Linear(12, 2)), 1, "has 16 .*What comes before it gives"),
        ((nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)), 0, "has 20 .*Is `axis` the feature axis"),
    ):
        with pytest.raises(xpapply.InputError, match=rf"layer '.', Linear\(.*\), takes .*{why}"):
            xpapply.apply_along_axis(nn.Sequential(*layers).eval(), axis, x)


def test_what_eval_does_not_help(torch):
    nn, x = torch.nn, np.zeros((20, 8), "f4")

    class Own(nn.Module):
        def forward(self, v):
            return nn.functional.dropout(v, 0.5)

    with pytest.raises(xpapply.InputError, match=r"pass it training=self\.training"):
        xpapply.apply_along_axis(Own().eval(), 1, x)
    norm = nn.Sequential(nn.Unflatten(-1, (1, 8)), nn.BatchNorm1d(1, track_running_stats=False))
    with pytest.raises(xpapply.InputError, match=r"no running statistics.*_running_stats=True"):
        xpapply.apply_along_axis(norm.eval(), 1, x)


# --- names as in NumPy and CuPy -------------------------------------------------------


@pytest.mark.parametrize("name", ["func1d", "f"])
def test_f_by_name(host_place, name):
    arr = host_place.array(ARR)
    for f in (lambda v: v * 2, net()):
        want = host_place.numpy(xpapply.apply_along_axis(f, 2, arr))
        got = xpapply.apply_along_axis(**{name: f}, axis=2, arr=arr)
        np.testing.assert_array_equal(host_place.numpy(got), want)
        plan = xpapply.explain(**{name: f}, axis=2, arr=arr)
        assert plan.engine == xpapply.explain(f, 2, arr).engine


def test_names_that_belong_to_f():
    def g(v, k, f=0, **others):
        return v.sum() * k + f + others.get("engine", 0)

    for arr in (ARR, MANY):
        for args, kwargs in (
            ((g, 0, arr, 2), {"f": 3, "engine": 1}),
            ((), {"func1d": g, "axis": 0, "arr": arr, "k": 2, "f": 3}),
            ((g,), {"axis": 0, "arr": arr, "k": 2, "f": 3}),
        ):
            want = np.apply_along_axis(*args, **kwargs)
            np.testing.assert_allclose(xpapply.apply_along_axis(*args, **kwargs), want)


@pytest.mark.parametrize("call", CALLS)
def test_two_functions(call):
    def takes_all(v, **kwargs):
        return v.sum()

    with pytest.raises(TypeError, match="f is given twice: by position and as func1d="):
        call(takes_all, 0, ARR, func1d=np.sum)
    with pytest.raises(TypeError):
        np.apply_along_axis(takes_all, 0, ARR, func1d=np.sum)
    with pytest.raises(TypeError, match="'axis'"):
        call(takes_all, 0, ARR, axis=0)


# --- what f raises --------------------------------------------------------------------


def notes(error):
    return getattr(error, "__notes__", [])


def picky(v):
    """Raises for one slice."""
    if v[0] == 8.0:
        raise KeyError("mine")
    return v[0] * 2


class Mine(Exception):
    pass


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_slice_that_raises(host_place, axis):
    """The same exception, once a note: on few slices, on many, on every library."""
    for sizes in (ARR, MANY):
        moved = np.moveaxis(sizes, 2, axis)
        raised = Mine("mine")

        def f(v, raised=raised):
            if float(v[0]) == 8.0:
                raise raised
            return v[0] * 2

        at = [0, 2]
        at.insert(axis, ":")
        with pytest.raises(Mine, match="mine") as caught:
            xpapply.apply_along_axis(f, axis, host_place.array(moved))
        assert caught.value is raised
        assert raised.args == ("mine",)
        assert notes(raised) == [f"raised at the slice arr[{', '.join(map(str, at))}]"]
        if host_place.name != "numpy":
            break  # thousands of slices in a Python loop


def test_one_slice():
    with pytest.raises(KeyError) as caught:
        xpapply.apply_along_axis(picky, 0, np.array([8.0, 1.0]))
    assert notes(caught.value) == ["raised at the slice arr[:]"]


def test_the_slice_that_raises_among_those_that_run_at_once():
    """A function that is traced, runs once well, and then meets the slice."""
    good = MANY + 9
    assert xpapply.explain(picky, 2, good).vectorized
    xpapply.apply_along_axis(picky, 2, good)
    for f in (picky, lambda v: int(v[0]) and 1 // int(v[0] - 8)):
        bad = good.copy()
        bad[40, 7] = 8.0
        with pytest.raises((KeyError, ZeroDivisionError)) as caught:
            xpapply.apply_along_axis(f, 2, bad)
        assert notes(caught.value) == ["raised at the slice arr[40, 7, :]"]


def test_a_slice_that_f_alone_runs():
    """Slices that go through `f` alone, behind a decision, say where they are as well."""

    def f(v):
        if v[0] < 0:
            raise Mine(v[1])
        return v.sum()

    arr = MANY.copy()
    xpapply.apply_along_axis(f, 2, arr)
    arr[3, 4, 0] = -1
    for _ in range(2):
        with pytest.raises(Mine) as caught:
            xpapply.apply_along_axis(f, 2, arr)
        assert notes(caught.value) == ["raised at the slice arr[3, 4, :]"]


def test_calls_within_calls_each_say_where():
    def inner(v):
        raise Mine

    def outer(v):
        return xpapply.apply_along_axis(inner, 0, v)

    with pytest.raises(Mine) as caught:
        xpapply.apply_along_axis(outer, 2, ARR)
    assert notes(caught.value) == [
        "raised at the slice arr[:]",
        "raised at the slice arr[0, 0, :]",
    ]


def test_what_is_no_slices_fault_has_no_note():
    class Unwilling(np.ndarray):
        def __array_wrap__(self, *args, **kwargs):
            raise Mine

    with pytest.raises(Mine) as caught:
        xpapply.apply_along_axis(lambda v: float(v[0]), 0, np.ones((2, 3)).view(Unwilling))
    assert not notes(caught.value)
    with pytest.raises(ValueError, match="iteration") as error:
        xpapply.apply_along_axis(picky, -1, np.ones((0, 3)))
    assert not notes(error.value)


def test_ragged_results(host_place):
    def ragged(v):
        return v[: 1 + int(v[0]) // 8]

    said = "f returned shape (2,), and (1,) for the first slice: it must be one shape"
    for arr in (ARR, MANY) if host_place.name == "numpy" else (ARR,):
        with xpapply.options(fallback="silent"), pytest.raises(ValueError, match="shape") as ours:
            xpapply.apply_along_axis(ragged, 2, host_place.array(arr))
        with pytest.raises(ValueError, match="shape") as numpys:
            np.apply_along_axis(ragged, 2, arr)
        assert str(ours.value) == str(numpys.value)
        assert notes(ours.value) == [said, "raised at the slice arr[0, 2, :]"]


@pytest.mark.parametrize("paths", [2, 512])
def test_ragged_results_among_slices_that_are_left_to_f(plan_always, paths):
    def ragged(v):
        return v[: 2 + int(v[0] == 77_332) + 0 * int(v[1])]

    said = "f returned shape (3,), and (2,) for the first slice: it must be one shape"
    with LIMITS.set(paths=paths), pytest.raises(ValueError, match="shape") as ours:
        xpapply.apply_along_axis(ragged, 2, MANY)
    assert notes(ours.value) == [said, "raised at the slice arr[64, 133, :]"]


def test_nested_lists_that_are_no_array():
    def ragged(v):
        return [[1.0], [1.0, 2.0]] if v[0] == 8 else [[1.0], [2.0]]

    with pytest.raises(ValueError, match="inhomogeneous") as caught:
        xpapply.apply_along_axis(ragged, 2, ARR)
    assert notes(caught.value) == ["raised at the slice arr[0, 2, :]"]


def test_an_assignment_inside_f_is_no_ragged_result():
    def f(v):
        out = np.zeros(2)
        out[:] = v[: 3 if v[0] == 8 else 2]
        return out

    for arr in (ARR, MANY):
        with pytest.raises(ValueError, match="broadcast") as caught:
            xpapply.apply_along_axis(f, 2, arr)
        assert notes(caught.value) == ["raised at the slice arr[0, 2, :]"]


@pytest.mark.gpu
def test_notes_of_the_loop_of_cupy(cupy):
    arr = cupy.asarray(ARR)
    with xpapply.options(engine="loop"):
        with pytest.raises(KeyError) as raised:
            xpapply.apply_along_axis(picky, 2, arr)
        with pytest.raises(ValueError, match="shape") as ragged:
            xpapply.apply_along_axis(lambda v: v[: 1 + int(v[0]) // 8], 2, arr)
    assert notes(raised.value) == ["raised at the slice arr[0, 2, :]"]
    said = "f returned shape (2,), and (1,) for the first slice: it must be one shape"
    assert notes(ragged.value) == [said, "raised at the slice arr[0, 2, :]"]


# --- engines --------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["cuda", "gpu", "Numpy", "abacus"])
def test_engines_that_do_not_exist(host_place, engine):
    calls = [
        lambda: xpapply.apply_along_axis(np.sum, 2, host_place.array(ARR)),
        lambda: xpapply.apply_along_axis(net(), 2, host_place.array(ARR)),
        lambda: xpapply.explain(lambda v: v[0], 2, host_place.array(ARR)),
        lambda: xpapply.special.norm(host_place.array(ARR), axis=2),
    ]
    for call in calls:
        with (
            xpapply.options(engine=engine),
            pytest.raises(
                xpapply.UnsupportedError,
                match=f"no engine '{engine}': there are loop, array_api, cpu, cupy, dask, numpy",
            ),
        ):
            call()


def test_every_own_way_is_an_engine():
    from xpapply import frontends
    from xpapply.backends import choice

    library("sklearn")
    from sklearn.linear_model import Ridge

    functions = net(), library("torch").nn.ReLU(), Ridge().predict
    found = (frontends.find(f).ways for f in functions)
    names = {name for ways in found for name in ways}
    of_backends = {"cupy-elementwise", "cupy-reduction"}
    assert names | of_backends == set(choice.WAYS) <= set(choice.names())


# --- what users write by mistake ------------------------------------------------------------------


@pytest.mark.parametrize("f", [lambda v: v.mean(), np.mean])
def test_an_option_among_the_arguments_of_f(f):
    with pytest.raises(TypeError) as caught:
        xpapply.apply_along_axis(f, -1, MANY, threads=2)
    assert "with xpapply.options(threads=...):" in notes(caught.value)[-1]
    with pytest.raises(TypeError) as caught:
        xpapply.apply_along_axis(f, -1, MANY, thread=2)
    assert "options" not in str(notes(caught.value))


def test_a_slice_of_another_dtype_than_the_weights():
    torch = library("torch")
    linear = torch.nn.Linear(4, 2).eval()
    with torch.no_grad(), pytest.raises(RuntimeError) as caught:
        xpapply.apply_along_axis(lambda v: linear(torch.from_numpy(v)).numpy(), -1, ARR)
    assert (
        "of torch.float64, while its weights are torch.float32: write torch.from_numpy(v).to("
        in (notes(caught.value)[-1])
    )
    with (
        torch.no_grad(),
        pytest.raises(RuntimeError) as caught,
    ):  # it does not fit for another reason
        xpapply.apply_along_axis(lambda v: linear(torch.from_numpy(v[1:]).float()).numpy(), -1, ARR)
    assert "weights" not in str(notes(caught.value))


def test_a_path_is_not_an_array():
    with pytest.raises(TypeError, match="out must be an array: found str"):
        xpapply.apply_along_axis(lambda v: v.mean(), -1, MANY, out="maps.npy")


def test_a_layer_in_training_mode_within_f():
    torch = library("torch")
    training = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout(0.5))

    def f(v):
        with torch.no_grad():
            return training(torch.from_numpy(v).float()).numpy()

    (why,) = xpapply.explain(f, -1, MANY).reasons
    assert re.fullmatch(
        r"training: layer '1', Dropout\(.*\), is in training mode \(.*\); write net.eval\(\) .*",
        why,
    )


@pytest.mark.parametrize(
    ("f", "arr", "says"),
    [
        (lambda v: None, MANY, r"\(is a return missing\?\)$"),
        (lambda v: {"a": v.mean()}, MANY, "use vectorize.*gives a dict of arrays$"),
        (
            lambda v: v[0],
            MANY.astype(str),
            r"dtype <U32; pass numbers, such as arr.astype\(float\)$",
        ),
    ],
)
def test_the_way_out_of_the_loop(f, arr, says):
    assert re.search(says, xpapply.explain(f, -1, arr).reasons[0])


def test_an_engine_of_another_library():
    says = r"the array is NumPy's; pass cupy.asarray"
    with xpapply.options(engine="cupy"), pytest.raises(xpapply.UnsupportedError, match=says):
        xpapply.apply_along_axis(lambda v: np.median(v), -1, MANY)
