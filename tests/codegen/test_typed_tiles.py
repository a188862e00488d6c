"""What goes through memory that a block of threads shares, in kernels of typed functions."""

import math

import numpy as np
import pytest
import standin_cupy
from on_standin import made as typed

from xpapply.backends.cpu import for_gpus, host
from xpapply.codegen.llvm.typed import device, device_kernel
from xpapply.codegen.llvm.typed.forms import Frame
from xpapply.ir.typed import Array, TypedFunction

pytestmark = pytest.mark.skipif(host.why_not() is not None, reason=str(host.why_not()))


def function(results):
    return TypedFunction("f", (Array("float64", 1),), list(results))


def known(made, shapes, strides=None):
    """Lengths and strides of inputs and results, in C order unless they are given."""
    frame = Frame(made)
    found = {}
    places = [*frame.inputs, *frame.results]
    kinds = [*made.inputs, *made.results]
    for k, ((dims, steps), shape) in enumerate(zip(places, shapes, strict=True)):
        own = np.empty(shape, kinds[k].dtype).strides
        found |= dict(zip(dims, shape, strict=True))
        found |= dict(zip(steps, own if strides is None else strides[k], strict=True))
    return frame, found


def test_results_of_several_numbers_are_shared():
    made = function([Array("float64", 1), Array("float64", 0), Array("int32", 2)])
    frame, numbers = known(made, [(12,), (12,), (), (3, 4)])
    found = device_kernel.tiles(made, numbers, frame)
    assert found == {"out0": device_kernel.Tile(12, 13, 8), "out2": device_kernel.Tile(12, 13, 4)}
    assert device_kernel.tiles(made, numbers, frame, [0])["in0"] == device_kernel.Tile(12, 13, 8)


def test_what_is_too_long_or_not_packed_is_not():
    made = function([Array("float64", 1)])
    frame, numbers = known(made, [(12,), (50,)])
    assert device_kernel.tiles(made, numbers, frame) == {}
    frame, numbers = known(made, [(12,), (12,)], [(8,), (16,)])
    assert device_kernel.tiles(made, numbers, frame) == {}


def test_no_more_than_there_is():
    made = function([Array("float64", 1)] * 4)
    frame, numbers = known(made, [(12,)] * 5)
    found = device_kernel.tiles(made, numbers, frame)
    used = sum(device_kernel.THREADS * t.apart * t.size for t in found.values())
    assert 2 <= len(found) < 4
    assert used <= 48 * 1024


def test_a_kernel_of_tiles_compiles():
    """A function that copies its slice: what it reads and writes is shared."""
    with standin_cupy.installed():

        def doubled(v):
            out = np.zeros_like(v)
            for i in range(len(v)):
                out[i] = v[i] + v[i]
            return out

        made = typed(doubled, "float64", [np.zeros(5)])
    frame, numbers = known(made, [(5,), (5,)])
    numbers = dict.fromkeys(range(frame.count), 0) | numbers
    text = device_kernel.kernel(made, numbers, 1, 512, [0])
    assert text.count("addrspace(3) global") == 2
    code = for_gpus.ptx(text, 80).decode()
    assert code.count("bar.sync") == 2
    assert "st.shared" in code


@pytest.mark.parametrize(("length", "at_once"), [(5, 5), (16, 16), (17, 0)])
def test_numbers_of_short_slices_are_copied_at_once(length, at_once):
    """Those of a whole block; the others one after the other."""
    made = function([Array("float64", 0)])
    made.blocks[:] = []
    tile = device_kernel.Tile(length, length + 1 - length % 2, 8)
    text = "\n".join(device_kernel._copied("in0", tile, "entry", inwards=True))
    assert text.count("ld.global.nc.L1::no_allocate.b64") == at_once + 1
    assert text.count("br i1 %few") == bool(at_once)


def test_which_slices_are_read_as_a_whole():
    """A function that names the places of few elements reads these alone."""

    def some(v):
        x = v[0] * 1
        for _ in range(9):
            x = x + v[1] * v[0]
        return x

    def walked(v):
        s = 0.0
        for k in range(len(v)):
            s = s + v[k]
        return s

    def whole(v):
        return v.sum()

    with standin_cupy.installed():
        found = [
            device.elements_read(typed(f, "float64", [np.zeros(())])) for f in (some, walked, whole)
        ]
    assert found == [2, math.inf, math.inf]


def test_nothing_of_short_arrays_is_in_a_threads_memory():
    """What stands at places that are known only then stays in registers."""
    with standin_cupy.installed() as cupy:
        levels = cupy.asarray([2.0, 5.0])
        functions = {
            "mask": (lambda v: v[v > 0].mean(), np.zeros(())),
            "outliers": (lambda v: v[cupy.abs(v - v.mean()) < v.std()].sum(), np.zeros(())),
            "places": (
                lambda v: cupy.searchsorted(cupy.cumsum(cupy.abs(v)), levels),
                np.zeros(2, int),
            ),
            "bins": (
                lambda v: cupy.histogram(v, 4, (-3.0, 3.0))[0],
                np.zeros(4, int),
            ),
            "spectrum": (lambda v: cupy.abs(cupy.fft.rfft(v)) ** 2, np.zeros(7)),
        }
        for name, (f, result) in functions.items():
            made = typed(f, "float64", [result])
            made.constants[:] = [c._array for c in made.constants]
            frame, numbers = known(made, [(12,), result.shape])
            numbers = dict.fromkeys(range(frame.count), 0) | numbers
            for base, (dims, steps) in frame.constants:
                numbers |= dict.fromkeys(dims, 2) | dict.fromkeys(steps, 8)
                del numbers[base]
            text = device_kernel.kernel(made, numbers, 1, 4096, [0])
            code = for_gpus.ptx(text, 90).decode()
            assert ".local" not in code, name
            marks = "typed_param_2]" in code
            assert marks is (name in ("bins", "spectrum")), name


@pytest.mark.parametrize(("length", "in_registers"), [(12, True), (100, False)])
def test_parts_of_long_slices_go_the_shorter_way(length, in_registers):
    """A place that is looked for among 32 costs less than memory where loops are written out."""

    def windows(v):
        found = 0.0
        for k in range(len(v) - 5):
            w = v[k : k + 5]
            found = found + w[w > 0].sum()
        return found

    with standin_cupy.installed():
        made = typed(windows, "float64", [np.zeros(())])
    frame, numbers = known(made, [(length,), ()])
    numbers = dict.fromkeys(range(frame.count), 0) | numbers
    code = for_gpus.ptx(device_kernel.kernel(made, numbers, 1, 512, [0]), 90).decode()
    assert (".local" not in code) is in_registers
    assert len(code.splitlines()) < 800
