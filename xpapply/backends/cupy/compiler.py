"""CUDA source to a function on a device: compiled once, kept on disk.

`cupy.RawModule` cannot do it: it compiles for the architecture's common part
(sm_90), without the instructions that need the whole one (sm_90a).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cupy
from cupy.cuda import nvrtc
from cupy_backends.cuda.api import driver

from ...codegen.cost import Device
from ...functions.cache import remembered

_OPTIONS = ("--std=c++17", "--device-as-default-execution-space", "-fmad=true")
_MAX_DYNAMIC_SHARED_SIZE = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"""


def rates(number: int) -> tuple[float, float]:
    """Bytes per second of the memory and Hz, as a device says; 0 where it does not."""
    found = cupy.cuda.Device(number).attributes
    memory = 2e3 * found["MemoryClockRate"] * found["GlobalMemoryBusWidth"] / 8
    return memory, 1e3 * found["ClockRate"]


@functools.cache
def device(number: int) -> Device:
    """A device as the cost model wants it."""
    found = cupy.cuda.Device(number).attributes
    memory, clock = rates(number)
    capability = int(cupy.cuda.Device(number).compute_capability)
    core = ""
    if capability >= 80:  # wgmma is Hopper's alone
        core = "wgmma" if capability == 90 else "mma"
    return Device(
        multiprocessors=int(found["MultiProcessorCount"]),
        # what it keeps up under load; a device that does not tell is taken for an ordinary one
        clock=0.9 * (clock or 1.5e9),
        bandwidth=0.9 * (memory or 1e12),
        core=core,
        shared=int(found["MaxSharedMemoryPerBlockOptin"]),
    )


@remembered(512)
def function(source: str, name: str, number: int, shared: int) -> Any:
    """Kernel `name` of `source` on device `number`, with `shared` bytes of dynamic memory.

    Raises
    ------
    RuntimeError
        Where the compiler or the driver refuses; the message says why.
    """
    capability = cupy.cuda.Device(number).compute_capability
    architecture = f"sm_{capability}a" if capability == "90" else f"sm_{capability}"
    found = _loaded(lambda: _machine_code(source, architecture)).get_function(name)
    driver.funcSetAttribute(found.ptr, _MAX_DYNAMIC_SHARED_SIZE, shared)
    return found


def of_ptx(ptx: bytes, others: str, name: str, number: int) -> Any:
    """Kernel `name` of some PTX on a device, linked with functions in CUDA that it calls.

    The driver takes seconds to make machine code of a long one, which is kept as well.

    Raises
    ------
    CUDADriverError
        Where the driver refuses.
    """
    capability = cupy.cuda.Device(number).compute_capability
    version = str(cupy.cuda.runtime.driverGetVersion())

    def make() -> bytes:
        return _linked(ptx, relocatable(others, number) if others else b"")

    key = "\0".join((ptx.decode(), others, capability, version, cupy.__version__))
    return _loaded(lambda: _kept(key, make)).get_function(name)


def _loaded(find: Callable[[], tuple[bytes, Path]]) -> Any:
    """The module of machine code, which is made anew where its file is damaged."""
    module = cupy.cuda.function.Module()
    code, path = find()
    try:
        module.load(code)
    except driver.CUDADriverError:
        with contextlib.suppress(OSError):
            path.unlink()
        module = cupy.cuda.function.Module()
        module.load(find()[0])
    return module


def _linked(ptx: bytes, others: bytes) -> bytes:
    """Machine code of PTX, and of what it calls."""
    state = driver.linkCreate()
    try:
        driver.linkAddData(state, driver.CU_JIT_INPUT_PTX, ptx, "xpapply.ptx")
        if others:
            driver.linkAddData(state, driver.CU_JIT_INPUT_CUBIN, others, "cupy.cubin")
        return bytes(driver.linkComplete(state))
    finally:
        driver.linkDestroy(state)


def relocatable(source: str, number: int) -> bytes:
    """Functions as machine code to be linked, with the numbers that CuPy's own kernels have.

    Raises
    ------
    RuntimeError
        Where the compiler refuses; the message says why.
    """
    architecture = f"sm_{cupy.cuda.Device(number).compute_capability}"
    return _machine_code(source, architecture, _AS_CUPY)[0] + b"\0" * 8  # CuPy drops the last byte


_AS_CUPY = ("--std=c++17", "-ftz=true", "-rdc=true")


def _machine_code(
    source: str, architecture: str, options: tuple[str, ...] = _OPTIONS
) -> tuple[bytes, Path]:
    """The code of CUDA source, and the file where it is kept."""

    def make() -> bytes:
        program = nvrtc.createProgram(source, "xpapply.cu", (), ())
        try:
            nvrtc.compileProgram(program, (f"-arch={architecture}", *options))
            return bytes(nvrtc.getCUBIN(program))
        except nvrtc.NVRTCError as error:
            raise RuntimeError(nvrtc.getProgramLog(program)) from error
        finally:
            nvrtc.destroyProgram(program)

    version = str(nvrtc.getVersion())
    return _kept("\0".join((source, architecture, *options, version, cupy.__version__)), make)


def _kept(key: str, make: Callable[[], bytes]) -> tuple[bytes, Path]:
    """Code by what it is made of, from a file or new, and that file."""
    path = _cache_folder() / f"xpapply_{hashlib.sha256(key.encode()).hexdigest()}.cubin"
    with contextlib.suppress(OSError):
        return path.read_bytes(), path
    code = make()
    with contextlib.suppress(OSError):  # a cache that cannot be written is not an error
        path.parent.mkdir(parents=True, exist_ok=True)
        # another process may write the same: a file is there whole or not at all
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(code)
        Path(temporary).replace(path)
    return code, path


def _cache_folder() -> Path:
    """The folder of CuPy's compiled kernels."""
    default = os.path.expanduser("~/.cupy/kernel_cache")  # unlike Path's, never an error
    return Path(os.environ.get("CUPY_CACHE_DIR") or default)
