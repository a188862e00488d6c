"""Messages for forwards that do not return one tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ...errors import InputError


def described(x: Any) -> tuple[str, str]:
    """A description, as "2 outputs: (3,) and (2,)", and code to take one tensor."""
    if isinstance(x, (tuple, list)) and x:
        return f"{len(x)} outputs: {' and '.join(map(_shown, x))}", "net(x)[0]"
    if isinstance(x, dict) and x:
        shown = ", ".join(f"{k!r}: {_shown(y)}" for k, y in x.items())
        return f"{type(x).__name__} of {shown}", f"net(x)[{next(iter(x))!r}]"
    held = _attributes(x)
    if not held:
        return f"{type(x).__name__}, not a tensor", "one tensor"
    shown = ", ".join(f".{k}: {_shown(y)}" for k, y in held.items())
    return f"{type(x).__name__} of {shown}", f"net(x).{next(iter(held))}"


def _attributes(x: Any) -> dict[str, Any]:
    """The tensors that an object has as attributes."""
    return {k: y for k, y in getattr(x, "__dict__", {}).items() if hasattr(y, "shape")}


def not_one_array(x: Any) -> str:
    """The message for a network that is `f` itself."""
    what, taken = described(x)
    text = (
        f"forward returns {what}; f must return one array: "
        f"pass a module whose forward returns {taken}"
    )
    leaves = tree_leaves(x if isinstance(x, (tuple, list, dict)) else _attributes(x))
    tensors = [t for t in leaves if isinstance(t, torch.Tensor)]
    if len(tensors) < 2:
        return text
    results = ",".join(_core(k, t) for k, t in enumerate(tensors))
    return f'{text}, or take all with xpapply.vectorize(net, signature="(n)->{results}")'


def _core(k: int, t: torch.Tensor) -> str:
    """Names for the dims of one result in a signature."""
    return (
        "(" + ",".join(f"{chr(97 + k % 26)}{d if t.ndim > 1 else ''}" for d in range(t.ndim)) + ")"
    )


def one_array(x: Any, *, any_object: bool) -> Any:
    """Forward's result, if the loop can make one array of it."""
    if _shape(x, any_object=any_object) is None:
        raise InputError(not_one_array(x))
    return x


def _shape(x: Any, *, any_object: bool) -> tuple[int, ...] | None:
    """Shape of (nested) outputs as one array; None where they are none."""
    if isinstance(x, (tuple, list)):
        shapes = {_shape(y, any_object=any_object) for y in x}
        if len(shapes) > 1 or None in shapes:
            return None
        return (len(x), *(shapes.pop() or () if shapes else ()))
    if isinstance(x, (int, float, complex)) or hasattr(x, "shape"):
        return tuple(getattr(x, "shape", ()))
    holds = [*x.values()] if isinstance(x, dict) else getattr(x, "__dict__", {}).values()
    if any(hasattr(y, "shape") for y in holds):
        return None  # of tensors, which would be lost in there
    return () if any_object else None  # objects are elements of NumPy's arrays


def _shown(x: Any) -> str:
    return str(tuple(x.shape)) if hasattr(x, "shape") else f"a {type(x).__name__}"
