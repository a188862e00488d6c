"""torch's own operations (``aten``), as `torch.nn.functional` names and orders their arguments.

Scripted, traced and exported modules call these, not the functions that a person writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

WORDS: dict[str, Callable[..., Any]] = {
    "slice": lambda x, *rest: _sliced(x, *rest),
    "select": lambda x, dim, index: x[(*(slice(None),) * (dim % x.ndim), index)],
    "contiguous": lambda x, *_: x,
    "detach": lambda x: x,
    "alias": lambda x: x,
    "dim": lambda x: x.ndim,
    "size": lambda x, *dim: x.shape[dim[0]] if dim else list(x.shape),
    "len": len,
    "__getitem__": lambda x, key: x[key],
    "__is__": lambda x, y: x is y,
    "__isnot__": lambda x, y: x is not y,
    "__not__": lambda x: not x,
    "__contains__": lambda x, y: y in x,
    "format": lambda text, *values: text.format(*values),
    "warn": lambda *_: None,
    "Bool": bool,
    "Int": int,
    "Float": float,
}
"""Operations that Python has words for."""
_HOW = frozenset(("cudnn_enabled", "cudnn_enable", "memory_format", "non_blocking"))
"""Arguments without influence on the result."""
_BY_NAME = frozenset(("batch_norm", "layer_norm", "linear", "std", "var", "argmax", "argmin"))
"""Functions whose arguments have another order in `torch.nn.functional`."""
_KEYWORDS = {"gelu": "approximate", "add": "alpha", "sub": "alpha", "add_": "alpha"}


def arranged(
    name: str, names: Sequence[str], args: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of an operation, for the function of that name.

    Parameters
    ----------
    name : str
        Of the operation.
    names : sequence of str
        Of its arguments.
    args : sequence
        As many values or fewer.

    Examples
    --------
    >>> names = "input weight bias running_mean running_var training momentum eps cudnn_enabled"
    >>> arranged("batch_norm", names.split(), ("x", "w", "b", "m", "v", False, 0.1, 1e-5, True))[1]
    {'weight': 'w', 'bias': 'b', 'running_mean': 'm', 'running_var': 'v', ...}
    """
    given = [(n, x) for n, x in zip(names, args, strict=False) if n not in _HOW]
    while given and given[-1][1] is None:  # as if it was not given
        given.pop()
    keyword = _KEYWORDS.get(name)
    first, others = given[:1], given[1:]
    if name in _BY_NAME:
        return tuple(x for _, x in first), dict(others)
    named = {n: x for n, x in others if n == keyword and not (n == "alpha" and x == 1)}
    return tuple(x for n, x in given if n != keyword), named


def _sliced(x: Any, *rest: Any) -> Any:
    if isinstance(x, list):
        return x[slice(*rest)]
    defaults: tuple[Any, ...] = (0, None, None, 1)
    dim, start, stop, step = (*rest, *defaults[len(rest) :])
    stop = None if stop is not None and stop > 2**62 else stop
    return x[(*(slice(None),) * (dim % x.ndim), slice(start, stop, step))]
