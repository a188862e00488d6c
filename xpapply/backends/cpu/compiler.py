"""LLVM IR to functions that can be called: llvmlite, imported at first use.

A kernel is a function of one pointer, ``define void @name(ptr %arguments)``. There lie its
arguments, 64 bits each: addresses, strides, counts (`Writer.kernel` writes such ones). So all
kernels are called in one way, which takes 0.1 µs where the arguments are packed already and
0.4 µs where they are packed for the call; a dozen that ctypes converts take 0.9 µs.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import struct
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple
from types import ModuleType
from typing import Any

from ...codegen.llvm.target import TARGETS, Target
from ...errors import InputError, UnsupportedError
from . import disk_cache, object_file

OLDEST = (0, 45)
"""Of llvmlite: what is older does not read the opaque pointers of LLVM IR."""

LEVEL = 3
"""How hard LLVM tries to choose and order instructions, of 0 to 3."""

_ARCHITECTURES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "ARM", "arm64": "ARM"}

_NEEDS = {
    "AVX-512": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma"),
    "AVX2": ("avx2", "fma"),
    "SSE2": (),
}
"""The x86 CPUs that kernels are written for, the best ones first."""


_lock = threading.RLock()
"""Of everything that calls llvmlite. A fork waits for it, so that no child has half a compiler."""


class CompilerError(UnsupportedError):
    """LLVM cannot compile a kernel, or made something of it that must not run."""


# ---------------------------------------------------------------------- this machine


@functools.cache
def why_not() -> str | None:
    """Why no kernel can be compiled here, and what to do; None where it can."""
    machine = platform.machine()
    if sys.maxsize < 1 << 32 or sys.byteorder != "little" or _architecture() is None:
        here = f"a {8 * struct.calcsize('P')}-bit Python on {machine or 'an unknown CPU'}"
        return f"kernels are compiled for 64-bit x86 and ARM CPUs, and this is {here}"
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


def _architecture() -> str | None:
    return _ARCHITECTURES.get(platform.machine().lower())


@functools.cache
def _llvm() -> ModuleType:
    """llvmlite's binding, for this machine; or `CompilerError`."""
    reason = why_not()
    if reason is not None:
        raise CompilerError(reason)
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@functools.cache
def _of_all_machines() -> ModuleType:
    llvm = _llvm()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm


@functools.cache
def host(most: str = "") -> Target:
    """This machine's CPU; `most`: as if it had no more than these vector instructions.

    So says the environment variable ``XPAPPLY_CPU`` of the whole process ("AVX2", "SSE2").

    Raises
    ------
    CompilerError
        Where nothing can be compiled.
    InputError
        If the CPU has fewer instructions than `most`.
    """
    with _lock:
        llvm = _llvm()
        # MCJIT reads ELF alone on Windows
        triple = llvm.get_process_triple() + ("-elf" if os.name == "nt" else "")
        found, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features()
    if _architecture() == "ARM":
        names = ["NEON"]
    else:
        names = [name for name, needs in _NEEDS.items() if all(map(features.get, needs))]
    most = most or os.environ.get("XPAPPLY_CPU", "")
    if most and most not in names:
        raise InputError(f"this CPU does not have {most!r}: use one of {', '.join(names)}")
    name = most or names[0]
    like = TARGETS[name]
    cpu, allowed = (found, features.flatten()) if name == names[0] else (like.cpu, like.features)
    return Target(name, triple, cpu, allowed, like.bits, like.fma, like.registers)


# ---------------------------------------------------------------------- text to machine code


def assembly(text: str, target: Target) -> str:
    """The instructions that LLVM IR becomes on a CPU, which need not be this one."""
    with _lock:
        return _emit(text, target, lambda machine, module: machine.emit_assembly(module))


def object_code(text: str, target: Target) -> bytes:
    """The object file that LLVM IR becomes on a CPU, which need not be this one.

    Raises
    ------
    CompilerError
        If LLVM does not take the text, or if the code would call anything outside of it.
    """
    with _lock:
        code: bytes = _emit(text, target, lambda machine, module: machine.emit_object(module))
    others = object_file.calls(code)
    if others:
        names = ", ".join(sorted(others))
        raise CompilerError(f"a kernel for {target.name} would call {names}: a bug of xpapply")
    return code


def _emit(text: str, target: Target, emit: Any) -> Any:
    machine = _machine(target)
    try:
        module = _llvm().parse_assembly(text)
        module.verify()
        return emit(machine, module)
    except RuntimeError as error:
        raise CompilerError(f"LLVM does not compile a kernel for {target.name}: {error}") from error


def _machine(target: Target) -> Any:
    # Addresses are relative and near: LLVM takes half the time that it takes for far ones, and
    # constants need no register. llvmlite's memory manager keeps the parts of a module together.
    llvm = _llvm() if target.triple == _native() else _of_all_machines()
    try:
        return llvm.Target.from_triple(target.triple).create_target_machine(
            target.cpu, target.features, opt=LEVEL, reloc="pic", codemodel="small"
        )
    except RuntimeError as error:
        raise CompilerError(f"LLVM does not know {target.triple}: {error}") from error


@functools.cache
def _native() -> str:
    return host().triple


# ---------------------------------------------------------------------- machine code to functions

_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_PROTOTYPE_WITH_GIL = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)

_packers = [struct.Struct(f"{count}q").pack for count in range(64)]


def packed(*arguments: int) -> bytes:
    """Arguments of a kernel, as `Function.call` takes them."""
    return _packers[len(arguments)](*arguments)


class _Loaded:
    """Machine code that can run, for as long as something holds this."""

    def __init__(self, code: bytes, target: Target) -> None:
        llvm = _llvm()
        with _lock:
            self._engine = llvm.create_mcjit_compiler(
                llvm.parse_assembly(""), _machine(target), use_lmm=True
            )
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        with _lock:
            found: int = self._engine.get_function_address(name)
        return found

    def __del__(self) -> None:
        engine = getattr(self, "_engine", None)
        if engine is not None and not sys.is_finalizing():
            with _lock:
                engine.close()


class Function:
    """A compiled kernel. The code is there for as long as this, or one of its calls.

    Attributes
    ----------
    address : int
        Where the code starts.
    call : callable
        ``call(arguments)`` of bytes (see `packed`) or of an address where the arguments lie.
        It lets go of the GIL.
    call_with_gil : callable
        The same without letting go of it: for work of a few microseconds. Where other threads
        run Python, getting the GIL back may take 5 ms.
    """

    def __init__(self, loaded: _Loaded, name: str) -> None:
        self._loaded = loaded
        self.name = name
        self.address = loaded.address(name)
        if not self.address:
            raise CompilerError(f"no kernel {name!r} in the machine code")
        self.call = _PROTOTYPE(self.address)
        self.call_with_gil = _PROTOTYPE_WITH_GIL(self.address)
        # what calls it may be all that is kept
        self.call.code = self.call_with_gil.code = loaded  # type: ignore[attr-defined]

    def __call__(self, *arguments: int) -> None:
        """Run with so many arguments: addresses, strides, counts."""
        self.call(_packers[len(arguments)](*arguments))

    def beside(self, name: str) -> Function:
        """Another kernel of the same text."""
        return Function(self._loaded, name)


_alive: weakref.WeakValueDictionary[tuple[str, Target], Function] = weakref.WeakValueDictionary()
"""What was compiled or loaded, for as long as somebody has it."""


def load(key: str, name: str, target: Target | None = None) -> Function | None:
    """The kernel that was compiled for this key, here or in another process, if there is one.

    `key` and `name` are those that `compile` was called with, or will be: who asks first need
    not write the text of a kernel that there is.
    """
    target = target or host()
    key = f"{key}\0{name}"
    found = _alive.get((key, target))
    if found is not None:
        return found
    code = disk_cache.read(_entry(key, target))
    if code is None:
        return None
    try:
        found = Function(_Loaded(code, target), name)
    except CompilerError:
        return None
    return _alive.setdefault((key, target), found)


def _entry(key: str, target: Target) -> str:
    """The key on disk: with all that the machine code depends on besides."""
    return "\0".join((key, *map(str, astuple(target)), str(LEVEL), _versions()))


@functools.cache
def _versions() -> str:
    """The version of LLVM, and the state of xpapply's own files: they write the text."""
    package = os.path.abspath(__file__)
    for _ in __package__.split("."):
        package = os.path.dirname(package)
    version = ".".join(map(str, _llvm().llvm_version_info))
    return "\n".join((version, package, *_files(package)))


def _files(folder: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as found:  # there is no folder in a zip file
        for entry in sorted(found, key=lambda entry: entry.name):
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith(".py"):
                seen = entry.stat()
                yield f"{entry.name} {seen.st_size} {seen.st_mtime_ns}"


def compile(text: str, name: str, key: str = "", target: Target | None = None) -> Function:
    """The kernel `name` of a text in LLVM IR, to be called on this machine.

    Parameters
    ----------
    text : str
        A module, with one or several kernels.
    name : str
        The kernel that is wanted; others are `Function.beside` it.
    key : str
        What tells the text from all others, for `load`: a graph, say, and how it runs. The
        version of xpapply and the CPU need not be in it. "": the text itself.
    target : Target, optional
        A lesser CPU than this machine's: ``host("AVX2")``.

    Raises
    ------
    CompilerError
        If it cannot be compiled, or would call something.
    """
    target = target or host()
    key = f"{key or text}\0{name}"
    with _lock:
        found = _alive.get((key, target))
        if found is not None:
            return found
        code = object_code(text, target)
        found = _alive[key, target] = Function(_Loaded(code, target), name)
    disk_cache.write(_entry(key, target), code)
    return found


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )
