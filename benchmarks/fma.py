"""How many multiply-adds the processor makes: a loop of nothing else, compiled by llvmlite."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

from . import clocks

REGISTERS = 12
"""Independent sums: more than the processor has multiply-adds under way, fewer than registers."""
TURNS = 2_000_000
WIDTHS = {"avx512f": 64, "fma": 32, "neon": 16}
"""Bytes of a vector, by what a processor has; the widest comes first."""
DTYPES = {"float32": ctypes.c_float, "float64": ctypes.c_double}


def text(dtype: str, lanes: int) -> str:
    """A function of LLVM IR: `n` turns of the loop, and a number that needs all of it."""
    scalar = {"float32": "float", "float64": "double"}[dtype]
    vector = f"<{lanes} x {scalar}>"
    fma = f"@llvm.fma.v{lanes}f{8 * ctypes.sizeof(DTYPES[dtype])}"
    sums = range(REGISTERS)
    lines = [
        f"declare {vector} {fma}({vector}, {vector}, {vector})",
        f"define {scalar} @run(i64 %n, {scalar} %x) {{",
        "entry:",
        f"  %one = insertelement {vector} undef, {scalar} %x, i32 0",
        f"  %a = shufflevector {vector} %one, {vector} undef, <{lanes} x i32> zeroinitializer",
        "  br label %loop",
        "loop:",
        "  %k = phi i64 [0, %entry], [%next, %loop]",
        *(f"  %s{j} = phi {vector} [%a, %entry], [%t{j}, %loop]" for j in sums),
        *(f"  %t{j} = call {vector} {fma}({vector} %a, {vector} %a, {vector} %s{j})" for j in sums),
        "  %next = add i64 %k, 1",
        "  %more = icmp slt i64 %next, %n",
        "  br i1 %more, label %loop, label %end",
        "end:",
        f"  %u0 = fadd {vector} %t0, %t0",
        *(f"  %u{j} = fadd {vector} %u{j - 1}, %t{j}" for j in sums[1:]),
        f"  %y = extractelement {vector} %u{sums[-1]}, i32 0",
        f"  ret {scalar} %y",
        "}",
    ]
    return "\n".join(lines)


def peak(threads: int, dtype: str = "float32") -> float:
    """Operations per second of so many threads, two for a multiply-add, at best."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    features = binding.get_host_cpu_features()
    width = next((size for name, size in WIDTHS.items() if features.get(name)), 0)
    if not width:
        raise RuntimeError("the processor has no vectors of multiply-adds that are known here")
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=features.flatten(), opt=2
    )
    lanes = width // ctypes.sizeof(DTYPES[dtype])
    engine = binding.create_mcjit_compiler(binding.parse_assembly(text(dtype, lanes)), machine)
    engine.finalize_object()
    number = DTYPES[dtype]
    run = ctypes.CFUNCTYPE(number, ctypes.c_int64, number)(engine.get_function_address("run"))

    def together(pool: ThreadPoolExecutor) -> float:
        return clocks.seconds(lambda: list(pool.map(lambda _: run(TURNS, 0.5), range(threads))))

    with ThreadPoolExecutor(threads) as pool:
        best = min(together(pool) for _ in range(15))
    return 2 * lanes * REGISTERS * TURNS * threads / best
