"""Every public callable of some libraries with numbers of the slice, among thousands alike.

What takes a number of the slice and is not known must ask for it, or refuse: else the number of the
slice that was looked at stands for all, and only a rare slice shows it.
"""

from __future__ import annotations

import builtins
import datetime
import decimal
import fractions
import math
import operator
import random
import types

import numpy as np

from .alike import differ, outcome

MODULES = {
    "math": math,
    "operator": operator,
    "builtins": builtins,
    "datetime": datetime,
    "decimal": decimal,
    "fractions": fractions,
    "random": random,
    "np": np,
    "np.linalg": np.linalg,
    "np.fft": np.fft,
    "np.strings": np.strings,
    "np.lib.stride_tricks": np.lib.stride_tricks,
}
try:
    import torch
except ImportError:
    pass
else:
    MODULES["torch"] = torch

_SKIPPED = frozenset(
    "exit quit input breakpoint open print help license credits copyright compile exec eval memmap "
    "fromfile save savez savez_compressed savetxt load loadtxt genfromtxt fromregex tofile "
    "setbufsize seterr seterrcall set_printoptions show_config show_runtime info test "
    "get_include lookfor add_docstring add_newdoc add_newdoc_ufunc source who "
    "set_num_threads set_num_interop_threads manual_seed seed set_rng_state set_default_dtype "
    "set_default_device set_default_tensor_type set_grad_enabled set_deterministic_debug_mode "
    "set_float32_matmul_precision set_flush_denormal set_warn_always set_vital fork "
    "init_num_threads printoptions "
    "use_deterministic_algorithms set_autocast_cpu_dtype set_autocast_enabled set_autocast_dtype "
    "set_autocast_gpu_dtype set_autocast_cache_enabled set_autocast_cpu_enabled "
    "autocast_increment_nesting autocast_decrement_nesting clear_autocast_cache "
    "set_anomaly_enabled parse_schema import_ir_module import_ir_module_from_buffer "
    "initial_seed get_rng_state compile vmap cond while_loop thread_safe_generator "
    "setcontext localcontext id as_strided __import__ globals locals vars dir object super "
    "property classmethod staticmethod memoryview callable delattr setattr unsafe_load from_file "
    "hspmm _sync empty empty_like empty_strided empty_permuted empty_quantized ndarray Event "
    "Generator from_dlpack seek SystemRandom Random getstate setstate getrandbits randbytes "
    "typename resize_as_ resize_as_sparse_ unify_type_list wait get_device".split()
)
"""What writes, waits, draws, sets what belongs to the process, or gives memory as it was."""

_OF_SLICE = (
    "int(v[0])",
    "float(v[1])",
    "bool(v[2] > 0)",
    "v[0]",
    "v[1]",
    "int(v.argmax())",
    "len(v[v > 1])",
    "v.max()",
    "v",
    "[int(v[0]), 2]",
    "(int(v[0]), int(v[2] > 0))",
    "int(v[0]) + 1",
)
_OTHERS = (
    *(
        "1",
        "2",
        "0",
        "3.5",
        "True",
        "'D'",
        "'s'",
        "'float32'",
        "None",
        "(2, 3)",
        "[1, 2]",
        "'2000-01-01'",
    ),
    *("np.arange(4.0)", "-1", "'ab'", "[[1.0, 2.0], [0.5, 1.0]]", "int", "np.float32"),
)
_FURTHER = (
    "{}",
    "str({})",
    "[{}][0]",
    "np.asarray({})",
    "float({})",
    "({}, 1)",
    "np.sum({})",
    "{} + 1",
)

SLICES = 1500


def _callables() -> list[str]:
    found = []
    for path, module in MODULES.items():
        for name in sorted(vars(module)):
            x = getattr(module, name)
            if name.startswith("_") or name in _SKIPPED or isinstance(x, types.ModuleType):
                continue
            if name.endswith("_") or not callable(x):
                continue
            if path == "builtins" and isinstance(x, type) and issubclass(x, BaseException):
                continue
            if path == "torch" and isinstance(x, type):
                continue  # of memory as it was, of storage and of what runs C++ code
            found.append(f"{path}.{name}")
    return found


CALLABLES = _callables()


def _array(r: random.Random) -> np.ndarray:
    rng = np.random.default_rng(r.randrange(2**32))
    kind = r.choice(["float64", "float64", "int64", "float32"])
    rows = rng.integers(0, 4, (6, 4)).astype(kind)
    if kind != "int64" and r.random() < 0.5:
        rows += rng.integers(0, 4, rows.shape) / 4
    x = np.tile(rows[0], (SLICES, 1))
    x[rng.integers(100, SLICES, 5)] = rows[1:]
    return x


def program(r: random.Random, name: str = "") -> str:
    """A function that calls something with a number of the slice."""
    name = name or r.choice(CALLABLES)
    given = [r.choice(_OF_SLICE)] + [
        r.choice(_OF_SLICE + _OTHERS) for _ in range(r.choice([0, 0, 1, 1, 2]))
    ]
    if r.random() < 0.4:
        r.shuffle(given)
    call = f"{name}({', '.join(given)})"
    return f"lambda v: {r.choice(_FURTHER).format(call)}"


def case(r: random.Random) -> str | None:
    import xpapply

    source, x = program(r), _array(r)
    make = lambda: eval(source, {**MODULES, "__name__": "a_program"})  # noqa: E731
    try:
        alone = np.asarray(make()(x[0].copy()))
    except Exception:
        alone = None
    if alone is not None and (alone.size > 1000 or alone.dtype.hasobject or " at 0x" in str(alone)):
        return None  # of objects NumPy's loop says what they are; large results take long
    found = []
    for apply in (np.apply_along_axis, xpapply.apply_along_axis):
        random.seed(1)
        if "torch" in MODULES:
            torch.manual_seed(1)
        found.append(outcome(apply, make(), x.copy()))  # it may write into a slice
    want, got = found
    # in words exceptions may name what stands for a number
    if isinstance(want, str) and isinstance(got, str):
        want, got = want.partition(":")[0], got.partition(":")[0]
    if differ(want, got, True):
        return f"{source}\n{x.dtype}\nwant {want}\ngot  {got}"
    return None
