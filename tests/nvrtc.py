"""Compile kernel texts for real architectures with NVRTC, without a GPU.

The frame around each text is the one that CuPy puts there. Machine code is kept in the folder for
temporary files: a text that is the same as in an earlier run is not compiled again. Whether a text
compiles does not depend on how well: only the profile ``deep`` optimises, three times as long.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from xpapply.codegen.cxx import TYPES
from xpapply.codegen.elementwise import RegionKernel
from xpapply.codegen.reduction import Reduction
from xpapply.codegen.scalar_network import NetworkKernel

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100")


def _quickly() -> tuple[str, ...]:
    """The option that leaves optimisation out, where this NVRTC has it."""
    from cupy.cuda import nvrtc

    deep = os.environ.get("XPAPPLY_PROFILE") == "deep"
    return () if deep or nvrtc.getVersion() < (13, 0) else ("--Ofast-compile=max",)


def _kept(source: str, options: tuple[str, ...], build: Callable[[], bytes]) -> bytes:
    """What `build` makes of a source with some options, by this NVRTC and this CuPy's headers."""
    import cupy
    from cupy.cuda import nvrtc

    state = repr((source, options, nvrtc.getVersion(), cupy.__version__))
    folder = Path(tempfile.gettempdir()) / "xpapply-cubins"
    folder.mkdir(exist_ok=True)
    target = folder / hashlib.sha256(state.encode()).hexdigest()
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            built = Path(scratch, "built")
            built.write_bytes(build())
            built.replace(target)
    return target.read_bytes()


def compile_source(source: str, architecture: str) -> bytes:
    """Machine code of a CUDA source."""
    from cupy._core.core import assemble_cupy_compiler_options
    from cupy.cuda import compiler

    given = (f"-arch={architecture}", "-DCUPY_USE_JITIFY=0", *_quickly())
    options = assemble_cupy_compiler_options(given)

    def build() -> bytes:
        built = compiler._NVRTCProgram(source, "kernel.cu", method="cubin").compile(options)
        return built[0] if isinstance(built, tuple) else built

    return _kept(source, options, build)


def compile_plain(source: str, architecture: str) -> bytes:
    """Machine code of a source that stands alone, with the options of the CuPy backend."""
    from cupy.cuda import nvrtc

    from xpapply.backends.cupy import compiler

    options = (f"-arch={architecture}", *compiler._OPTIONS, *_quickly())

    def build() -> bytes:
        program = nvrtc.createProgram(source, "kernel.cu", (), ())
        try:
            nvrtc.compileProgram(program, options)
            return nvrtc.getCUBIN(program)
        except nvrtc.NVRTCError:
            raise AssertionError(nvrtc.getProgramLog(program)) from None
        finally:
            nvrtc.destroyProgram(program)

    return _kept(source, options, build)


def elementwise_source(text: NetworkKernel | RegionKernel) -> str:
    """The source of an elementwise kernel."""
    parameters, names = [], []
    for p in f"{text.in_params}, {text.out_params}".split(", "):
        *raw, dtype, name = p.split()
        if raw:
            parameters.append(f"CArray<{TYPES[dtype]}, 1, 1, 1> {name}")
        elif isinstance(text, NetworkKernel):
            parameters.append(f"const {TYPES[dtype]} {name}")
        else:
            parameters.append(f"CArray<{TYPES[dtype]}, 1, 1, 1> _raw_{name}")
            const = "" if name == "y" else "const "
            names.append(f"{const}{TYPES[dtype]}& {name} = _raw_{name}[_ind.get()];")
    preamble = getattr(text, "preamble", "")
    halves = any("float16" in p for p in parameters)  # CuPy includes it for these alone
    return f"""
#include <cupy/complex.cuh>
#include <cupy/carray.cuh>
{"#include <cupy/float16.cuh>" if halves else ""}
{preamble}
extern "C" __global__ void {text.name}({", ".join(parameters)}, CIndexer<1, 1> _ind) {{
  {getattr(text, "loop_prep", "")};
  #pragma unroll 1
  CUPY_FOR(i, _ind.size()) {{
    _ind.set(i);
    {" ".join(names)}
    {text.operation};
  }}
}}"""


def reduction_source(text: Reduction) -> str:
    """The source of a reduction kernel's expressions, in a loop over one slice."""
    declared = [p.split() for p in text.in_params.split(", ")]
    parameters = ", ".join(f"const {TYPES[dtype]}* p_{name}" for dtype, name in declared)
    values = " ".join(f"const {TYPES[dtype]} {name} = p_{name}[i];" for dtype, name in declared)
    dtype, name = text.out_params.split()
    return f"""
#include <cupy/complex.cuh>
#include <cupy/carray.cuh>
#include <cupy/float16.cuh>
{text.preamble}
extern "C" __global__ void {text.name}({parameters}, {TYPES[dtype]}* p_out, int n) {{
  {text.reduce_type} s = {text.identity};
  int i = 0;
  for (; i < n; ++i) {{
    {values}
    const {text.reduce_type} a = s, b = {text.map_expr};
    s = {text.reduce_expr};
  }}
  i = 0;
  {values}
  const {text.reduce_type} a = s;
  {TYPES[dtype]}& {name} = *p_out;
  {text.post_expr};
}}"""
