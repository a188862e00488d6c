"""The proxy of a tensor: of known shape and dtype, it writes down what torch does with it.

torch hands every function that is called on an object with
``__torch_function__`` to that object: ``F.linear(x, w, b)``, ``x.relu()``,
``torch.cat([x, y])``. What each of them means for the graph is in `functions.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from ....errors import TraceError, located
from ....ir.builder import Builder, Value
from ..autocast import REFUSED, autocast_dtypes
from ..outputs import not_one_array
from . import aten

_IR_DTYPES = {
    torch.float16: "float32",  # computed in float32, rounded once at the end
    torch.bfloat16: "float32",
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bool: "bool",
}


Find = Callable[[str], Callable[..., Any] | None]
"""``find(name)(recorder, *args, **kwargs)``: what a function of torch means for the graph."""


class Recorder:
    """Turns tensors into constants and proxies into values, and keeps the graph."""

    def __init__(
        self, builder: Builder, find: Find, layers: Mapping[int, Any] | None = None
    ) -> None:
        self.builder, self.find, self._layers = builder, find, layers or {}
        self._arrays: dict[tuple[int, torch.dtype], np.ndarray] = {}
        self.sources: list[torch.Tensor] = []

    def layer(self, weight: Any, otherwise: str) -> Any:
        """The layer of a weight, as errors show it: its ``str``."""
        return self._layers.get(id(weight), otherwise)

    def is_slice(self, x: Proxy) -> bool:
        """Whether a stand-in is the slice itself, or its numbers in another shape or dtype."""
        nodes, at = self.builder.nodes, x.value.index
        while nodes[at].op in ("cast", "reshape"):
            (at,) = nodes[at].args
        return nodes[at].op == "input"

    def cast(self, x: Value, dtype: torch.dtype) -> Value:
        """`x` in the dtype that graphs compute `dtype` in."""
        try:
            name = _IR_DTYPES[dtype]
        except KeyError:
            raise TraceError(located(f"{dtype} values inside a network")) from None
        return x if x.aval.dtype == name else self.builder.op("cast", x, dtype=name)

    def number(self, x: float, dtype: torch.dtype) -> Value:
        """A number beside values of `dtype`."""
        if dtype == torch.int64:
            return self.builder.scalar(x, "int64")
        if dtype not in _IR_DTYPES:
            raise TraceError(located(f"{dtype} values inside a network"))
        return self.builder.scalar(x, _IR_DTYPES[dtype])

    def round(self, x: Value, dtype: torch.dtype) -> Value:
        """The result in its own dtype."""
        name = str(dtype).partition(".")[2]
        return x if x.aval.dtype == name else self.builder.op("cast", x, dtype=name)

    def value(self, x: Any, dtype: torch.dtype | None = None) -> Value:
        """A stand-in's value, or a tensor as a constant, in `dtype` (or its own)."""
        if isinstance(x, Proxy):
            return x.value if dtype is None else self.cast(x.value, dtype)
        if not isinstance(x, torch.Tensor):
            x = torch.as_tensor(x, dtype=dtype)
        dtype = dtype or x.dtype
        if dtype not in _IR_DTYPES:
            raise TraceError(located(f"a constant of {x.dtype}"))
        array = self._arrays.get((id(x), dtype))
        if array is None:
            wide = x.detach().to(dtype).to(getattr(torch, _IR_DTYPES[dtype]))
            array = self._arrays[id(x), dtype] = wide.cpu().numpy().copy()
            self.sources.append(x)  # kept alive, so no id is used again
        return self.builder.const(array)

    def result(self, x: Any) -> tuple[Value, torch.dtype]:
        """The value of forward's result."""
        if isinstance(x, (tuple, list)) and x:
            dtypes = {y.dtype for y in x if isinstance(y, (Proxy, torch.Tensor))}
            if torch.int64 in dtypes and len(dtypes) > 1:  # NumPy and torch promote differently
                raise TraceError("forward returns indices beside other values")
            if len({getattr(y, "shape", None) for y in x}) > 1:
                raise TraceError(not_one_array(x))
            x = torch.stack(list(x)) if any(isinstance(y, Proxy) for y in x) else x
        if isinstance(x, Proxy):
            return x.value, x.dtype
        if isinstance(x, torch.Tensor):
            return self.value(x), x.dtype
        raise TraceError(not_one_array(x))


class Proxy:
    """A tensor of known shape and dtype whose numbers are not known."""

    __hash__ = object.__hash__

    def __init__(self, recorder: Recorder, value: Value, dtype: torch.dtype, device: Any) -> None:
        self.recorder = recorder
        self.value = value
        self.dtype = dtype
        self.device = device
        self.viewed = False  # another stand-in may share its memory: no in-place writes

    @property
    def shape(self) -> torch.Size:
        return torch.Size(self.value.shape)

    @property
    def ndim(self) -> int:
        return len(self.value.shape)

    @property
    def T(self) -> Proxy:
        return self.permute(*range(self.ndim - 1, -1, -1))

    mT = property(lambda self: self.transpose(-1, -2))
    requires_grad = False
    is_cuda = property(lambda self: self.device.type == "cuda")
    is_nested = is_sparse = is_quantized = is_mkldnn = is_complex = False
    data = property(lambda self: self)

    @classmethod
    def __torch_function__(
        cls, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, torch._ops.OpOverload):
            return _operation(func, args, kwargs)
        if func is torch.Tensor.where:
            return _where(*args, **kwargs)
        return call(first_proxy((args, tuple(kwargs.values()))), func.__name__, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not callable(getattr(torch.Tensor, name, None)):
            raise AttributeError(name)
        return lambda *args, **kwargs: call(self, name, (self, *args), kwargs)

    def where(self, condition: Any, other: Any) -> Any:
        """``x.where(c, y)`` is ``torch.where(c, x, y)``."""
        return _where(self, condition, other)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Any:
        return iter([call(self, "getitem", (self, i), {}) for i in range(len(self))])


def _operation(func: torch._ops.OpOverload, args: tuple, kwargs: dict) -> Any:
    """Apply one of torch's operations as exported programs name them."""
    name = func._schema.name.partition("::")[2]
    names = [a.name for a in func._schema.arguments]
    values = [*args, *(kwargs.pop(n, None) for n in names[len(args) :])]
    if name in aten.WORDS:
        return aten.WORDS[name](*values[: len(args)])
    positional, by_name = aten.arranged(name, names, values)
    return call(first_proxy((args, tuple(kwargs.values()))), name, positional, by_name)


def _where(self: Any, condition: Any, other: Any) -> Any:
    return call(first_proxy((self, condition, other)), "where", (condition, self, other), {})


def first_proxy(items: Any) -> Any:
    """The first stand-in among (nested) arguments."""
    for x in items:
        found = first_proxy(x) if isinstance(x, (tuple, list)) else x
        if isinstance(found, Proxy):
            return found
    return None


def refuse(name: str) -> Callable[..., Any]:
    """A method that would have to know the numbers."""

    def method(self: Proxy, *args: Any, **kwargs: Any) -> Any:
        raise TraceError(
            located(
                f"{name} needs the numbers of the slice: a branch or a value that depends on data"
            )
        )

    return method


def _emit(name: str, *, reflected: bool = False) -> Callable[..., Any]:
    def method(self: Proxy, *args: Any) -> Any:
        return call(self, name, (*args, self) if reflected else (self, *args), {})

    return method


# Every operator of a tensor emits a node or raises: with no __eq__, `x == 0` would be False.
for _name in ("add", "sub", "mul", "truediv", "pow", "matmul", "and", "or", "xor"):
    setattr(Proxy, f"__{_name}__", _emit(_name))
    setattr(Proxy, f"__r{_name}__", _emit(_name, reflected=True))
    setattr(Proxy, f"__i{_name}__", _emit(f"{_name}_"))
for _name in ("floordiv", "mod", "lshift", "rshift", "divmod"):
    for _form in ("__{}__", "__r{}__", "__i{}__"):
        setattr(Proxy, _form.format(_name), refuse(_name))
for _name in ("neg", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge", "getitem"):
    setattr(Proxy, f"__{_name}__", _emit(_name))
for _name in ("bool", "int", "float", "complex", "index", "array", "setitem", "contains", "round"):
    setattr(Proxy, f"__{_name}__", refuse(f"__{_name}__"))
for _name in (
    "item",
    "tolist",
    "numpy",
    "nonzero",
    "unique",
    "__dlpack__",
    "__cuda_array_interface__",
    "__reversed__",
    "__delitem__",
    "__reduce_ex__",
    "__reduce__",
    "__getstate__",
):
    setattr(Proxy, _name, refuse(_name))


_PLAIN = {
    "__getitem__": "getitem",
    "iadd": "add_",
    "concatenate": "cat",
    "concat": "cat",
    "and": "logical_and",
    "or": "logical_or",
    "invert": "logical_not",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_not": "logical_not",
}


def call(x: Proxy, name: str, args: tuple, kwargs: dict) -> Any:
    """Apply the rule of ``torch.<name>(*args, **kwargs)``."""
    if autocast_dtypes():
        raise TraceError(located(REFUSED))
    name = name.strip("_") if name.startswith("__") else name
    in_place = name.endswith("_") or kwargs.pop("inplace", False)
    name = name.rstrip("_")
    if len(name) > 1 and name[0] in "ri" and name[1:] in ("add", "sub", "mul", "truediv"):
        in_place, args = name[0] == "i", args if name[0] == "i" else args[::-1]
        name = name[1:]
    name = _PLAIN.get(name, name)
    if kwargs.get("out") is not None:
        raise TraceError(located(f"{name}(out=...)"))
    rule = x.recorder.find(name)
    if rule is None:
        raise TraceError(located(f"torch's {name} has no row in the table"))
    try:
        bound = inspect.signature(rule).bind(x.recorder, *args, **kwargs)
    except TypeError as error:
        raise TraceError(located(f"{name}: {error}")) from None
    try:
        result = rule(*bound.args, **bound.kwargs)
    except TraceError as error:
        if "(" in str(error) and ".py:" in str(error):
            raise
        raise TraceError(located(str(error))) from None
    if in_place:
        target = args[0]
        if not isinstance(target, Proxy) or target.viewed or result.shape != target.shape:
            raise TraceError(located(f"{name}_ writes into memory that is shared"))
        target.value, target.dtype = target.recorder.cast(result.value, target.dtype), target.dtype
        return target
    return result
