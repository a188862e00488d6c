"""LLVM IR to PTX, which the driver of an NVIDIA GPU takes: compiled here once, kept on disk."""

from __future__ import annotations

import contextlib
from typing import Any

from ...errors import CompilerError
from ...runtime import threads
from . import disk_cache
from .host import llvm_of_all_machines, loading, lock, versions, why_not

_ISA = {
    75: 63, 80: 70, 86: 71, 87: 74, 89: 78, 90: 78, 100: 86, 101: 86, 103: 88, 120: 87, 121: 88
}  # fmt: skip
"""The first PTX version with each architecture."""
_OLDEST_ISA = 74
"""The one with loads past caches, which drivers take since CUDA 11.4."""


UNROLL = "llvm.loop.unroll.full"
"""The metadata of loops to be unrolled."""
_MOST_ROUNDS = "-pragma-unroll-full-max-iterations={}", 100, 1_000_000
"""LLVM's option of such loops, and its values here and elsewhere."""
_PASSES = (
    *("always_inliner", "sroa", "simplify_cfg", "instruction_combine", "loop_simplify", "lcssa"),
    *("loop_rotate", "instruction_combine", "loop_unroll", "sroa", "instruction_combine"),
    "simplify_cfg",  # what is left out is not written and read again
)


def architecture(capability: int) -> int | None:
    """The newest architecture that is no newer than a device; None: it is older than all."""
    return max((a for a in _ISA if a <= capability), default=None)


def soon() -> None:
    """Have another thread load LLVM, which takes as long as reading a function.

    Not if some kernels are on disk: that of the next function may be one of them.
    """
    if loading() and why_not() is None and disk_cache.is_empty():
        with contextlib.suppress(RuntimeError):  # the interpreter ends
            threads.pool(1).submit(_machine, max(_ISA))


def _machine(architecture: int) -> Any:
    with lock:
        target = llvm_of_all_machines().Target.from_triple("nvptx64-nvidia-cuda")
        return target.create_target_machine(
            cpu=f"sm_{architecture}", features=f"+ptx{max(_ISA[architecture], _OLDEST_ISA)}", opt=3
        )


def ptx(text: str, architecture: int) -> bytes:
    """The PTX that LLVM IR becomes for an architecture of `architecture`'s.

    Raises
    ------
    CompilerError
        If LLVM does not take the text.
    """
    key = f"ptx\0{architecture}\0{text}\0{versions()}"
    found = disk_cache.read(key)
    if found is None:
        with lock:
            found = _compiled(text, architecture).encode() + b"\0"
        disk_cache.write(key, found)
    return found


def _unrolled(binding: Any, module: Any, own: Any) -> Any:
    """A module whose loops that are to be unrolled are, as far as LLVM can.

    What it cannot must not ask for it any more: LLVM would print a warning for each. Where it does
    not see how a loop ends, but that it counts up to a limit, as of rounds or of a small integer,
    it would write out millions of rounds: the process hangs.
    """
    passes = binding.create_new_module_pass_manager()
    if not all(hasattr(passes, f"add_{p}_pass") for p in _PASSES):
        return module
    for name in _PASSES:
        getattr(passes, f"add_{name}_pass")()
    option, most, otherwise = _MOST_ROUNDS
    builder = binding.create_pass_builder(own, binding.create_pipeline_tuning_options())
    binding.set_option("xpapply", option.format(most))
    try:
        passes.run(module, builder)
    finally:
        binding.set_option("xpapply", option.format(otherwise))
    text = str(module)
    return (
        binding.parse_assembly(text.replace(UNROLL, "xpapply.loop")) if UNROLL in text else module
    )


def _compiled(text: str, architecture: int) -> str:
    binding = llvm_of_all_machines()
    try:
        module = binding.parse_assembly(text)
        module.verify()
        own = _machine(architecture)
        if UNROLL in text:
            module = _unrolled(binding, module, own)
        how = binding.create_pipeline_tuning_options(speed_level=3)
        builder = binding.create_pass_builder(own, how)
        builder.getModulePassManager().run(module, builder)
        found: str = own.emit_assembly(module)
    except RuntimeError as error:
        why = f"LLVM does not compile a kernel for sm_{architecture}: {error}"
        raise CompilerError(why) from error
    if f".target sm_{architecture}" not in found:
        raise CompilerError(f"this llvmlite does not know sm_{architecture}")
    return found
