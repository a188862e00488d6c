"""This machine: its CPU, and whether llvmlite is installed.

Loading LLVM takes longer than compiling a small kernel. On Linux the system says what the CPU has,
and LLVM is loaded when something is to be compiled; elsewhere it has to be asked.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import platform
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from types import ModuleType

from ...codegen.llvm.target import TARGETS, Target
from ...errors import CompilerError, InputError
from ...limits import LIMITS

OLDEST = (0, 45)
"""The oldest llvmlite with opaque pointers of LLVM IR."""

_ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "ARM", "arm64": "ARM"}

_NEEDS = {
    "AVX-512": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma"),
    "AVX2": ("avx2", "fma"),
    "SSE2": (),
}
"""The x86 CPUs that kernels are written for, the best ones first."""

_CPU = (b"vendor_id", b"cpu family", b"model", b"stepping", b"flags")
"""The lines of ``/proc/cpuinfo`` that tell CPUs apart."""

lock = threading.RLock()
"""The lock around llvmlite. A fork waits for it, so that no child has half a compiler."""


@functools.cache
def why_not() -> str | None:
    """Why no kernel can be compiled here, and what to do; None where it can."""
    if sys.maxsize < 1 << 32 or sys.byteorder != "little" or architecture() is None:
        machine = platform.machine() or "an unknown CPU"
        here = f"a {8 * struct.calcsize('P')}-bit Python on {machine}"
        return f"kernels are compiled for 64-bit x86 and ARM CPUs, and this is {here}"
    try:
        import llvmlite
    except ImportError as error:
        if error.name == "llvmlite":
            return "llvmlite is not installed: pip install 'xpapply[cpu]'"
        return f"llvmlite cannot be imported ({error}): install it anew"
    version = tuple(int(part) for part in llvmlite.__version__.split(".")[:2] if part.isdigit())
    if version < OLDEST:
        return f"llvmlite {llvmlite.__version__} is too old: pip install -U 'xpapply[cpu]'"
    if not _from_linux():
        return _why_not_loaded()
    try:
        executable(b"\0")
    except CompilerError as error:
        return str(error)
    return None


@functools.cache
def _why_not_loaded() -> str | None:
    """The reason against LLVM itself."""
    try:
        import llvmlite.binding
    except (ImportError, OSError) as error:
        return f"llvmlite cannot be loaded ({error}): install it anew"
    try:
        llvmlite.binding.check_jit_execution()
    except OSError as error:
        return _NOT_MADE.format(error)
    return None


_NOT_MADE = "this system does not let a program run code that it has made ({})"


def executable(code: bytes) -> tuple[mmap.mmap, int]:
    """Memory with machine code that can run, and its address. On Linux alone."""
    found = mmap.mmap(-1, len(code), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    found[:] = code
    address = ctypes.addressof(ctypes.c_char.from_buffer(found))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    if protect(address, len(code), mmap.PROT_READ | mmap.PROT_EXEC):
        raise CompilerError(_NOT_MADE.format(os.strerror(ctypes.get_errno())))
    return found, address


def architecture() -> str | None:
    """x86_64, ARM, or None for what kernels are not compiled for."""
    return _ARCHITECTURES.get(platform.machine().lower())


def loading() -> float:
    """Seconds that the first compilation of a process takes beside its own."""
    return 0.0 if "llvmlite.binding" in sys.modules else LIMITS.llvm_loading


@functools.cache
def llvm() -> ModuleType:
    """llvmlite's binding, for this machine; or `CompilerError`."""
    reason = why_not() or _why_not_loaded()
    if reason is not None:
        raise CompilerError(reason)
    import llvmlite.binding

    llvmlite.binding.initialize_native_target()
    llvmlite.binding.initialize_native_asmprinter()
    return llvmlite.binding


@functools.cache
def llvm_of_all_machines() -> ModuleType:
    """LLVM with all targets."""
    found = llvm()
    found.initialize_all_targets()
    found.initialize_all_asmprinters()
    return found


@functools.cache
def host(most: str = "") -> Target:
    """The target of this CPU; `most`: limited to these vector instructions.

    So says the environment variable ``XPAPPLY_CPU`` of the whole process ("AVX2", "SSE2").

    Raises
    ------
    CompilerError
        Where nothing can be compiled.
    InputError
        If the CPU does not have `most`.
    """
    reason = why_not()
    if reason is not None:
        raise CompilerError(reason)
    names = ["NEON"] if architecture() == "ARM" else _names(_from_linux() or _from_llvm())
    most = most or os.environ.get("XPAPPLY_CPU", "")
    if most and most not in names:
        raise InputError(f"this CPU does not have {most!r}: use one of {', '.join(names)}")
    name = most or names[0]
    like = replace(TARGETS[name], triple=_triple())
    return replace(like, cpu="native", features="") if name == names[0] else like


def _names(features: str) -> list[str]:
    there = set(features.split())
    return [name for name, needs in _NEEDS.items() if there.issuperset(needs)]


def native(name: str) -> tuple[str, str]:
    """LLVM's name of this CPU, and its features, which must include those of `name`."""
    if architecture() == "x86_64" and name not in _names(_from_llvm()):
        raise CompilerError(
            f"LLVM does not see {name} in this CPU: set XPAPPLY_CPU to a lesser one"
        )
    with lock:
        return llvm().get_host_cpu_name(), llvm().get_host_cpu_features().flatten()


@functools.cache
def _triple() -> str:
    if _from_linux():
        return TARGETS["SSE2"].triple
    with lock:  # on Windows, LLVM loads ELF alone into memory
        return llvm().get_process_triple() + ("-elf" if os.name == "nt" else "")


@functools.cache
def _from_llvm() -> str:
    """The features of the CPU."""
    with lock:
        found = llvm().get_host_cpu_features()
    return " ".join(name for name, there in sorted(found.items()) if there)


@functools.cache
def _from_linux() -> str:
    """The same on x86 with Linux, and the CPU's name; "" elsewhere."""
    if sys.platform != "linux" or architecture() != "x86_64":
        return ""
    try:
        with open("/proc/cpuinfo", "rb") as file:
            first = file.read(1 << 14).partition(b"\n\n")[0]
    except OSError:
        return ""
    lines = [line for line in first.splitlines() if line.startswith(_CPU)]
    found = b"\n".join(lines).decode("ascii", "replace")
    return found if "\nflags" in found else ""


@functools.cache
def versions() -> str:
    """A text of this CPU, llvmlite's version and the state of xpapply's files: the cache key."""
    import llvmlite

    package = os.path.abspath(__file__)
    for _ in __package__.split("."):
        package = os.path.dirname(package)
    compiler = os.path.dirname(os.path.abspath(llvmlite.__file__))
    cpu = _from_linux() or " ".join(native(host().name))
    return "\n".join((cpu, package, *_files(package), compiler, *_files(compiler)))


def _files(folder: str) -> Iterator[str]:
    """The Python files, and when they were written."""
    with suppress(OSError), os.scandir(folder) as found:  # there is no folder in a zip file
        for entry in sorted(found, key=lambda entry: entry.name):
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith(".py"):
                seen = entry.stat()
                yield f"{entry.name} {seen.st_size} {seen.st_mtime_ns}"


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
    )
