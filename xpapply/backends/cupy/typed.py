"""Typed functions on CuPy's arrays: one launch, one thread for each slice."""

from __future__ import annotations

import ctypes
import math
import re
import threading
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import cupy
import numpy as np
from cupy_backends.cuda.api import driver

from ...arrays.layout import merged
from ...codegen.llvm.typed import device_kernel as text_of
from ...codegen.llvm.typed import fields
from ...codegen.llvm.typed.device import NAME, elements_read, name_of
from ...codegen.llvm.typed.device_arrays import in_c
from ...errors import UnsupportedError
from ...functions.cache import BoundedDict, remembered
from ...ir.typed import TypedFunction
from ...ir.typed.function import ARRAYS, LISTS
from ...limits import LIMITS
from . import compiler

_OLDEST = 14
"""The oldest CuPy with the type rules of NumPy 2."""
_MEMORY = 512, 4096, 16384, 32768
"""Bytes of a thread for arrays that a function makes, and more if they are too few: a device keeps
them for as many threads as it can run."""

_ODD = "its elements lie at odd places"
_CHANGED = "the function or an option has changed"
_KEPT = 1 << 20
"""Bytes of marks that a thread keeps, as each of its calls waits for them."""

Compile = Callable[[str, int], bytes]
"""A text in LLVM IR for an architecture, as PTX."""


def why_not(made: TypedFunction, number: int) -> str | None:
    """Why a typed function does not run on a device; None: it does."""
    if cupy.cuda.runtime.is_hip:
        return "functions are compiled for NVIDIA's GPUs, not yet for AMD's"
    if int(cupy.__version__.partition(".")[0]) < _OLDEST:
        return f"CuPy {cupy.__version__} has other types of results than CuPy {_OLDEST}"
    if others := _others(made):
        try:
            compiler.relocatable(others, number)
        except (AttributeError, RuntimeError, UnsupportedError) as error:
            return f"CuPy's own functions are not compiled for it: {error}"
    return None


def _others(made: TypedFunction) -> str:
    """CUDA text of functions of CuPy and the C library that a typed function calls."""
    found = [
        of_ufunc(*x[1:]) if x[0] == "cupy" else _of_c(*(in_c(x) or x)[1:])
        for x in made.externals
        if x[0] != "ufunc" or in_c(x)
    ]
    return "".join(dict.fromkeys(found))


class Compiled:
    """A typed function, to be run on all slices of arrays.

    Parameters
    ----------
    made : TypedFunction
        The function.
    compile : callable
        What makes PTX of LLVM IR.
    architecture : callable
        The architecture to compile for, of a device's capability.
    why_not : str
        Why it does not run on a device, which is to be asked before; "": it does.
    """

    width, waits, has_compiled = 1, False, False

    def __init__(
        self,
        made: TypedFunction,
        compile: Compile,
        architecture: Callable[[int], int | None],
        why_not: str = "",
    ) -> None:
        self.why_not = why_not
        self.made, self._compile, self._architecture = made, compile, architecture
        self._frame = fields(made)
        self._copies: dict[int, list[tuple[bytes, Any]]] = {}
        self._layouts, self._codes = BoundedDict(), BoundedDict()
        self._memory, self._marks = 0, False
        self._read = elements_read(made)
        self._wants = [k + 1 for k, m in enumerate(made.marks) if m.why in (ARRAYS, LISTS)]
        if self._wants:
            # each further size is compiled anew, which takes seconds for a long function
            self._memory = _MEMORY[0 if made.size < LIMITS.device_long else 2]

    @property
    def seconds(self) -> float:
        """Estimated seconds of compiling; 0: compiled."""
        if self._layouts:
            return 0.0
        return LIMITS.typed_compiling + LIMITS.typed_per_instruction * self.made.size

    def run(
        self,
        arrays: Sequence[Any],
        outs: Sequence[Any],
        batch: int,
        seconds: float = math.inf,
        originals: Sequence[Any] = (),
        short: bool = True,
    ) -> np.ndarray | None:
        """Run on all slices: the marks, ``(*batch shape)``, 0 where a result was written.

        None: no slice is marked, however `short`. `arrays`, `outs`, `batch`: as of the CPU's.
        """
        device = arrays[0].device
        if device.id != cupy.cuda.runtime.getDevice():
            with device:
                return self.run(arrays, outs, batch, seconds, originals)
        own = self._constants(device.id)
        everything = [*own, *arrays, *outs]
        key = (batch, device.id, *[(x.shape, x.strides) for x in everything])
        found = self._layouts.get(key)
        self.has_compiled = found is None
        if found is None:
            if any(s % x.itemsize for x in everything for s in x.strides):
                raise UnsupportedError(_ODD)
            if any(x.device != device for x in everything):
                raise UnsupportedError("it reads an array of another device")
            found = self._layouts[key] = self._prepared(arrays, outs, batch, device)
        marks = self.launched(found, arrays, outs)
        if marks is None:
            return None
        larger = [m for m in _MEMORY if m > self._memory]
        if larger and self._wants and np.isin(marks, self._wants).any():
            self._memory = larger[0]
            self._layouts.clear()
            return self.run(arrays, outs, batch, seconds, originals)
        return marks.reshape(outs[0].shape[:batch])

    def kept(self, arrays: Sequence[Any], outs: Sequence[Any], batch: int) -> Any:
        """The argument of `launched`, for arrays of a layout that has run."""
        number = arrays[0].device.id
        everything = [*self._constants(number), *arrays, *outs]
        key = (batch, number, *[(x.shape, x.strides) for x in everything])
        return self._layouts.get(key)

    def launched(
        self,
        kept: _Kept,
        arrays: Sequence[Any],
        outs: Sequence[Any],
        holds: Callable[[], bool] | None = None,
    ) -> np.ndarray | None:
        """Run a kernel on the current device: the marks; None: no slice is marked.

        Where marks stand is not cleared before: if there are some, against expectation, the kernel
        runs once more. `holds`: whether it is to run, which is asked while it does if there is a
        wait anyway: `UnsupportedError` is raised if not.
        """
        given, count = kept.given[:], kept.count
        everything = (*self._constants(kept.number), *arrays, *outs)
        for (place, size), x in zip(kept.places, everything, strict=True):
            given[place] = at = x.data.ptr
            if at % size:  # of which no strides tell
                raise UnsupportedError(_ODD)
        if not kept.may_mark:
            if holds is not None and not holds():
                raise UnsupportedError(_CHANGED)
            _launch(kept, given)
            return None
        # taken away, as what asks whether all holds may run a user's code
        mine = vars(_OWN).pop("flag", None) or _Flag()
        memory, expects = mine.marks(2 * count, kept.number), self._marks
        given[1], given[2] = memory.ptr, mine.address
        while True:
            stream = cupy.cuda.get_current_stream()
            if expects:
                memory.memset_async(0, 2 * count)
            mine.is_set.value = 0
            _launch(kept, given)
            try:
                goes_on = holds is None or holds()
            finally:
                stream.synchronize()
            holds, is_set = None, mine.is_set.value
            if not (is_set and goes_on):
                _OWN.flag = mine
                if not goes_on:
                    raise UnsupportedError(_CHANGED)
                self._marks = False
                return None
            if expects:
                found = np.empty(count, np.uint16)
                memory.copy_to_host_async(found.ctypes.data, found.nbytes, stream)
                stream.synchronize()
                _OWN.flag = mine
                return found
            self._marks = expects = True

    def _constants(self, number: int) -> Sequence[Any]:
        """The arrays that the function reads; of NumPy's what is on a device, which is current."""
        constants: Sequence[Any] = self.made.constants
        if not self.made.fetches:
            return constants
        found = self._copies.setdefault(number, [(b"", None)] * len(constants))
        for k, x in enumerate(constants):
            now = x.tobytes()
            if found[k][1] is None or found[k][0] != now:
                cupy.cuda.Device().synchronize()  # kernels of any stream may read the old one
                found[k] = now, cupy.asarray(np.ascontiguousarray(x))
                cupy.cuda.get_current_stream().synchronize()
        return [x for _, x in found]

    def _prepared(self, arrays: Sequence[Any], outs: Sequence[Any], batch: int, device: Any) -> Any:
        """The kernel for arrays that lie like these, and all that its calls have alike."""
        everything = [*arrays, *outs]
        shape = outs[0].shape[:batch]
        strides = [x.strides[:batch] for x in everything]
        axes = merged(shape, list(zip(*strides, strict=True)), range(batch)) if batch else []
        sizes = [d.size for d in axes] or [1]
        # one slice alone has the kernel of many, which lie one after the other
        steps = [[d.steps[k] for d in axes] or [_bytes(x, batch)] for k, x in enumerate(everything)]
        values = self._values(arrays, outs, batch)
        packed = [
            k
            for k, (x, s) in enumerate(zip(arrays, steps, strict=False))
            if x.ndim > batch and len(sizes) == 1 and s[0] == _bytes(x, batch)
        ]
        architecture = self._architecture(int(device.compute_capability))
        if architecture is None:
            raise UnsupportedError("this GPU is older than those that functions are compiled for")
        read = [k for k, x in enumerate(arrays) if 2 * self._read >= math.prod(x.shape[batch:])]
        near = [k for k in packed if k in read]
        far = [k for k in read if k not in packed and self._gathers(arrays[k], batch)]
        code = self._code(values, len(sizes), tuple(near), tuple(far), architecture)
        # LLVM leaves out what it knows never to happen
        may_mark = f"[{NAME}_param_2]".encode() in code
        constants = len(self.made.constants)
        given = [math.prod(shape), 0, 0, *[0] * constants, *sizes[1:]]
        places = [*range(3, 3 + constants)]
        for own in steps:
            places.append(len(given))
            given += [0, *own]
        return _Kept(
            _loaded(code, _others(self.made), device.id),
            may_mark,
            array("q", given),
            [
                (k, x.itemsize)
                for k, x in zip(places, (*self.made.constants, *everything), strict=True)
            ],
            device.id,
        )

    def _code(self, values: dict[int, int], axes: int, *more: Any) -> bytes:
        """The kernel as PTX. That of the first slice is that of all.

        More memory is asked for at once if its arrays may need it, and become registers all the
        same: else all is compiled once more when a slice has told.
        """
        *which, architecture = more

        def made(memory: int) -> bytes:
            text = text_of.kernel(self.made, values, axes, memory, *which)
            return self._compile(text, architecture)

        key = (*values.items(), axes, *more)
        found = self._codes.get((self._memory, key))
        if found is None and self._memory == _MEMORY[0]:
            if text_of.asked(self.made, values) > self._memory:
                found = made(_MEMORY[1])
                kept = [int(n) for n in re.findall(rb"__local_depot\d+\[(\d+)\]", found)]
                if sum(kept) < _MEMORY[1]:
                    self._memory = _MEMORY[1]
                else:
                    found = None
        if found is None:
            found = self._codes.get((self._memory, key)) or made(self._memory)
        self._codes[self._memory, key] = found
        return found

    def _gathers(self, x: Any, batch: int) -> bool:
        """Whether a thread copies a slice of an array before it reads it."""
        if x.ndim != batch + 1 or self.made.writes:
            return False
        return text_of.gathers(x.shape[-1], x.strides[-1], x.itemsize)

    def _values(self, arrays: Sequence[Any], outs: Sequence[Any], batch: int) -> dict[int, int]:
        """The numbers of the frame, which do not change between such calls."""
        found = dict.fromkeys(range(self._frame.count), 0)
        places = [*self._frame.inputs, *self._frame.results]
        for x, (dims, strides) in zip([*arrays, *outs], places, strict=True):
            found |= dict(zip(dims, x.shape[batch:], strict=True))
            found |= dict(zip(strides, x.strides[batch:], strict=True))
        own = self._constants(arrays[0].device.id)
        constants = zip(own, self._frame.constants, strict=True)
        for x, (base, (dims, strides)) in constants:
            found |= dict(zip(dims, x.shape, strict=True))
            found |= dict(zip(strides, x.strides, strict=True))
            del found[base]  # which each call gives
        return found


class _Kept:
    """A kernel for arrays that lie as some did, and what its calls have alike.

    Parameters
    ----------
    function
        The kernel.
    may_mark : bool
        Whether it may mark slices.
    given : array
        Its arguments, each of 64 bits; addresses are put in at each call.
    places : list of tuple of int
        Where the addresses of arrays stand, and what divides each.
    number : int
        Of the device.
    """

    __slots__ = ("_bytes", "blocks", "code", "count", "extra", "function", "given", "may_mark",
                 "number", "places")  # fmt: skip

    def __init__(
        self,
        function: Any,
        may_mark: bool,
        given: array[int],
        places: list[tuple[int, int]],
        number: int,
    ) -> None:
        self.function, self.may_mark, self.given = function, may_mark, given
        self.places, self.number = places, number
        self.count, self.code = given[0], function.ptr
        self.blocks = -(-self.count // text_of.THREADS)
        self._bytes = array("q", (8 * len(given),))
        self.extra = array("q", (1, 0, 2, self._bytes.buffer_info()[0], 0))


def _launch(kept: _Kept, given: array[int]) -> None:
    """Run a kernel on the current stream.

    What CuPy takes 10 us for: it looks at the class of each argument.
    """
    if not kept.blocks:
        return
    extra = kept.extra[:]  # audit hooks are told of each array that is made of something else
    extra[1] = given.buffer_info()[0]
    stream = cupy.cuda.get_current_stream().ptr
    how = (kept.blocks, 1, 1, text_of.THREADS, 1, 1, 0, stream, 0, extra.buffer_info()[0])
    try:
        driver.launchKernel(kept.code, *how)
    except driver.CUDADriverError:  # in a new thread, which has used no device yet
        cupy.cuda.runtime.free(0)
        driver.launchKernel(kept.code, *how)


def _bytes(x: Any, batch: int) -> int:
    return int(math.prod(x.shape[batch:])) * int(x.itemsize)


_OWN = threading.local()


class _Flag:
    """Memory of the host that a kernel writes to, where a slice is marked: one of each thread."""

    def __init__(self) -> None:
        self._memory = cupy.cuda.alloc_pinned_memory(8)
        self._marks: dict[int, tuple[int, Any]] = {}
        self.address = int(self._memory.ptr)
        self.is_set = ctypes.c_int64.from_address(self.address)

    def marks(self, size: int, number: int) -> Any:
        """Memory for marks on a device."""
        known = self._marks.get(number)
        if known is not None and known[0] >= size:
            return known[1]
        found = cupy.cuda.alloc(size)
        if size <= _KEPT:
            self._marks[number] = size, found
        return found


def _of_c(name: str, dtype: str, count: str) -> str:
    """A function of the C library, which CUDA has by its name."""
    kind, called = _IN_CUDA[dtype], name_of(("libm", name, dtype, count))
    names = [f"x{k}" for k in range(int(count))]
    given = ", ".join(f"{kind} {n}" for n in names)
    return (
        f'extern "C" __device__ {kind} {called}({given}) {{ return {name}({", ".join(names)}); }}\n'
    )


def of_ufunc(name: str, *types: str) -> str:
    """A ufunc of CuPy's as a function in CUDA, by its own text, for one number of each operand."""
    ufunc = getattr(cupy, name)
    wanted = tuple(map(np.dtype, types))
    found = [x for x in ufunc._ops.ops if _types(x) == wanted]
    if not found or not isinstance(found[0].routine, str):
        raise UnsupportedError(f"cupy.{name} has no loop for {', '.join(types)}")
    kinds = [_IN_CUDA[t] for t in types]
    function = name_of(("cupy", name, *types))
    given = ", ".join(f"{kind} in{k}" for k, kind in enumerate(kinds[:-1]))
    named = [f"typedef {kind} in{k}_type;" for k, kind in enumerate(kinds[:-1])]
    return "\n".join(
        [
            f"namespace of_{function} {{ {ufunc._preamble}\n}}",
            f'extern "C" __device__ {kinds[-1]} {function}({given}) {{',
            f"using namespace of_{function};",
            *named,
            f"typedef {kinds[-1]} out0_type;",
            "out0_type out0;",
            f"{found[0].routine};",
            "return out0;",
            "}\n",
        ]
    )


def _types(loop: Any) -> tuple[Any, ...]:
    return (*map(np.dtype, loop.in_types), *map(np.dtype, loop.out_types))


_IN_CUDA = {"float32": "float", "float64": "double"}


@remembered(256)
def _loaded(code: bytes, others: str, number: int) -> Any:
    """The kernel of some PTX, on a device."""
    try:
        return compiler.of_ptx(code, others, NAME, number)
    except driver.CUDADriverError as error:
        raise UnsupportedError(f"the driver does not take its kernel: {error}") from error
