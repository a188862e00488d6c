"""This machine: its CPU, and whether llvmlite is there to compile for it.

Loading LLVM takes longer than compiling a small kernel. Where it was loaded before, what it said of
the CPU is kept on disk, and it is not loaded until something is to be compiled.
"""

from __future__ import annotations

import functools
import os
import platform
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from types import ModuleType

from ...codegen.llvm.target import TARGETS, Target
from ...errors import InputError, UnsupportedError
from . import disk_cache

OLDEST = (0, 45)
"""Of llvmlite: what is older does not read the opaque pointers of LLVM IR."""

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
"""Of everything that calls llvmlite. A fork waits for it, so that no child has half a compiler."""


class CompilerError(UnsupportedError):
    """LLVM cannot compile a kernel, or made something of it that must not run."""


@functools.cache
def why_not() -> str | None:
    """Why no kernel can be compiled here, and what to do; None where it can."""
    if sys.maxsize < 1 << 32 or sys.byteorder != "little" or architecture() is None:
        machine = platform.machine() or "an unknown CPU"
        here = f"a {8 * struct.calcsize('P')}-bit Python on {machine}"
        return f"kernels are compiled for 64-bit x86 and ARM CPUs, and this is {here}"
    return None if _remembered() else _why_not_llvmlite()


@functools.cache
def _why_not_llvmlite() -> str | None:
    try:
        import llvmlite
        import llvmlite.binding as llvm
    except ImportError as error:
        if error.name == "llvmlite":
            return "llvmlite is not installed: pip install 'xpapply[cpu]'"
        return f"llvmlite cannot be imported ({error}): install it anew"
    except OSError as error:  # its shared library
        return f"llvmlite cannot be loaded ({error}): install it anew"
    version = tuple(int(part) for part in llvmlite.__version__.split(".")[:2] if part.isdigit())
    if version < OLDEST:
        return f"llvmlite {llvmlite.__version__} is too old: pip install -U 'xpapply[cpu]'"
    try:
        llvm.check_jit_execution()
    except OSError as error:
        return f"this system does not let a program run code that it has made ({error})"
    return None


def architecture() -> str | None:
    """x86_64, ARM, or None for what kernels are not compiled for."""
    return _ARCHITECTURES.get(platform.machine().lower())


@functools.cache
def llvm() -> ModuleType:
    """llvmlite's binding, for this machine; or `CompilerError`."""
    reason = why_not() or _why_not_llvmlite()
    if reason is not None:
        raise CompilerError(reason)
    import llvmlite.binding

    llvmlite.binding.initialize_native_target()
    llvmlite.binding.initialize_native_asmprinter()
    return llvmlite.binding


@functools.cache
def llvm_of_all_machines() -> ModuleType:
    """The same, for all machines that LLVM knows."""
    found = llvm()
    found.initialize_all_targets()
    found.initialize_all_asmprinters()
    return found


@functools.cache
def host(most: str = "") -> Target:
    """This machine's CPU; `most`: as if it had no more than these vector instructions.

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
    triple, found, features = _remembered() or _seen_by_llvm()
    if architecture() == "ARM":
        names = ["NEON"]
    else:
        there = {x[1:] for x in features.split(",") if x[:1] == "+"}
        names = [name for name, needs in _NEEDS.items() if there.issuperset(needs)]
    most = most or os.environ.get("XPAPPLY_CPU", "")
    if most and most not in names:
        raise InputError(f"this CPU does not have {most!r}: use one of {', '.join(names)}")
    name = most or names[0]
    like = TARGETS[name]
    cpu, allowed = (found, features) if name == names[0] else (like.cpu, like.features)
    return Target(name, triple, cpu, allowed, like.bits, like.fma, like.registers)


def _seen_by_llvm() -> tuple[str, str, str]:
    """The platform, the CPU and its features."""
    with lock:
        # on Windows, LLVM loads ELF alone into memory
        triple = llvm().get_process_triple() + ("-elf" if os.name == "nt" else "")
        found = triple, llvm().get_host_cpu_name(), llvm().get_host_cpu_features().flatten()
    key = _machine()
    if key is not None:
        disk_cache.write(key, "\n".join(found).encode())
    return found


@functools.cache
def _remembered() -> tuple[str, str, str] | None:
    """The same, as the same llvmlite said it on this CPU before."""
    key = _machine()
    found = None if key is None else disk_cache.read(key)
    if found is None:
        return None
    triple, cpu, features = found.decode().split("\n")
    return triple, cpu, features


@functools.cache
def _machine() -> str | None:
    """What tells this CPU and this llvmlite from others; None where that is not to be had."""
    try:
        with open("/proc/cpuinfo", "rb") as file:  # of Linux
            first = file.read(1 << 14).partition(b"\n\n")[0]
    except OSError:
        return None
    lines = [line for line in first.splitlines() if line.startswith(_CPU)]
    if not lines or not _llvmlite():
        return None
    return "\n".join(
        ("CPU", b"\n".join(lines).decode("ascii", "replace"), *_llvmlite(), versions())
    )


@functools.cache
def versions() -> str:
    """The state of xpapply's own files, which write the kernels, and of llvmlite's."""
    package = os.path.abspath(__file__)
    for _ in __package__.split("."):
        package = os.path.dirname(package)
    return "\n".join((package, *_files(package), *_llvmlite()))


@functools.cache
def _llvmlite() -> tuple[str, ...]:
    """Where llvmlite is and when it was installed; nothing where it is not."""
    found = None
    with suppress(ImportError, ValueError):
        found = find_spec("llvmlite")
    if found is None or found.origin is None:
        return ()
    return found.origin, *_files(os.path.dirname(found.origin))


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
