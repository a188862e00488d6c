"""Machine code in memory, and how it is called."""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import Any, Protocol

from ...codegen.llvm.target import Target
from ...errors import CompilerError
from . import object_file
from .host import executable, llvm, llvm_of_all_machines, lock, native

LEVEL = 3
"""LLVM's optimization level, 0 to 3."""

_PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_PROTOTYPE_WITH_GIL = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)

_packers = [struct.Struct(f"{count}q").pack for count in range(64)]


def packed(*arguments: int) -> bytes:
    """Arguments of a kernel, as `Function.call` takes them."""
    count = len(arguments)
    if count < len(_packers):
        return _packers[count](*arguments)
    return struct.pack(f"{count}q", *arguments)


class Code(Protocol):
    """Machine code that can run, for as long as something holds this."""

    def address(self, name: str) -> int:
        """The address of a kernel; 0: there is none of that name."""


def in_memory(code: bytes, target: Target) -> Code:
    """Load stored code, ready to run."""
    return ByLLVM(code, target) if code.startswith(object_file.MAGIC) else Mapped(code)


def stored(code: bytes) -> bytes:
    """An object file as it is kept: what needs no LLVM to be loaded, if possible."""
    own = sys.platform == "linux" and object_file.linked(code)
    return own or code


class Mapped:
    """Code that runs wherever it lies, as `object_file.linked` makes it."""

    def __init__(self, code: bytes) -> None:
        names, _, body = code.partition(b"\n")
        words = names.decode().split()
        self._starts = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        self._memory, self._at = executable(body)

    def address(self, name: str) -> int:
        return self._at + self._starts[name] if name in self._starts else 0


class ByLLVM:
    """An object file, loaded by LLVM."""

    def __init__(self, code: bytes, target: Target) -> None:
        binding = llvm()
        with lock:
            self._engine = binding.create_mcjit_compiler(
                binding.parse_assembly(""), machine(target), use_lmm=True
            )
            self._engine.add_object_file(binding.ObjectFileRef.from_data(code))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        with lock:
            found: int = self._engine.get_function_address(name)
        return found

    def __del__(self, finalizing: Any = sys.is_finalizing) -> None:
        engine = getattr(self, "_engine", None)
        if engine is not None and not finalizing():
            with lock:
                engine.close()


def machine(target: Target) -> Any:
    """LLVM's own object for a CPU.

    Addresses are relative and near: LLVM takes half the time that it takes for far ones, and
    constants need no register. llvmlite's memory manager keeps the parts of a module together.
    """
    try:
        binding = llvm()
        if target.triple != binding.get_process_triple():
            binding = llvm_of_all_machines()
        cpu, features = target.cpu, target.features
        if cpu == "native":
            cpu, features = native(target.name)
        return binding.Target.from_triple(target.triple).create_target_machine(
            cpu, features, opt=LEVEL, reloc="pic", codemodel="small"
        )
    except RuntimeError as error:
        raise CompilerError(f"LLVM does not know {target.triple}: {error}") from error


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

    def __init__(self, code: Code, name: str) -> None:
        self._code = code
        self.name = name
        self.address = code.address(name)
        if not self.address:
            raise CompilerError(f"no kernel {name!r} in the machine code")
        self.call = _PROTOTYPE(self.address)
        self.call_with_gil = _PROTOTYPE_WITH_GIL(self.address)
        # what calls it may be all that is kept
        self.call.code = self.call_with_gil.code = code  # type: ignore[attr-defined]

    def __call__(self, *arguments: int) -> None:
        """Run with so many arguments: addresses, strides, counts."""
        self.call(packed(*arguments))

    def beside(self, name: str) -> Function:
        """Another kernel of the same text."""
        return Function(self._code, name)
