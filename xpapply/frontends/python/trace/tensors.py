"""Tensors inside ``f``, traced as arrays are."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ....batching import Batched, BatchingRule, NoRule, ragged, syntax, tensor_rules
from ..sandbox.autocast import in_autocast
from . import arrays
from .recorder import Recorder
from .stand_ins import Traced, tracers
from .tracer import Tracer
from .tree import Ref

if TYPE_CHECKING:
    pass

FROM_NUMPY = frozenset(["from_numpy", "as_tensor", "asarray", "tensor", "from_dlpack"])
_SAME = frozenset(["detach", "cpu", "contiguous", "clone", "requires_grad_", "eval"])


def torch_module() -> Any:
    """torch, which the user has loaded."""
    return sys.modules["torch"]


class TracedTensor(Traced):
    """A tensor that may depend on the slice."""

    __slots__ = ("__weakref__", "recorder", "ref", "value")

    def __init__(self, recorder: Recorder, value: Any, ref: Any) -> None:
        self.recorder, self.value, self.ref = recorder, value, ref

    def as_numpy(self) -> Any:
        return to_array(self)

    def own_call(self, function: Any, name: str, args: tuple, kwargs: dict) -> Any:
        """A torch function on this tracer; NotImplemented for the default."""
        return NotImplemented

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = next(t for t in tracers((args, kwargs or {})) if isinstance(t, TracedTensor))
        return call(found.recorder, function, args, kwargs or {})

    # --- plain values -------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self.recorder.ask(_number(self), bool(self.value)))

    def __index__(self) -> int:
        return int(self.recorder.ask(_number(self), int(self.value)))

    def __len__(self) -> int:
        return len(self.value)

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self.value)))

    def __getitem__(self, key: Any) -> Any:
        if (
            isinstance(key, TracedTensor)
            and key.ref is not None
            and key.value.dtype == torch_module().bool
        ):
            return _compressed(self, key)
        return call(self.recorder, torch_module().Tensor.__getitem__, (self, key), {})

    def _refuse(self, *args: Any) -> Any:
        raise self.recorder.refuse("a tensor that depends on the slice is written to or printed")

    __setitem__ = __delitem__ = __contains__ = __array__ = __hash__ = _refuse  # type: ignore[assignment]
    __str__ = __repr__ = __format__ = __reduce_ex__ = __copy__ = __deepcopy__ = _refuse  # type: ignore[assignment]
    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ipow__ = __imatmul__ = _refuse
    __iand__ = __ior__ = __ixor__ = __ilshift__ = __irshift__ = __ifloordiv__ = __imod__ = _refuse

    def __float__(self) -> float:
        raise self.recorder.refuse("float() of a tensor")

    def __int__(self) -> int:
        raise self.recorder.refuse("int() of a tensor")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _attribute(self, name)


def _operator(name: str) -> Any:
    def method(self: TracedTensor, *others: Any) -> Any:
        return call(self.recorder, getattr(torch_module().Tensor, name), (self, *others), {})

    return method


for _name in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul "
    "rmatmul and rand or ror xor rxor lshift rlshift rshift rrshift neg abs invert "
    "lt le gt ge eq ne"
).split():
    setattr(TracedTensor, f"__{_name}__", _operator(f"__{_name}__"))


class _Flat(TracedTensor):
    """The values of a mask, as `known.ragged.Ragged`."""

    __slots__ = ()


class Selected(TracedTensor):
    """The values of a mask. Whoever asks for its `ref` needs to know how many there are."""

    __slots__ = ("_even", "flat", "mask")

    def __init__(self, flat: _Flat, mask: TracedTensor) -> None:
        self.flat, self.mask, self._even = flat, mask, None
        self.recorder, self.value = flat.recorder, flat.value

    @property  # type: ignore[override]
    def ref(self) -> Any:  # type: ignore[override]
        if self._even is None:
            recorder, n = self.recorder, len(self.value)
            found = call(recorder, torch_module().Tensor.sum, (self.mask,), {})
            recorder.ask(found, n)
            even = recorder.call(
                ragged.EVEN,
                lambda v: v.clone(),
                (self.flat,),
                batch=((self.flat, n), {}),
                check=False,
            )
            self._even = even.ref
        return self._even

    def __len__(self) -> int:
        return len(self.value) if self.ref is not None else 0

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "size", "numel"):
            self.ref  # noqa: B018
        return super().__getattr__(name)

    def own_call(self, function: Any, name: str, args: tuple, kwargs: dict) -> Any:
        if self._even is not None:
            return NotImplemented
        if name in _ELEMENTWISE and all(map(self._beside, args)):
            if any(True for _ in tracers(kwargs)) or isinstance(kwargs.get("out"), TracedTensor):
                return NotImplemented
            given = tuple(x.flat if isinstance(x, Selected) else x for x in args)
            step = self.recorder.call(
                tensor_rules.ELEMENTWISE,
                _quietly(function),
                given,
                kwargs,
                batch=((function, given, kwargs), {}),
                check=False,
            )
            return Selected(_Flat(step.recorder, step.value, step.ref), self.mask)
        alone = args[0] is self and not any(True for _ in tracers((args[1:], kwargs)))
        if name not in _REDUCTIONS or not alone:
            return NotImplemented
        real = self.recorder.real(lambda: _quietly(function)(self.value, *args[1:], **kwargs))
        if not isinstance(real, torch_module().Tensor) or real.ndim:
            return NotImplemented
        return self.recorder.call(
            tensor_rules.REDUCE,
            lambda *_: real,
            (self.flat,),
            batch=((function, self.flat, args[1:], kwargs, real.dtype), {}),
            check=False,
        )

    def _beside(self, x: Any) -> bool:
        """Whether this may be combined with the values, whatever their number."""
        if isinstance(x, Selected):
            same = self.mask.ref is not None and x.mask.ref == self.mask.ref
            return same and x._even is None
        if isinstance(x, TracedTensor):
            return x.value.ndim == 0
        return not isinstance(x, (Traced, torch_module().Tensor, np.ndarray, list, tuple))


def _quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    def one(*args: Any, **kwargs: Any) -> Any:
        with torch_module().no_grad():
            return function(*args, **kwargs)

    return one


_ELEMENTWISE = frozenset(
    (
        "add sub subtract mul multiply div divide true_divide floor_divide remainder pow neg "
        "negative abs absolute exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square sin cos tan "
        "sinh cosh tanh asin acos atan sigmoid relu floor ceil round trunc sign clamp clip "
        "reciprocal float double half long int bool isnan isinf isfinite logical_not lt le gt ge "
        "eq ne __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ "
        "__pow__ __rpow__ __neg__ __abs__ __lt__ __le__ __gt__ __ge__ __eq__ __ne__ "
        "__floordiv__ __mod__ maximum minimum"
    ).split()
)
_REDUCTIONS = frozenset(
    (
        "sum mean std var max min amax amin prod median any all argmax argmin quantile nansum "
        "nanmean nanmedian nanquantile norm logsumexp count_nonzero"
    ).split()
)


def _compressed(x: TracedTensor, mask: TracedTensor) -> Any:
    """``x[mask]``; the number of values becomes a decision only where it is used."""
    if isinstance(x, Selected) or isinstance(mask, Selected):
        return _of_one_length(x, mask)
    if x.value.ndim != 1 or mask.value.shape != x.value.shape:
        return _of_one_length(x, mask)
    recorder = mask.recorder
    real = recorder.real(lambda: x.value[mask.value])
    step = recorder.call(ragged.SELECT, lambda *_: real, (x, mask), check=False)
    return Selected(_Flat(recorder, step.value, step.ref), mask)


def _of_one_length(x: TracedTensor, mask: TracedTensor) -> Any:
    """``x[mask]``: slices with other numbers of values take other paths."""
    recorder = x.recorder
    real = recorder.real(lambda: x.value[mask.value])
    n = int(mask.value.sum())
    found = call(recorder, torch_module().Tensor.sum, (mask,), {})
    recorder.ask(found, n)
    return recorder.call(
        syntax.COMPRESS, lambda *_: real, (x, mask), batch=((x, mask, n), {}), check=False
    )


def _number(x: TracedTensor) -> Any:
    if x.value.numel() != 1:
        bool(x.value)  # torch's own error
    return x


def _attribute(x: TracedTensor, name: str) -> Any:
    recorder = x.recorder
    if name in ("shape", "dtype", "device", "ndim", "is_cuda", "requires_grad", "layout"):
        return getattr(x.value, name)
    if name in ("size", "dim", "numel", "is_floating_point", "element_size"):
        return getattr(x.value, name)
    if name in ("T", "mT", "real", "data"):
        if name == "data":
            return x
        return call(recorder, _getters[name], (x,), {})
    if name == "item":
        return lambda: _item(x)
    if name == "tolist":
        return lambda: to_numpy(x).tolist()
    if name == "numpy":
        return lambda *args, **kwargs: to_numpy(x)
    if name in _SAME and not (name == "cpu" and x.value.device.type != "cpu"):
        return lambda *args, **kwargs: x
    method = getattr(torch_module().Tensor, name)  # an AttributeError is the user's
    if name.endswith("_") or not callable(method):
        raise recorder.refuse(f"the attribute {name} of a tensor")
    return lambda *args, **kwargs: call(recorder, method, (x, *args), kwargs)


_getters = {name: operator.attrgetter(name) for name in ("T", "mT", "real")}


def to_array(x: TracedTensor) -> Any:
    """The array that the library of the slice makes of a tensor."""
    if x.recorder.library != "cupy":
        return to_numpy(x)
    return x.recorder.call(_CUPY, lambda t: t.cpu().numpy(), (x,), check=False)


def to_numpy(x: TracedTensor) -> Any:
    """``x.numpy()``."""
    return x.recorder.call(_NUMPY, lambda t: t.numpy(), (x,), check=False)


def _to_numpy(xp: Any, _: Any, args: tuple, kwargs: dict) -> Batched:
    return Batched(args[0].array.numpy())


_NUMPY = BatchingRule("numpy array of a tensor", _to_numpy)


def _to_cupy(xp: Any, _: Any, args: tuple, kwargs: dict) -> Batched:
    tensor = args[0].array
    return Batched(tensor.cpu().numpy() if xp is np else xp.asarray(tensor))


_CUPY = BatchingRule("tensor to CuPy", _to_cupy)


def _item(x: TracedTensor) -> Any:
    """``x.item()``: a Python number."""
    flat = call(x.recorder, torch_module().Tensor.reshape, (x, ()), {}) if x.value.ndim else x
    return to_numpy(flat).item()


def from_numpy(recorder: Recorder, function: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """``torch.from_numpy(x)`` and the like."""
    x = arrays.as_array(recorder, x)
    if isinstance(x, TracedTensor):
        return call(recorder, torch_module().as_tensor, (x, *args), kwargs)
    if isinstance(x, Tracer) and x.weak:
        raise recorder.refuse("a tensor is made of a Python number")

    def one(v: Any) -> Any:
        # values are kept on the host while f is traced; tensors are made where the slice is
        v = sys.modules["cupy"].asarray(v) if recorder.library == "cupy" else v
        return function(v, *args, **kwargs)

    if not isinstance(x, Tracer):
        return box(recorder, one(x), None)
    given = (function, x, args, kwargs, recorder.library)
    return recorder.call(_TENSOR, one, (x,), batch=(given, {}))


def _from_numpy(xp: Any, _: Any, given: tuple, __: dict) -> Batched:
    function, x, args, kwargs, library = given
    if library == "cupy":
        return Batched(function(sys.modules["cupy"].asarray(x.array), *args, **kwargs))
    if xp is not np:
        raise NoRule("torch takes NumPy arrays")
    return Batched(_made(function, x.array, args, kwargs))


_TENSOR = BatchingRule("torch tensor", _from_numpy)


def _made(function: Any, array: np.ndarray, args: tuple, kwargs: dict) -> Any:
    """A tensor of a whole batch; `torch.tensor` of an array copies it."""
    if not array.flags.writeable:
        array = array.copy()  # torch warns about memory that it must not write to
    return function(array, *args, **kwargs)


def call(recorder: Recorder, function: Callable[..., Any], args: tuple, kwargs: dict) -> Any:
    """Any torch function: torch.vmap runs it for all slices."""
    torch = torch_module()
    name = getattr(function, "__name__", "a torch function")
    function = in_autocast(recorder, function)
    for t in tracers((args, kwargs)):
        if isinstance(t, TracedTensor):
            found = t.own_call(function, name, args, kwargs)
            if found is not NotImplemented:
                return found
    if name == "masked_select" and len(args) == 2 and not kwargs:
        return args[0][args[1]]
    if any(isinstance(t, Tracer) and t.ref is not None for t in tracers((args, kwargs))):
        raise recorder.refuse(f"torch's {name} of a NumPy array that depends on the slice")

    def one(*a: Any, **k: Any) -> Any:
        with torch.no_grad():
            return function(*a, **k)

    return recorder.call(
        tensor_rules.vmapped(f"torch {name}"),
        one,
        args,
        kwargs,
        batch=((function, args, kwargs), {}),
    )


def result(recorder: Recorder, found: Any) -> Any:
    """Combine the results of ``f`` to one tensor."""
    if isinstance(found, (list, tuple)):
        parts = [result(recorder, x) for x in found]
        return call(recorder, torch_module().stack, (parts,), {})
    if isinstance(found, Tracer) and found.ref is not None:
        real = torch_module().asarray(found.value)
        return recorder.call(
            tensor_rules.NUMBERS,
            lambda _: real,
            (found,),
            batch=((found, real.dtype), {}),
            check=False,
        )
    if type(found) in (bool, int, float, complex):
        number, any_slice = torch_module().asarray(found), TracedTensor(recorder, found, Ref(0))
        return recorder.call(
            tensor_rules.CONSTANT,
            lambda _: number,
            (any_slice,),
            batch=((any_slice, number), {}),
            check=False,
        )
    if not isinstance(found, TracedTensor):
        raise recorder.refuse(f"it returns {type(found).__name__} for a tensor")
    return found


def box(recorder: Recorder, real: Any, ref: Any) -> Any:
    """A result of torch."""
    if isinstance(real, torch_module().Tensor):
        return TracedTensor(recorder, real, ref)
    if ref is None:
        return real
    raise recorder.refuse(f"a result of type {type(real).__name__}")
