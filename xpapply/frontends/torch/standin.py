"""The stand-in tensor, and what each torch function that meets it writes down.

torch hands every function that is called on an object with
``__torch_function__`` to that object: ``F.linear(x, w, b)``, ``x.relu()``,
``torch.cat([x, y])``. Functions whose op is a row of the table need nothing
here; the others have a few lines below.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ...errors import InputError, TraceError, located
from ...ir.graph import Builder, Value
from ...ir.ops import OPS, Kind
from ...ir.rewrite import MATVEC
from . import aten
from .outputs import not_one_array

_IR_DTYPES = {
    torch.float16: "float32",  # computed in float32, rounded once at the end
    torch.bfloat16: "float32",
    torch.float32: "float32",
    torch.float64: "float64",
    torch.bool: "bool",
}


class Recorder:
    """Turns tensors into constants and stand-ins into values, and keeps the graph."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._arrays: dict[tuple[int, torch.dtype], np.ndarray] = {}
        self.sources: list[torch.Tensor] = []

    def cast(self, x: Value, dtype: torch.dtype) -> Value:
        """`x` in the dtype that graphs compute `dtype` in."""
        try:
            name = _IR_DTYPES[dtype]
        except KeyError:
            raise TraceError(located(f"{dtype} values inside a network")) from None
        return x if x.dtype == name else self.builder.op("cast", x, dtype=name)

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
        return x if x.dtype == name else self.builder.op("cast", x, dtype=name)

    def value(self, x: Any, dtype: torch.dtype | None = None) -> Value:
        """A stand-in's value, or a tensor as a constant, in `dtype` (or its own)."""
        if isinstance(x, StandIn):
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
        """What forward returned."""
        if isinstance(x, (tuple, list)) and x:
            dtypes = {y.dtype for y in x if isinstance(y, (StandIn, torch.Tensor))}
            if torch.int64 in dtypes and len(dtypes) > 1:  # NumPy and torch promote differently
                raise TraceError("forward returns indices beside other values")
            if len({getattr(y, "shape", None) for y in x}) > 1:
                raise TraceError(not_one_array(x))
            x = torch.stack(list(x)) if any(isinstance(y, StandIn) for y in x) else x
        if isinstance(x, StandIn):
            return x.value, x.dtype
        if isinstance(x, torch.Tensor):
            return self.value(x), x.dtype
        raise TraceError(not_one_array(x))


class StandIn:
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
    def T(self) -> StandIn:
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
        return _call(_first((args, tuple(kwargs.values()))), func.__name__, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not callable(getattr(torch.Tensor, name, None)):
            raise AttributeError(name)
        return lambda *args, **kwargs: _call(self, name, (self, *args), kwargs)

    def where(self, condition: Any, other: Any) -> Any:
        """``x.where(c, y)`` is ``torch.where(c, x, y)``."""
        return _where(self, condition, other)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Any:
        return iter([_getitem(self.recorder, self, i) for i in range(len(self))])


def _operation(func: torch._ops.OpOverload, args: tuple, kwargs: dict) -> Any:
    """One of torch's own operations, as exported programs call them."""
    name = func._schema.name.partition("::")[2]
    names = [a.name for a in func._schema.arguments]
    values = [*args, *(kwargs.pop(n, None) for n in names[len(args) :])]
    if name in aten.WORDS:
        return aten.WORDS[name](*values[: len(args)])
    positional, by_name = aten.arranged(name, names, values)
    return _call(_first((args, tuple(kwargs.values()))), name, positional, by_name)


def _where(self: Any, condition: Any, other: Any) -> Any:
    return _call(_first((self, condition, other)), "where", (condition, self, other), {})


def _first(items: Any) -> Any:
    """The first stand-in among (nested) arguments."""
    for x in items:
        found = _first(x) if isinstance(x, (tuple, list)) else x
        if isinstance(found, StandIn):
            return found
    return None


def _refuse(name: str) -> Callable[..., Any]:
    def method(self: StandIn, *args: Any, **kwargs: Any) -> Any:
        raise TraceError(
            located(
                f"{name} needs the numbers of the slice: a branch or a value that depends on data"
            )
        )

    return method


def _emit(name: str, *, reflected: bool = False) -> Callable[..., Any]:
    def method(self: StandIn, *args: Any) -> Any:
        return _call(self, name, (*args, self) if reflected else (self, *args), {})

    return method


# Every operator of a tensor emits a node or raises: with no __eq__, `x == 0` would be False.
for _name in ("add", "sub", "mul", "truediv", "pow", "matmul", "and", "or", "xor"):
    setattr(StandIn, f"__{_name}__", _emit(_name))
    setattr(StandIn, f"__r{_name}__", _emit(_name, reflected=True))
    setattr(StandIn, f"__i{_name}__", _emit(f"{_name}_"))
for _name in ("floordiv", "mod", "lshift", "rshift", "divmod"):
    for _form in ("__{}__", "__r{}__", "__i{}__"):
        setattr(StandIn, _form.format(_name), _refuse(_name))
for _name in ("neg", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge", "getitem"):
    setattr(StandIn, f"__{_name}__", _emit(_name))
for _name in ("bool", "int", "float", "complex", "index", "array", "setitem", "contains", "round"):
    setattr(StandIn, f"__{_name}__", _refuse(f"__{_name}__"))
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
    setattr(StandIn, _name, _refuse(_name))


_PLAIN = {
    "__getitem__": "getitem",
    "iadd": "add_",
    "multiply": "mul",
    "true_divide": "div",
    "truediv": "div",
    "divide": "div",
    "subtract": "sub",
    "concatenate": "cat",
    "concat": "cat",
    "and": "logical_and",
    "or": "logical_or",
    "invert": "logical_not",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_not": "logical_not",
}


def _call(x: StandIn, name: str, args: tuple, kwargs: dict) -> Any:
    """What ``torch.<name>(*args, **kwargs)`` means for the graph."""
    name = name.strip("_") if name.startswith("__") else name
    in_place = name.endswith("_") or kwargs.pop("inplace", False)
    name = name.rstrip("_")
    if len(name) > 1 and name[0] in "ri" and name[1:] in ("add", "sub", "mul", "truediv"):
        in_place, args = name[0] == "i", args if name[0] == "i" else args[::-1]
        name = name[1:]
    name = _PLAIN.get(name, name)
    if kwargs.get("out") is not None:
        raise TraceError(located(f"{name}(out=...)"))
    rule = _RULES.get(name) or _rows().get(name)
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
        if not isinstance(target, StandIn) or target.viewed or result.shape != target.shape:
            raise TraceError(located(f"{name}_ writes into memory that is shared"))
        target.value, target.dtype = target.recorder.cast(result.value, target.dtype), target.dtype
        return target
    return result


def _like(r: Recorder, value: Value, dtype: torch.dtype, device: Any = None) -> StandIn:
    return StandIn(r, value, dtype, device or torch.device("cpu"))


def _view(r: Recorder, x: StandIn, value: Value) -> StandIn:
    """A stand-in that may share memory with `x`."""
    result = StandIn(r, value, x.dtype, x.device)
    x.viewed = result.viewed = True
    return result


def _meta(x: Any) -> Any:
    """`x` for torch's own promotion rules."""
    if isinstance(x, StandIn):
        return torch.empty(x.shape, dtype=x.dtype, device="meta")
    if isinstance(x, torch.Tensor):
        return torch.empty(x.shape, dtype=x.dtype, device="meta")
    return x


def _promoted(*operands: Any) -> torch.dtype:
    """torch's own promotion, which looks at the number of dims too."""
    metas = [_meta(x) for x in operands]
    first: Any = metas[0]
    if not any(isinstance(x, torch.Tensor) for x in metas):  # where(condition, 1.0, 2.0)
        whole = all(isinstance(x, (bool, int)) for x in metas)
        return torch.int64 if whole else torch.get_default_dtype()
    for other in metas[1:]:
        shapes = [getattr(x, "shape", ()) for x in (first, other)]
        shape = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
        first = torch.empty(shape, dtype=torch.result_type(first, other), device="meta")
    return first.dtype  # type: ignore[no-any-return]


def _joined(tensors: Sequence[Any]) -> torch.dtype:
    """The dtype of tensors put together."""
    return functools.reduce(torch.promote_types, (t.dtype for t in tensors))


def _elementwise(name: str) -> Callable[..., StandIn]:
    """A row of the table as a torch function of tensors."""

    def rule(r: Recorder, *operands: Any) -> StandIn:
        chosen = operands[1:] if name == "where" else operands
        dtype = _promoted(*chosen)
        if not dtype.is_floating_point and OPS[name].result != "bool":
            raise TraceError(f"{name} of {dtype} values inside a network")
        values: list[Any] = []
        for i, x in enumerate(operands):
            if isinstance(x, (bool, int, float)):
                values.append(r.number(x, dtype))
            elif isinstance(x, StandIn) and x.dtype == torch.int64 == dtype:
                values.append(x.value)  # positions are compared with each other
            else:
                condition = name == "where" and i == 0
                values.append(r.value(x, torch.bool if condition else dtype))
        result = r.builder.op(name, *values)
        return _like(
            r, result, torch.bool if OPS[name].result == "bool" else dtype, _device(operands)
        )

    return rule


def _device(operands: Sequence[Any]) -> Any:
    return next(x.device for x in operands if isinstance(x, StandIn))


def _composite(name: str) -> Callable[..., StandIn]:
    """A composite row as a torch function: same arguments, same defaults."""
    define = OPS[name].define
    assert define is not None
    parameters = list(inspect.signature(define).parameters.values())

    def rule(r: Recorder, input: Any, *args: Any, **kwargs: Any) -> StandIn:
        attrs = dict(zip([p.name for p in parameters[1:]], args, strict=False)) | kwargs
        tensors = {k: v for k, v in attrs.items() if isinstance(v, (torch.Tensor, StandIn))}
        operands = [input, *tensors.values()]
        values = [r.value(x, input.dtype) for x in operands]
        rest = {k: v for k, v in attrs.items() if k not in tensors}
        unknown = set(rest) - {p.name for p in parameters}
        if unknown:
            raise TraceError(f"{name} with {', '.join(sorted(unknown))}")
        return _like(r, r.builder.op(name, *values, **rest), input.dtype, input.device)

    return rule


def _rows() -> dict[str, Callable[..., StandIn]]:
    """The rows of the table that are torch functions as they stand."""
    return _rows_of(len(OPS))  # one may have come


@functools.cache
def _rows_of(_: int) -> dict[str, Callable[..., StandIn]]:
    found: dict[str, Callable[..., StandIn]] = {}
    for row in OPS.values():
        if row.kind is Kind.ELEMENTWISE and row.name != "cast":
            rule = _elementwise(row.name)
        elif row.kind is Kind.COMPOSITE and row.name not in _RULES:
            rule = _composite(row.name)
        else:
            continue
        found |= dict.fromkeys((row.name, *row.torch), rule)
    return found


# --- functions that need more than a row ---------------------------------------------


def _linear(r: Recorder, input: StandIn, weight: Any, bias: Any = None) -> StandIn:
    if type(weight) is StandIn or not isinstance(weight, torch.Tensor):
        raise TraceError("linear with weights that depend on the slice")
    if input.dtype != weight.dtype:
        raise TraceError(f"linear of {input.dtype} values with {weight.dtype} weights")
    m = input.shape[-1] if input.shape else 0
    if m != weight.shape[-1]:
        raise InputError(
            f"a Linear layer takes {weight.shape[-1]} features, its input has {m} "
            f"(shape {tuple(input.shape)}). Is `axis` the feature axis?"
        )
    batch = "abcdefgh"[: input.ndim - 1]
    out = batch + ("n" if weight.ndim == 2 else "")
    subscripts = f"{'n' if weight.ndim == 2 else ''}m,{batch}m->{out}"
    assert batch or weight.ndim == 1 or subscripts == MATVEC
    y = r.builder.op("einsum", r.value(weight), input.value, subscripts=subscripts)
    if bias is not None:
        y = y + r.value(bias, input.dtype)
    return _like(r, y, input.dtype, input.device)


def _matmul(r: Recorder, a: Any, b: Any) -> StandIn:
    if not all(isinstance(x, (torch.Tensor, StandIn)) for x in (a, b)):
        raise TypeError(f"matmul of {type(a).__name__} and {type(b).__name__}")
    if type(b) is not StandIn and b.ndim <= 2:
        return _linear(r, a, b.mT if b.ndim == 2 else b)
    if type(a) is not StandIn and b.ndim == 1:
        return _linear(r, b, a)
    left, right = ("ij"[-a.ndim :], "jk"[: b.ndim]) if max(a.ndim, b.ndim) <= 2 else ("", "")
    if not left or not right:
        raise TraceError(f"matmul of shapes {tuple(a.shape)} and {tuple(b.shape)}")
    left = "j" if a.ndim == 1 else left
    dtype = _joined((a, b))
    out = "".join(k for k in left + right if k != "j")
    y = r.builder.op(
        "einsum", r.value(a, dtype), r.value(b, dtype), subscripts=f"{left},{right}->{out}"
    )
    return _like(r, y, dtype, _device((a, b)))


def _addmm(
    r: Recorder, input: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1
) -> StandIn:
    if beta != 1 or alpha != 1:
        raise TraceError("addmm with beta or alpha")
    return _rows()["add"](r, _matmul(r, a, b), input)


def _batch_norm(
    r: Recorder,
    input: StandIn,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> StandIn:
    if training or running_mean is None:
        raise InputError(
            "a BatchNorm layer normalises over the batch (training mode, or no running "
            "statistics), so slices depend on each other. Call .eval() on the model first."
        )
    if input.ndim < 2 or input.shape[1] != len(running_mean):
        raise TraceError(
            f"batch_norm of shape {tuple(input.shape)}: expected (1, {len(running_mean)})"
        )
    # in float64: the scale is folded into the layer before it and rounded once
    scale = 1 / torch.sqrt(running_var.double() + eps)
    scale = scale if weight is None else scale * weight.double()
    shift = -running_mean.double() * scale
    shift = shift if bias is None else shift + bias.double()
    shape = (-1, *(1,) * (input.ndim - 2))
    factors = [t.reshape(shape).to(input.dtype) for t in (scale, shift)]
    y = input.value * r.value(factors[0]) + r.value(factors[1])
    return _like(r, y, input.dtype, input.device)


def _layer_norm(
    r: Recorder,
    input: StandIn,
    normalized_shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> StandIn:
    if not input.dtype.is_floating_point:
        raise TraceError(f"layer_norm of {input.dtype} values")
    axes = tuple(range(input.ndim - len(normalized_shape), input.ndim))
    if tuple(input.shape[-len(axes) :]) != tuple(normalized_shape):
        raise InputError(
            f"a LayerNorm takes shape {tuple(normalized_shape)}, its input has {tuple(input.shape)}"
        )
    y = r.builder.op("standardize", input.value, axis=axes, eps=eps)
    y = y if weight is None else y * r.value(weight, input.dtype)
    y = y if bias is None else y + r.value(bias, input.dtype)
    return _like(r, y, input.dtype, input.device)


def _dropout(r: Recorder, input: StandIn, p: float = 0.5, training: bool = True) -> StandIn:
    if training and p > 0:
        raise InputError(
            f"dropout(p={p}) is in training mode, so its answer is random. "
            "Call .eval() on the model first."
        )
    return input


def _along(name: str) -> Callable[..., StandIn]:
    """softmax and log_softmax."""

    def rule(
        r: Recorder, input: StandIn, dim: Any = None, _stacklevel: Any = 3, dtype: Any = None
    ) -> StandIn:
        if isinstance(_stacklevel, torch.dtype):  # torch.softmax(x, dim, dtype)
            dtype = _stacklevel
        if dim is None:  # torch's deprecated guess
            dim = 0 if input.ndim in (0, 1, 3) else 1
        dtype = dtype or input.dtype
        y = r.builder.op(name, r.value(input, dtype), axis=_axis(dim, input.ndim))
        return _like(r, y, dtype, input.device)

    return rule


def _axis(dim: int, ndim: int) -> int:
    if isinstance(dim, bool) or not -ndim <= dim < ndim:
        raise TraceError(f"dim={dim} of a tensor with {ndim} axes")
    return dim % ndim


def _axes(dim: Any, ndim: int) -> tuple[int, ...]:
    if dim is None or dim == ():
        return tuple(range(ndim))
    return tuple(_axis(d, ndim) for d in ((dim,) if isinstance(dim, int) else dim))


def _reduction(name: str) -> Callable[..., StandIn]:
    def rule(
        r: Recorder, input: StandIn, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> StandIn:
        if name in _EXTREMES and isinstance(dim, (torch.Tensor, StandIn)):  # torch.max(a, b)
            return _rows()[f"{name}imum"](r, input, dim)
        if name in _EXTREMES and dim is not None:
            values, indices = (rule(r, input, dim, keepdim) for rule in _EXTREMES[name])
            return getattr(torch.return_types, name)((values, indices))
        dtype = dtype or input.dtype
        if not dtype.is_floating_point and name in ("sum", "prod", "mean"):
            raise TraceError(f"{name} of {dtype} values gives integers")
        axes = _axes(dim, input.ndim)
        y = r.value(input, dtype)
        if axes:
            y = r.builder.op(name, y, axis=axes, keepdims=keepdim)
        return _like(r, y, dtype, input.device)

    return rule


def _amax(name: str) -> Callable[..., StandIn]:
    def rule(r: Recorder, input: StandIn, dim: Any = (), keepdim: bool = False) -> StandIn:
        axes = _axes(dim, input.ndim)
        y = input.value
        if axes:
            y = r.builder.op(name, y, axis=axes, keepdims=keepdim)
        return _like(r, y, input.dtype, input.device)

    return rule


def _position(name: str) -> Callable[..., StandIn]:
    """argmax and argmin; of all numbers where no dim is given."""

    def rule(r: Recorder, input: StandIn, dim: int | None = None, keepdim: bool = False) -> StandIn:
        if input.dtype == torch.bool:
            raise TraceError(f"{name} of truth values")
        if not input.ndim:
            raise TraceError(f"{name} of one number")
        x = input.value
        if dim is None:
            y = r.builder.op("reshape", x, shape=(input.shape.numel(),))
            y = r.builder.op(name, y, axis=(0,), keepdims=False)
            if keepdim:
                y = r.builder.op("reshape", y, shape=(1,) * input.ndim)
        else:
            y = r.builder.op(name, x, axis=(_axis(dim, input.ndim),), keepdims=keepdim)
        return _like(r, y, torch.int64, input.device)

    return rule


_EXTREMES = {k: (_amax(k), _position(f"arg{k}")) for k in ("max", "min")}
"""What ``torch.max(x, dim)`` gives: values and indices."""


def _var(
    r: Recorder,
    input: StandIn,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> StandIn:
    if isinstance(dim, bool):  # the overload x.var(unbiased)
        unbiased, dim = dim, None
    correction = float(unbiased) if correction is None else correction
    if not input.dtype.is_floating_point:
        raise TraceError(f"the variance of {input.dtype} values")
    if not _axes(dim, input.ndim):
        raise TraceError("the variance of one number")
    y = r.builder.op(
        "var", input.value, axis=_axes(dim, input.ndim), correction=correction, keepdims=keepdim
    )
    return _like(r, y, input.dtype, input.device)


def _std(r: Recorder, *args: Any, **kwargs: Any) -> StandIn:
    return _rows()["sqrt"](r, _var(r, *args, **kwargs))


def _pow(r: Recorder, input: Any, exponent: Any) -> StandIn:
    multiply = _rows()["multiply"]
    if not isinstance(exponent, (int, float)):
        raise TraceError(f"a power of a {type(exponent).__name__}: numbers are known")
    if exponent == 2:
        return multiply(r, input, input)
    if exponent == 3:
        return multiply(r, multiply(r, input, input), input)
    if exponent == 0.5:
        return _rows()["sqrt"](r, input)
    if exponent in (-1, -0.5):
        return _rows()["reciprocal" if exponent == -1 else "rsqrt"](r, input)
    raise TraceError(f"a power of {exponent!r}: 2, 3, 0.5, -0.5 and -1 are known")


def _clamp(r: Recorder, input: StandIn, min: Any = None, max: Any = None) -> StandIn:
    if min is not None:
        input = _rows()["maximum"](r, input, min)
    return input if max is None else _rows()["minimum"](r, input, max)


def _in_one(r: Recorder, tensors: Sequence[Any], dtype: torch.dtype) -> list[Value]:
    """Values in one dtype; those that have it may be indices, which nothing is cast to."""
    has = [isinstance(t, StandIn) and t.dtype == dtype for t in tensors]
    return [t.value if h else r.value(t, dtype) for t, h in zip(tensors, has, strict=True)]


def _cat(r: Recorder, tensors: Sequence[Any], dim: int = 0) -> StandIn:
    dtype = _joined(tensors)
    values = _in_one(r, tensors, dtype)
    y = r.builder.op("concat", *values, axis=_axis(dim, len(values[0].shape)))
    return _like(r, y, dtype, _device(tensors))


def _stack(r: Recorder, tensors: Sequence[Any], dim: int = 0) -> StandIn:
    dtype = _joined(tensors)
    values = _in_one(r, tensors, dtype)
    shape = values[0].shape
    axis = _axis(dim, len(shape) + 1)
    key = (*((None, None, None),) * axis, None)
    y = r.builder.op("concat", *(r.builder.op("index", v, key=key) for v in values), axis=axis)
    return _like(r, y, dtype, _device(tensors))


def _shape(sizes: tuple) -> tuple[int, ...]:
    return tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else tuple(sizes)


def _reshape(r: Recorder, input: StandIn, *shape: Any) -> StandIn:
    sizes = _shape(shape)
    meta = torch.empty(input.shape, device="meta")
    try:  # torch fills -1 in, and complains about what does not fit
        sizes = tuple(meta.reshape(sizes).shape)
    except RuntimeError as error:
        raise TraceError(str(error)) from None
    return _view(r, input, r.builder.op("reshape", input.value, shape=sizes))


def _through_meta(name: str) -> Callable[..., StandIn]:
    """Layouts that only change the shape: torch's shape rule, then a reshape."""

    def rule(r: Recorder, input: StandIn, *args: Any, **kwargs: Any) -> StandIn:
        meta = torch.empty(input.shape, device="meta")
        try:
            shape = tuple(getattr(meta, name)(*args, **kwargs).shape)
        except (RuntimeError, IndexError) as error:
            raise TraceError(str(error)) from None
        return _view(r, input, r.builder.op("reshape", input.value, shape=shape))

    return rule


def _prelu(r: Recorder, input: StandIn, weight: Any) -> StandIn:
    """One slope for all, or one per channel: axis 1 of a batch."""
    slopes = weight.numel() if isinstance(weight, torch.Tensor) else 0
    if type(weight) is StandIn or not slopes or (slopes > 1 and input.ndim < 2):
        raise TraceError(f"prelu with {slopes} slopes on shape {tuple(input.shape)}")
    if slopes > 1 and input.shape[1] != slopes:
        raise InputError(f"a PReLU has {slopes} slopes, its input shape {tuple(input.shape)}")
    slope = r.value(weight, input.dtype)
    if slopes > 1 and input.ndim > 2:
        slope = r.builder.op("reshape", slope, shape=(slopes, *(1,) * (input.ndim - 2)))
    return _like(r, r.builder.op("prelu", input.value, slope), input.dtype, input.device)


def _permute(r: Recorder, input: StandIn, *dims: Any) -> StandIn:
    axes = tuple(_axis(d, input.ndim) for d in _shape(dims))
    return _view(r, input, r.builder.op("permute_dims", input.value, axes=axes))


def _transpose(r: Recorder, input: StandIn, dim0: int, dim1: int) -> StandIn:
    axes = list(range(input.ndim))
    a, b = _axis(dim0, input.ndim), _axis(dim1, input.ndim)
    axes[a], axes[b] = b, a
    return _permute(r, input, axes)


def _t(r: Recorder, input: StandIn) -> StandIn:
    return _transpose(r, input, 0, 1) if input.ndim == 2 else input


def _expand(r: Recorder, input: StandIn, *sizes: Any) -> StandIn:
    shape = _shape(sizes)
    old = (1,) * (len(shape) - input.ndim) + tuple(input.shape)
    new = tuple(o if s == -1 else s for o, s in zip(old, shape, strict=True))
    value = r.builder.op("reshape", input.value, shape=old)
    return _view(r, input, r.builder.op("broadcast_to", value, shape=new))


def _getitem(r: Recorder, input: Any, key: Any) -> StandIn:
    if not isinstance(input, StandIn):
        raise TraceError("an index that depends on the slice")
    keys = key if isinstance(key, tuple) else (key,)
    plain: list[Any] = []
    used = sum(k is not None and k is not Ellipsis for k in keys)
    for k in keys:
        if k is Ellipsis:
            plain += [(None, None, None)] * (input.ndim - used)
        elif isinstance(k, slice):
            plain.append((k.start, k.stop, k.step))
        elif k is None or (isinstance(k, int) and not isinstance(k, bool)):
            plain.append(k)
        else:
            raise TraceError(f"an index by {type(k).__name__}")
    axis = 0
    for k in plain:
        if k is None:
            continue
        n = input.shape[axis] if axis < input.ndim else 0
        if axis >= input.ndim or (isinstance(k, int) and not -n <= k < n):
            raise IndexError(f"index {key} is out of bounds for shape {tuple(input.shape)}")
        axis += 1
    return _view(r, input, r.builder.op("index", input.value, key=tuple(plain)))


def _split(r: Recorder, input: StandIn, split_size: Any, dim: int = 0) -> list[StandIn]:
    axis = _axis(dim, input.ndim)
    n = input.shape[axis]
    sizes = [split_size] * -(-n // split_size) if isinstance(split_size, int) else split_size
    pieces, start = [], 0
    for size in sizes:
        key = (*(slice(None),) * axis, slice(start, min(start + size, n)))
        pieces.append(_getitem(r, input, key))
        start += size
    return pieces


def _chunk(r: Recorder, input: StandIn, chunks: int, dim: int = 0) -> list[StandIn]:
    n = input.shape[_axis(dim, input.ndim)]
    return _split(r, input, max(1, -(-n // chunks)), dim)


def _unbind(r: Recorder, input: StandIn, dim: int = 0) -> list[StandIn]:
    axis = _axis(dim, input.ndim)
    return [_getitem(r, input, (*(slice(None),) * axis, i)) for i in range(input.shape[axis])]


def _glu(r: Recorder, input: StandIn, dim: int = -1) -> StandIn:
    if input.shape[_axis(dim, input.ndim)] % 2:
        raise TraceError(f"glu of an odd length, shape {tuple(input.shape)}")
    a, b = _chunk(r, input, 2, dim)
    return _rows()["multiply"](r, a, _rows()["sigmoid"](r, b))


def _to(r: Recorder, input: StandIn, *args: Any, **kwargs: Any) -> StandIn:
    """.to(...): another dtype is a cast; another device is where everything runs anyway."""
    dtype = input.dtype
    for a in (*args, *kwargs.values()):
        if isinstance(a, (torch.dtype, torch.Tensor)):
            dtype = a if isinstance(a, torch.dtype) else a.dtype
    if dtype == input.dtype:
        # torch returns the very tensor, unless it is asked for a copy
        return _clone(r, input) if kwargs.get("copy") else input
    if dtype in (torch.float16, torch.bfloat16) and input.dtype.is_floating_point:
        raise TraceError(f"rounding to {dtype} inside a network")
    return _like(r, r.cast(input.value, dtype), dtype, input.device)


def _to_dtype(dtype: torch.dtype) -> Callable[..., StandIn]:
    return lambda r, input: _to(r, input, dtype)


def _same(r: Recorder, input: StandIn, *args: Any, **kwargs: Any) -> StandIn:
    return input


def _clone(r: Recorder, input: StandIn, **kwargs: Any) -> StandIn:
    return _like(r, input.value, input.dtype, input.device)


def _size(r: Recorder, input: StandIn, dim: int | None = None) -> Any:
    return input.shape if dim is None else input.shape[dim]


_RULES: dict[str, Callable[..., Any]] = {
    "linear": _linear,
    "matmul": _matmul,
    "mm": _matmul,
    "mv": _matmul,
    "dot": _matmul,
    "rmatmul": lambda r, a, b: _matmul(r, a, b),
    "addmm": _addmm,
    "batch_norm": _batch_norm,
    "layer_norm": _layer_norm,
    "dropout": _dropout,
    "alpha_dropout": _dropout,
    "feature_dropout": _dropout,
    "feature_alpha_dropout": _dropout,
    "dropout1d": _dropout,
    "prelu": _prelu,
    "softmax": _along("softmax"),
    "log_softmax": _along("log_softmax"),
    "softmin": lambda r, input, dim=None, _stacklevel=3, dtype=None: _along("softmax")(
        r, _rows()["negative"](r, input), dim, dtype=dtype
    ),
    "sum": _reduction("sum"),
    "mean": _reduction("mean"),
    "prod": _reduction("prod"),
    "max": _reduction("max"),
    "min": _reduction("min"),
    "amax": _amax("max"),
    "amin": _amax("min"),
    "argmax": _position("argmax"),
    "argmin": _position("argmin"),
    "var": _var,
    "std": _std,
    "pow": _pow,
    "clamp": _clamp,
    "clip": _clamp,
    "clamp_min": lambda r, input, min: _clamp(r, input, min),
    "clamp_max": lambda r, input, max: _clamp(r, input, None, max),
    "cat": _cat,
    "stack": _stack,
    "reshape": _reshape,
    "view": _reshape,
    "flatten": _through_meta("flatten"),
    "squeeze": _through_meta("squeeze"),
    "unsqueeze": _through_meta("unsqueeze"),
    "unflatten": _through_meta("unflatten"),
    "permute": _permute,
    "transpose": _transpose,
    "t": _t,
    "expand": _expand,
    "expand_as": lambda r, input, other: _expand(r, input, tuple(other.shape)),
    "getitem": _getitem,
    # one truth value; the row of that name is torch.eq
    "equal": lambda r, input, other: _refuse("torch.equal")(input),
    "split": _split,
    "chunk": _chunk,
    "unbind": _unbind,
    "glu": _glu,
    "to": _to,
    "type_as": _to,
    "float": _to_dtype(torch.float32),
    "double": _to_dtype(torch.float64),
    "long": _to_dtype(torch.int64),
    "half": _to_dtype(torch.float16),
    "bfloat16": _to_dtype(torch.bfloat16),
    "contiguous": _same,
    "detach": _same,
    "cpu": _same,
    "cuda": _same,
    "requires_grad": _same,
    "clone": _clone,
    "size": _size,
    "dim": lambda r, input: input.ndim,
    "numel": lambda r, input: input.shape.numel(),
    "is_floating_point": lambda r, input: input.dtype.is_floating_point,
}
