"""LLVM IR to functions that can be called: llvmlite, imported at first use.

A kernel is a function of one pointer, ``define void @name(ptr %arguments)``. There lie its
arguments, 64 bits each: addresses, strides, counts (`Writer.kernel` writes such ones). So all
kernels are called in one way, which takes 0.1 µs where the arguments are packed already and
0.4 µs where they are packed for the call; a dozen that ctypes converts take 0.9 µs.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  # before a fork: a child of one that loads it waits
import contextvars
import os
import sys
import weakref
from collections.abc import Callable
from dataclasses import astuple
from typing import Any, Generic, TypeVar

from ...codegen.llvm.target import Target
from ...errors import CompilerError
from ...runtime import threads
from ...runtime.budget import Budget
from . import disk_cache, machine_code, object_file
from .host import host, llvm, lock, versions, why_not
from .machine_code import Function, in_memory, machine, packed, stored

__all__ = [
    "CompilerError",
    "Function",
    "assembly",
    "begun",
    "compile",
    "host",
    "load",
    "object_code",
    "packed",
    "why_not",
]

_Made = TypeVar("_Made")


def assembly(text: str, target: Target) -> str:
    """The instructions that LLVM IR becomes on a CPU, which need not be this one.

    LLVM's comments say which of them move registers to memory and back ("Spill", "Reload").
    """

    def emit(own: Any, module: Any) -> str:
        own.set_asm_verbosity(True)
        found: str = own.emit_assembly(module)
        return found

    with lock:
        return _emit(text, target, emit)


def object_code(
    text: str,
    target: Target,
    *,
    passes: bool = False,
    unrolls: bool = True,
    vectorizes: bool = False,
) -> bytes:
    """The object file that LLVM IR becomes on a CPU, which need not be this one.

    `passes`, `unrolls`, `vectorizes`: as of `compile`.

    Raises
    ------
    CompilerError
        If LLVM does not take the text, or if the code would call anything outside of it.
    """
    with lock:
        emit = lambda own, module: own.emit_object(module)  # noqa: E731
        code: bytes = _emit(text, target, emit, passes, unrolls, vectorizes)
    others = object_file.calls(code)
    if others:
        names = ", ".join(sorted(others))
        raise CompilerError(f"a kernel for {target.name} would call {names}: a bug of xpapply")
    return code


def _emit(
    text: str,
    target: Target,
    emit: Any,
    passes: bool = False,
    unrolls: bool = True,
    vectorizes: bool = False,
) -> Any:
    own, binding = machine(target), llvm()
    try:
        module = binding.parse_assembly(text)
        module.verify()
        if passes:
            how = binding.create_pipeline_tuning_options(speed_level=min(machine_code.LEVEL, 2))
            how.slp_vectorization = False
            how.loop_vectorization = vectorizes
            how.loop_unrolling = unrolls
            builder = binding.create_pass_builder(own, how)
            builder.getModulePassManager().run(module, builder)
        return emit(own, module)
    except RuntimeError as error:
        raise CompilerError(f"LLVM does not compile a kernel for {target.name}: {error}") from error


_alive: weakref.WeakValueDictionary[tuple[str, Target], Function] = weakref.WeakValueDictionary()
"""Compiled or loaded functions, as long as they are referenced."""


def load(key: str, name: str, target: Target | None = None) -> Function | None:
    """The kernel that was compiled for this key, here or in another process, if there is one.

    `key` and `name` are those that `compile` was called with, or will be: who asks first need
    not write the text of a kernel that there is, and LLVM is not loaded for one that is on disk.
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
        found = Function(in_memory(code, target), name)
    except CompilerError:
        return None
    return _alive.setdefault((key, target), found)


def _entry(key: str, target: Target) -> str:
    """The key on disk: with all that the machine code depends on besides."""
    return "\0".join((key, *map(str, astuple(target)), str(machine_code.LEVEL), versions()))


def compile(
    text: str | Callable[[], str],
    name: str,
    key: str = "",
    target: Target | None = None,
    *,
    passes: bool = False,
    unrolls: bool = True,
    vectorizes: bool = False,
) -> Function:
    """The kernel `name` of a text in LLVM IR, to be called on this machine: of `load`, or new.

    Parameters
    ----------
    text : str or callable
        A module, with one or several kernels; or what writes it, if there is none for the key.
    name : str
        The kernel that is wanted; others are `Function.beside` it.
    key : str
        What tells the text from all others, for `load`: a graph, say, and how it runs. The
        version of xpapply and the CPU need not be in it. "": the text itself.
    target : Target, optional
        A lesser CPU than this machine's: ``host("AVX2")``.
    passes : bool
        Whether LLVM shall make a good text of it first, as of one that a compiler has written.
    unrolls : bool
        Whether it may then write the rounds of loops one after the other: that doubles what
        compiling takes.
    vectorizes : bool
        Whether it may do several rounds of a loop at once. It does more than is asked for then,
        which the processor would note.

    Raises
    ------
    CompilerError
        If it cannot be compiled, or would call something.
    """
    target, key = target or host(), key or str(text)
    found = load(key, name, target)
    if found is not None:
        return found
    text, key = text if isinstance(text, str) else text(), f"{key}\0{name}"
    with lock:
        found = _alive.get((key, target))  # another thread was quicker
        if found is not None:
            return found
        how = {"passes": passes, "unrolls": unrolls, "vectorizes": vectorizes}
        code = stored(object_code(text, target, **how))
        found = _alive[key, target] = Function(in_memory(code, target), name)
    disk_cache.write(_entry(key, target), code)
    return found


def begun(make: Callable[[], _Made]) -> Callable[[], _Made]:
    """Let another thread compile something; what waits for it, and raises what it raised.

    For calls that something slower serves until then. A process that ends waits for the thread;
    one that was forked meanwhile does not have it, and makes the thing itself.
    """
    process = os.getpid()
    _let_go()
    try:
        future = threads.pool(1).submit(contextvars.copy_context().run, make)
    except RuntimeError:  # the interpreter ends
        return make
    return lambda: future.result() if os.getpid() == process else make()


def _let_go() -> None:
    """Give back llvmlite's lock, if this thread has it: another one would wait for ever.

    Nobody has it who is in no call of llvmlite's, but after Ctrl-C at the end of such a call.
    """
    ffi = sys.modules.get("llvmlite.binding.ffi")
    held: Any = getattr(getattr(getattr(ffi, "lib", None), "_lock", None), "_lock", None)
    if hasattr(held, "_is_owned"):
        while held._is_owned():
            held.release()


class Deferred(Budget, Generic[_Made]):
    """Something that is compiled once that pays: the budget is of what is slower, meanwhile.

    It pays when the other has taken so long, or would at once. After a quarter of that another
    thread compiles.

    Parameters
    ----------
    seconds : float
        How long the other may take, all together.
    make : callable
        Compiles it.

    Attributes
    ----------
    is_begun : bool
        Whether another thread compiles.
    """

    __slots__ = ("_found", "_make", "is_begun")

    def __init__(self, seconds: float, make: Callable[[], _Made]) -> None:
        super().__init__(seconds)
        self._make: Callable[[], _Made] | None = make
        self.is_begun = False

    def spend(self, cost: float) -> bool:
        """Whether to defer a call of so many seconds, which are counted."""
        if not self.holds(cost):
            self.end()
            return False
        self.spent += cost
        make = self._make
        if not self.is_begun and make is not None and 4 * self.spent >= self.limit:
            self.is_begun, self._make = True, begun(make)
        return True

    def made(self) -> _Made:
        """The compiled function, which all calls run from now on."""
        self.end()
        make = self._make
        if make is not None:
            self._found = make()
            self._make = None
        return self._found
