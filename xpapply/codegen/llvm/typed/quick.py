"""Functions of the C library that are seldom called: what they give is computed to more bits.

Where that lies so far from the middle between two floats that whoever is off by less than glibc's
functions are rounds it as it is rounded here, it is their result. For other arguments they are
called. Nothing here notes more than that numbers are inexact.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.typed import Instruction, Literal
from . import exponentials, powers, sines
from .doubles import Double, fmod
from .function import FunctionWriter

Found = tuple[Double, Double]
"""A result, and whether it is the one that the function gives."""
_FUNCTIONS: dict[str, Callable[[FunctionWriter, Double], Found]] = {
    "exp": exponentials.exp, "log": exponentials.log, "sin": sines.sin, "cos": sines.cos,
}  # fmt: skip


def quick(w: FunctionWriter, x: Instruction) -> tuple[str, str] | None:
    """What a call gives, and whether that is so; None: the function is to be called."""
    name = w.made.externals[x.what][1]
    if not w.near_libm or x.result is None or x.result.type != "float64":
        return None
    if name == "pow" and isinstance(x.args[1], Literal):
        write = powers.WITH.get(float(x.args[1].value))
    else:
        write = _FUNCTIONS.get(name)
    if name == "fmod":
        high, is_known = fmod(*(Double(w, w.operand(a, 1.0)) for a in x.args))
        return high.text, is_known.text
    if write is None or (name != "pow" and not w.on_vectors):  # one takes no longer there
        return None
    given = Double(w, w.operand(x.args[0], 1.0))
    high, is_known = write(w, given)
    return high.text, is_known.text
