"""Slices with gaps, of which a thread of a GPU copies all numbers before it decides anything."""

import numpy as np
import pytest
import standin_cupy
from loop_functions import peaks_apart
from on_standin import made

from xpapply.backends.cpu import for_gpus, host
from xpapply.codegen.llvm import typed as text_of
from xpapply.codegen.llvm.typed import device_kernel

pytestmark = pytest.mark.skipif(host.why_not() is not None, reason=str(host.why_not()))


def ptx(f, length, gathered, stride=8000):
    with standin_cupy.installed():
        found = made(f, "float64", [np.asarray(1)])
    frame = text_of.fields(found)
    known = dict.fromkeys(range(frame.count), 0)
    ((dims, strides),) = frame.inputs
    known |= dict.fromkeys(dims, length) | dict.fromkeys(strides, stride)
    text = device_kernel.kernel(found, known, 1, 0, (), gathered)
    return for_gpus.ptx(text, for_gpus.architecture(90)).decode()


def test_all_is_read_before_anything_is_decided():
    lines = ptx(peaks_apart, 12, [0]).splitlines()
    reads = [k for k, x in enumerate(lines) if "ld.global" in x]
    compared = next(k for k, x in enumerate(lines) if "setp.gt.f64" in x or "setp.lt.f64" in x)
    assert len(reads) == 12
    assert max(reads) < compared
    assert len([x for x in ptx(peaks_apart, 12, []).splitlines() if "ld.global" in x]) < 12


@pytest.mark.parametrize(
    ("count", "stride", "size", "is_so"),
    [(12, 800, 8, True), (12, 8, 8, False), (12, -16, 8, False), (12, -8, 8, False),
     (1, 800, 8, False), (17, 800, 8, False), (16, 16, 8, True), (12, 4, 2, True)],
)  # fmt: skip
def test_what_is_gathered(count, stride, size, is_so):
    assert device_kernel.gathers(count, stride, size) is is_so


def test_no_part_of_it_looks_packed():
    """What is summed by CUB in CuPy lies side by side: a copy must not look so."""

    def summed(v):
        return v.sum() + v[::2].sum()

    text = ptx(summed, 12, [0])
    plain = ptx(summed, 12, [])
    adds = [[x.split("%")[0] for x in t.splitlines() if "add.rn.f64" in x] for t in (text, plain)]
    assert adds[0] == adds[1]
