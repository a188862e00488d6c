"""What a GPU would run of a typed function, compiled for this processor: no GPU is needed."""

import ctypes
import itertools
import re

import numpy as np

from xpapply.backends.cpu import host
from xpapply.codegen.llvm.typed import device, device_arrays, device_kernel
from xpapply.codegen.llvm.typed.forms import Frame
from xpapply.ir.typed.function import OTHER

_numbers = itertools.count()
_kept = []
MEMORY = 65536


class OnHost:
    """A typed function of slices as threads of a GPU run it.

    Its functions of the C library are this machine's.
    """

    def __init__(self, made):
        self.made, self._found = made, {}
        assert device.why_not(made) is None

    def run(self, arrays, outs):
        """The marks of all slices, along the first axis."""
        f, words = self._compiled(arrays, outs)
        marks = np.zeros(len(arrays[0]), np.int64)
        for k in range(len(marks)):
            differs = ctypes.c_uint8(0)
            places = [x.ctypes.data + k * x.strides[0] for x in (*arrays, *outs)]
            mark = f(ctypes.addressof(differs), *words, *places) & 0xFFFFFFFF
            marks[k] = OTHER if differs.value and k == 0 and not mark else mark
        return marks

    def _compiled(self, arrays, outs):
        own = [np.ascontiguousarray(c) for c in self.made.constants]
        key = tuple((x.shape[1:], x.strides[1:]) for x in (*arrays, *outs))
        if key not in self._found:
            frame = Frame(self.made)
            known = dict.fromkeys(range(frame.count), 0)
            for x, (dims, strides) in zip(
                [*arrays, *outs], [*frame.inputs, *frame.results], strict=True
            ):
                known |= dict(zip(dims, x.shape[1:], strict=True))
                known |= dict(zip(strides, x.strides[1:], strict=True))
            for c, (base, (dims, strides)) in zip(own, frame.constants, strict=True):
                known |= dict(zip(dims, c.shape, strict=True))
                known |= dict(zip(strides, c.strides, strict=True))
                del known[base]
            self._found[key] = self._function(known), own
        f, own = self._found[key]
        return f, [c.ctypes.data for c in own]

    def _function(self, known):
        binding = host.llvm_of_all_machines()
        text = device_kernel.kernel(self.made, known, 0, MEMORY)
        name = f"slice_{next(_numbers)}"
        for f, body in re.findall(r"^define internal [^@]*@([\w.]+)\((.*?)\n}", text, re.M | re.S):
            # a device would not know how much memory its threads need
            assert f"@{f}(" not in body, "it calls itself"
        text = re.sub(r"define ptx_kernel void .*?\n}\n", "", text, flags=re.S)
        text = re.sub(
            r"^@tile.*\n|^target triple.*\n|^declare .*@llvm.nvvm.*\n", "", text, flags=re.M
        )
        text = text.replace("define internal i32 @slice(", f"define i32 @{name}(", 1)
        text = text.replace(") alwaysinline nounwind #0 {", ") nounwind #0 {", 1)
        for external in self.made.externals:
            found = device_arrays.in_c(external) or external
            if found[0] == "libm":
                _of_c(binding, found)
        module = binding.parse_assembly(text)
        module.verify()
        target = binding.Target.from_default_triple().create_target_machine(opt=1)
        module.triple = target.triple
        engine = binding.create_mcjit_compiler(module, target)
        engine.finalize_object()
        _kept.append(engine)
        left = [k for k in range(Frame(self.made).count) if k not in known]
        count = 1 + len(left) + len(self.made.inputs) + len(self.made.results)
        kind = ctypes.CFUNCTYPE(ctypes.c_uint32, *[ctypes.c_int64] * count)
        return kind(engine.get_function_address(name))


_library = ctypes.CDLL(None)


def _of_c(binding, external):
    """Link a function of the C library."""
    name = external[1]
    if external[2] == "float32" and not name.endswith("f"):
        name += "f"
    try:
        f = getattr(_library, name)
    except AttributeError:
        f = getattr(ctypes.CDLL("libm.so.6"), name)
    binding.add_symbol(device.name_of(external), ctypes.cast(f, ctypes.c_void_p).value)
