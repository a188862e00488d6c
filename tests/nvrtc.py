"""Compile kernel texts for real architectures with NVRTC, without a GPU.

The frame around each text is the one that CuPy puts there.
"""

from __future__ import annotations

from xpapply.codegen.cxx import TYPES
from xpapply.codegen.elementwise import RegionKernel
from xpapply.codegen.reduction import Reduction
from xpapply.codegen.scalar_network import NetworkKernel

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100")


def compile_source(source: str, architecture: str) -> bytes:
    """Machine code of a CUDA source."""
    from cupy._core.core import assemble_cupy_compiler_options
    from cupy.cuda import compiler

    options = assemble_cupy_compiler_options((f"-arch={architecture}", "-DCUPY_USE_JITIFY=0"))
    program = compiler._NVRTCProgram(source, "kernel.cu", method="cubin")
    built = program.compile(options)
    return built[0] if isinstance(built, tuple) else built


def compile_plain(source: str, architecture: str) -> bytes:
    """Machine code of a source that stands alone, with the options of the CuPy backend."""
    from cupy.cuda import nvrtc

    from xpapply.backends.cupy import compiler

    program = nvrtc.createProgram(source, "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, (f"-arch={architecture}", *compiler._OPTIONS))
        return nvrtc.getCUBIN(program)
    except nvrtc.NVRTCError:
        raise AssertionError(nvrtc.getProgramLog(program)) from None
    finally:
        nvrtc.destroyProgram(program)


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
    return f"""
#include <cupy/complex.cuh>
#include <cupy/carray.cuh>
#include <cupy/float16.cuh>
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
