"""Advice: the second half of a reason why a Python function runs in the loop."""

from __future__ import annotations

import linecache
import re
from types import CodeType
from typing import Any

from ...errors import DRAWS, code_of, line_of
from ...limits import LIMITS

_PLACE = r"\(([^():]+\.\w+|<[^()]*>):(\d+)\)"


def completed(why: str, f: Any) -> str:
    """A reason with the line of `f`, what is written there, and what to write instead."""
    home, instead = line_of(f), f"; {_instead(why)}"
    if why.endswith(instead):
        return why
    if not re.search(_PLACE, why) and home:
        why = f"{why} ({home})"
    return f"{_quoted(why, f)}{instead}"


def _quoted(why: str, f: Any) -> str:
    """A reason with what is written in the line that it names, if that is in the file of `f`."""
    code = code_of(f)
    found = re.search(_PLACE, why)
    if code is None or found is None:
        return why
    file, line = found.groups()
    if code.co_filename.replace("\\", "/").rpartition("/")[2] != file:
        return why
    text = " ".join(_written(code, int(line)).split())
    if not text:
        return why
    if len(text) > LIMITS.quoted_line:
        text = text[: LIMITS.quoted_line - 3] + "..."
    return f"{why[: found.end() - 1]}: {text}{why[found.end() - 1 :]}"


def _written(code: CodeType, line: int) -> str:
    """The source of a line; of a lambda only its own part."""
    text = linecache.getline(code.co_filename, line)
    if code.co_name != "<lambda>":
        return text
    places = [p[2:] for p in code.co_positions() if p[0] == p[1] == line]
    own = [(a, b) for a, b in places if a is not None and b]
    if not own:
        return text
    return text.encode()[min(a for a, _ in own) : max(b for _, b in own)].decode(errors="ignore")


def _instead(why: str) -> str:
    return next(way for kinds, way in _WAYS_OUT if any(_says(why, k) for k in kinds.split("|")))


def _says(why: str, kind: str) -> bool:
    """Whether a reason has some words. To compile patterns would take longer than to plan."""
    at = 0
    for words in kind.split("*"):
        at = why.find(words, at)
        if at < 0:
            return False
        at += len(words)
    return True


_WAYS_OUT = (
    (DRAWS, "draw for the whole array before the call"),
    (
        "writes the global|writes the variable|changes a list|changes a dict|changes a set|"
        "changes *, which|calls append",
        "return the value, and use the array of results",
    ),
    ("deletes the|sets the attribute|writes to attributes", "return the value instead"),
    ("writes into the|writes into an", "write into a copy, v = v.copy()"),
    ("imports * for the first time", "write the import above f"),
    ("is a generator or coroutine", "write a plain function that returns its result"),
    ("the hash of", "use np.unique instead of a dict or set of numbers"),
    (
        "str() of|repr() of|format() of|the text of|cast to text|cast to dates|of dtype text|"
        "of dtype object",
        "return numbers, and write texts and dates of the results",
    ),
    ("int() of|float() of|complex() of|bytes() of", "write it with functions of NumPy for arrays"),
    (
        "size depends on the slice",
        "use one size for all slices, and a mask for what counts",
    ),
    (
        "interpolate.griddata",
        "between fixed points, by 'linear' and 'nearest', it is a product: write "
        "weights = griddata(points, np.eye(len(points)), xi) before, and weights @ v in f",
    ),
    (
        "integrate.odeint",
        "use solve_ivp with method='BDF', or 'RK45' if it is not stiff, which are compiled, or "
        "xpapply.options(workers=...)",
    ),
    (
        "optimize.differential_evolution|optimize.dual_annealing|optimize.basinhopping|"
        "optimize.shgo|optimize.direct|optimize.brute",
        "use minimize with method='Nelder-Mead' from several places, which is compiled, or "
        "xpapply.options(workers=...)",
    ),
    (
        "optimize.linprog|optimize.milp",
        "write a formula for the corner that is best, or use xpapply.options(workers=...)",
    ),
    (
        "again and again",
        "write a formula, or use xpapply.options(workers=...)",
    ),
    (
        "values that a mask leaves",
        "use what is known of the values of a mask, such as np.mean, np.interp or linregress",
    ),
    (
        "too many ways|raise for some|raises for some|many of its slices raise",
        "use np.where or a mask instead of a branch for each slice",
    ),
    (
        r"for each slice that was tried it raises",
        "write a test that keeps f from raising",
    ),
    ("in training mode", "write net.eval() before the call"),
    ("has to be compiled", 'use xpapply.options(engine="cpu") to see why it is not'),
    ("no graph for", "use arithmetic, sums and where, or arrays of NumPy, CuPy or torch"),
    ("of a tensor", "use functions of torch"),
    ("autograd records", "write it under with torch.no_grad():"),
    ("returns NoneType", "return a number, an array or a list of numbers (is a return missing?)"),
    (
        "returns dict|made of a dict",
        "use vectorize(f, signature='(n)->(),()') of xpapply, which gives a dict of arrays",
    ),
    (
        "it returns|an array is made of a|an array of text|an array of dates|an array of times|"
        "an array of objects",
        "return a number, an array or a list of numbers",
    ),
    (
        "a method that takes samples",
        "pass it rows, as in lambda v: estimator.transform(v[None])[0]",
    ),
    (
        "real, of others complex|different shapes or dtypes|number of roots",
        "return results of one shape and dtype, or use xpapply.options(workers=...)",
    ),
    ("values of its own", "use one dtype in f, and nothing that changes from call to call"),
    (
        "which xpapply does not know|which writes to something outside|it uses __|makes a class|"
        "the memory of|the slice is pickled",
        "leave it out of f, or use functions of NumPy for arrays",
    ),
    ("", "use another function of NumPy or SciPy, or xpapply.options(workers=...)"),
)
"""Kinds of reasons, and what to do; the first that is found counts. "*" is any text."""
