"""torch inside ``f``: tensors are traced as arrays are, networks run by their own plan."""

from __future__ import annotations

import functools
import operator
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...batching import Batched, BatchingRule, NoRule, ragged, syntax, tensor_rules
from . import arrays
from .proxies import Forbidden, Function
from .python_builtins import real
from .recorder import Recorder
from .tracer import Traced, Tracer, tracers, values
from .tree import Ref

if TYPE_CHECKING:
    from .sandbox import Stage

_FROM_NUMPY = frozenset(["from_numpy", "as_tensor", "asarray", "tensor", "from_dlpack"])
_SAME = frozenset(["detach", "cpu", "contiguous", "clone", "requires_grad_", "eval"])
_CONTEXTS = frozenset(["no_grad", "inference_mode"])


def _torch() -> Any:
    return sys.modules["torch"]


class Tensor(Traced):
    """A tensor that may depend on the slice."""

    __slots__ = ("__weakref__", "recorder", "ref", "value")

    def __init__(self, recorder: Recorder, value: Any, ref: Any) -> None:
        self.recorder, self.value, self.ref = recorder, value, ref

    def as_numpy(self) -> Any:
        return to_array(self)

    def own_call(self, function: Any, name: str, args: tuple, kwargs: dict) -> Any:
        """How a torch function takes this one; NotImplemented if it does as any other."""
        return NotImplemented

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        found = next(t for t in tracers((args, kwargs or {})) if isinstance(t, Tensor))
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
        if isinstance(key, Tensor) and key.ref is not None and key.value.dtype == _torch().bool:
            return _compressed(self, key)
        return call(self.recorder, _torch().Tensor.__getitem__, (self, key), {})

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
    def method(self: Tensor, *others: Any) -> Any:
        return call(self.recorder, getattr(_torch().Tensor, name), (self, *others), {})

    return method


for _name in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul "
    "rmatmul and rand or ror xor rxor lshift rlshift rshift rrshift neg abs invert "
    "lt le gt ge eq ne"
).split():
    setattr(Tensor, f"__{_name}__", _operator(f"__{_name}__"))


class _Flat(Tensor):
    """The values of a mask, as `known.ragged.Ragged`."""

    __slots__ = ()


class Selected(Tensor):
    """The values of a mask. Whoever asks for its `ref` needs to know how many there are."""

    __slots__ = ("_even", "flat", "mask")

    def __init__(self, flat: _Flat, mask: Tensor) -> None:
        self.flat, self.mask, self._even = flat, mask, None
        self.recorder, self.value = flat.recorder, flat.value

    @property  # type: ignore[override]
    def ref(self) -> Any:  # type: ignore[override]
        if self._even is None:
            recorder, n = self.recorder, len(self.value)
            found = call(recorder, _torch().Tensor.sum, (self.mask,), {})
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
            if any(True for _ in tracers(kwargs)) or isinstance(kwargs.get("out"), Tensor):
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
        if not isinstance(real, _torch().Tensor) or real.ndim:
            return NotImplemented
        return self.recorder.call(
            tensor_rules.REDUCE,
            lambda *_: real,
            (self.flat,),
            batch=((function, self.flat, args[1:], kwargs, real.dtype), {}),
            check=False,
        )

    def _beside(self, x: Any) -> bool:
        """Whether this may stand beside the values, whatever their number is."""
        if isinstance(x, Selected):
            same = self.mask.ref is not None and x.mask.ref == self.mask.ref
            return same and x._even is None
        if isinstance(x, Tensor):
            return x.value.ndim == 0
        return not isinstance(x, (Traced, _torch().Tensor, np.ndarray, list, tuple))


def _quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    def one(*args: Any, **kwargs: Any) -> Any:
        with _torch().no_grad():
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


def _compressed(x: Tensor, mask: Tensor) -> Any:
    """``x[mask]``: how many values there are is asked only if somebody needs to know."""
    if isinstance(x, Selected) or isinstance(mask, Selected):
        return _of_one_length(x, mask)
    if x.value.ndim != 1 or mask.value.shape != x.value.shape:
        return _of_one_length(x, mask)
    recorder = mask.recorder
    real = recorder.real(lambda: x.value[mask.value])
    step = recorder.call(ragged.SELECT, lambda *_: real, (x, mask), check=False)
    return Selected(_Flat(recorder, step.value, step.ref), mask)


def _of_one_length(x: Tensor, mask: Tensor) -> Any:
    """``x[mask]``: slices with other numbers of values take other paths."""
    recorder = x.recorder
    real = recorder.real(lambda: x.value[mask.value])
    n = int(mask.value.sum())
    found = call(recorder, _torch().Tensor.sum, (mask,), {})
    recorder.ask(found, n)
    return recorder.call(
        syntax.COMPRESS, lambda *_: real, (x, mask), batch=((x, mask, n), {}), check=False
    )


def _number(x: Tensor) -> Any:
    if x.value.numel() != 1:
        bool(x.value)  # torch's own error
    return x


def _attribute(x: Tensor, name: str) -> Any:
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
    method = getattr(_torch().Tensor, name)  # an AttributeError is the user's
    if name.endswith("_") or not callable(method):
        raise recorder.refuse(f"the attribute {name} of a tensor")
    return lambda *args, **kwargs: call(recorder, method, (x, *args), kwargs)


_getters = {name: operator.attrgetter(name) for name in ("T", "mT", "real")}


def to_array(x: Tensor) -> Any:
    """The array that the library of the slice makes of a tensor."""
    if x.recorder.library != "cupy":
        return to_numpy(x)
    return x.recorder.call(_CUPY, lambda t: t.cpu().numpy(), (x,), check=False)


def to_numpy(x: Tensor) -> Any:
    """``x.numpy()``."""
    return x.recorder.call(_NUMPY, lambda t: t.numpy(), (x,), check=False)


def _to_numpy(xp: Any, _: Any, args: tuple, kwargs: dict) -> Batched:
    return Batched(args[0].array.numpy())


_NUMPY = BatchingRule("numpy array of a tensor", _to_numpy)


def _to_cupy(xp: Any, _: Any, args: tuple, kwargs: dict) -> Batched:
    tensor = args[0].array
    return Batched(tensor.cpu().numpy() if xp is np else xp.asarray(tensor))


_CUPY = BatchingRule("tensor to CuPy", _to_cupy)


def _item(x: Tensor) -> Any:
    """``x.item()``: a Python number."""
    flat = call(x.recorder, _torch().Tensor.reshape, (x, ()), {}) if x.value.ndim else x
    return to_numpy(flat).item()


def from_numpy(recorder: Recorder, function: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """``torch.from_numpy(x)`` and the like."""
    x = arrays.as_array(recorder, x)
    if isinstance(x, Tensor):
        return call(recorder, _torch().as_tensor, (x, *args), kwargs)
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
    torch = _torch()
    name = getattr(function, "__name__", "a torch function")
    for t in tracers((args, kwargs)):
        if isinstance(t, Tensor):
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
    """What ``f`` returned for a tensor, as one tensor."""
    if isinstance(found, (list, tuple)):
        parts = [result(recorder, x) for x in found]
        return call(recorder, _torch().stack, (parts,), {})
    if isinstance(found, Tracer) and found.ref is not None:
        real = _torch().asarray(found.value)
        return recorder.call(
            tensor_rules.NUMBERS,
            lambda _: real,
            (found,),
            batch=((found, real.dtype), {}),
            check=False,
        )
    if type(found) in (bool, int, float, complex):
        number, any_slice = _torch().asarray(found), Tensor(recorder, found, Ref(0))
        return recorder.call(
            tensor_rules.CONSTANT,
            lambda _: number,
            (any_slice,),
            batch=((any_slice, number), {}),
            check=False,
        )
    if not isinstance(found, Tensor):
        raise recorder.refuse(f"it returns {type(found).__name__} for a tensor")
    return found


def box(recorder: Recorder, real: Any, ref: Any) -> Any:
    """A result of torch."""
    if isinstance(real, _torch().Tensor):
        return Tensor(recorder, real, ref)
    if ref is None:
        return real
    raise recorder.refuse(f"a result of type {type(real).__name__}")


class Model(Forbidden):
    """A `torch.nn.Module`: it runs by its own plan, as if it were given alone."""

    __slots__ = ()

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        module, stage = self.__xpapply_real__, self._xp_stage
        recorder = stage.recorder
        if args or kwargs or not isinstance(x, Tensor):
            raise recorder.refuse(f"{self._xp_name} with these arguments")
        frontend = _frontend()
        stage.watch.add(frontend.watch(module, (), {}))
        shape = tuple(x.value.shape)
        plain = shape if len(shape) == 1 else shape[1:]
        torch = _torch()
        if x.ref is None or not shape:
            raise recorder.refuse(f"{self._xp_name} of a tensor of shape {shape}")
        if x.value.dtype != frontend.parameter_dtype(module, "float32"):
            with torch.no_grad():
                module(x.value)  # torch's own error
        row, why = None, ""
        if len(plain) == 1 and (len(shape) == 1 or shape[0] == 1):
            name = str(x.value.dtype).partition(".")[2]
            try:
                row = stage.calls.network(module, plain, np.dtype(name))
            except Exception as error:
                why = f"{error}; "

        def one(t: Any) -> Any:
            with torch.no_grad(), frontend.untouched(frontend.modules(module)):
                return module(t)

        found = recorder.real(lambda: one(x.value.clone()))
        if row is not None and isinstance(found, torch.Tensor):
            given = (_Run(module, row), x, plain, len(shape) > 1)
            return recorder.call(_MODEL, lambda _: found, (x,), batch=(given, {}))
        structure = frontend.Structure(found)
        if not structure.known:
            what, taken = frontend.described(found)
            hint = f"a module whose forward returns {taken} runs for all slices at once"
            raise recorder.refuse(f"{self._xp_name} returns {what}; {hint}")
        started = time.perf_counter()
        try:
            batches = frontend.Inside(module, x.value, structure)
        except Exception as error:
            raise recorder.refuse(f"{self._xp_name}: {why}{error}") from None
        recorder.until += time.perf_counter() - started  # it has run for several slices
        parts = tuple(structure.parts(found))
        many = recorder.call(
            _IN_BATCHES, lambda _: parts, (x,), batch=((_Run(module, batches), x), {})
        )
        return structure.filled(many)

    def __getattr__(self, name: str) -> Any:
        if name in _STAY and self._stays(name):
            return lambda *args, **kwargs: self._moved(name, args, kwargs)
        if name in ("forward", "predict"):
            method = getattr(type(self.__xpapply_real__), name)
            owner = self
            if name == "forward":
                return self.__call__
            return functools.partial(self._xp_stage.substitute(method), owner)
        if name in ("parameters", "state_dict", "named_parameters"):
            return super().__getattr__(name)
        value = getattr(self.__xpapply_real__, name)
        if isinstance(value, (_torch().nn.Module, _torch().Tensor, bool, int, float, str)):
            self._xp_stage.watch.add(_frontend().watch(self.__xpapply_real__, (), {}))
            return self._xp_stage.substitute(value, f"{self._xp_name}.{name}")
        return super().__getattr__(name)

    def _stays(self, name: str) -> bool:
        module = self.__xpapply_real__
        if name in ("eval", "train"):
            return not module.training
        return same_slot_of(module, name)

    def _moved(self, name: str, args: tuple, kwargs: dict) -> Any:
        """``net.to(device)`` and the like, if the network is there already."""
        stage, module, torch = self._xp_stage, self.__xpapply_real__, _torch()
        stage.watch.add(_frontend().watch(module, (), {}))
        if name == "train" and (args or kwargs.get("mode", True)) not in (False, (False,)):
            raise stage.recorder.refuse(f"it puts {self._xp_name} into training mode")
        if name in ("eval", "train"):
            return self
        tensors = [*module.parameters(), *module.buffers()]
        if name == "requires_grad_":
            wanted = bool(args[0] if args else kwargs.get("requires_grad", True))
            same = all(t.requires_grad == wanted for t in module.parameters())
        else:
            device, dtype = _destination(torch, name, args, kwargs)
            same = all(t.device == device for t in tensors) if device is not None else True
            floats = [t for t in tensors if t.is_floating_point() or t.is_complex()]
            same = same and (dtype is None or all(t.dtype == dtype for t in floats))
        if not same:
            raise stage.recorder.refuse(f"it changes {self._xp_name} by .{name}()")
        return self


_STAY = frozenset("eval train to cpu cuda float double half bfloat16 requires_grad_".split())
"""Methods of a network that return it as it is, if there is nothing to change."""


def same_slot_of(module: Any, name: str) -> bool:
    """Whether a network has the method that torch gives it."""
    return getattr(type(module), name) is getattr(_torch().nn.Module, name)


def _destination(torch: Any, name: str, args: tuple, kwargs: dict) -> tuple[Any, Any]:
    """Device and dtype that a method of a network asks for."""
    dtypes = {"float": torch.float32, "double": torch.float64}
    dtypes |= {"half": torch.float16, "bfloat16": torch.bfloat16}
    if name in dtypes:
        return None, dtypes[name]
    if name == "to":
        like = args[0] if args else kwargs.get("tensor")
        if isinstance(like, torch.Tensor):
            return like.device, like.dtype
        given = dict(zip(("device", "dtype"), args, strict=False)) | kwargs
        if isinstance(given.get("device"), torch.dtype):
            given["dtype"] = given.pop("device")
        device = given.get("device")
        return device if device is None else _device(torch, device), given.get("dtype")
    index = args[0] if args else kwargs.get("device")
    return _device(torch, name if index is None or name == "cpu" else index), None


def _device(torch: Any, device: Any) -> Any:
    """A device, the current one where no number is given."""
    found = torch.device("cuda", device) if type(device) is int else torch.device(device)
    if found.type == "cuda" and found.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return found


class _Run:
    """What runs a network; equal to another one of the same network, which it does not keep."""

    def __init__(self, module: Any, row: Any) -> None:
        self._module, self.row = weakref.ref(module), row
        self._hash = id(module)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Run) and other._module() is self._module()

    def __hash__(self) -> int:
        return self._hash


def _run_model(xp: Any, _: Any, given: tuple, __: dict) -> Batched:
    run, x, shape, batched = given
    rows = Batched(x.array.reshape(x.array.shape[0], *shape))
    with _torch().no_grad():
        found = run.row.rule(xp, None, (rows,), {}).array
    return Batched(found[:, None] if batched else found)


_MODEL = BatchingRule("torch network", _run_model)


def _run_in_batches(xp: Any, _: Any, given: tuple, __: dict) -> tuple[Batched, ...]:
    run, x = given
    with _torch().no_grad():
        return tuple(map(Batched, run.row(x.array)))


_IN_BATCHES = BatchingRule("torch network in batches", _run_in_batches)


def _frontend() -> Any:
    from .. import find

    return find(_torch().nn.Identity())


def substitute(stage: Stage, x: Any, name: str) -> Any:
    """What stands for an object of torch."""
    torch = _torch()
    if isinstance(x, torch.nn.Module):
        return Model(stage, x, name or type(x).__name__)
    if isinstance(x, (torch.dtype, torch.device, torch.Size)):
        return x
    if isinstance(x, torch.Tensor):
        copy = x.detach().clone()
        before, content, ref = copy._version, _content(x), weakref.ref(x)

        def unchanged() -> bool:
            x = ref()
            # by its content: .data and .numpy() write without a new version
            return x is not None and x.dtype == copy.dtype and torch.equal(_content(x), content)

        stage.watch.add(unchanged)
        stage.checks.append(lambda: copy._version == before)
        return Tensor(stage.recorder, copy, None)
    return Forbidden(stage, x, name)


def _content(x: Any) -> Any:
    """The bytes of a tensor."""
    flat = x.detach().reshape(-1).contiguous()
    return flat.clone().view(_torch().uint8) if flat.dtype.is_floating_point else flat.clone()


class _TorchFunction(Function):
    """A function of torch."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function, recorder = self.__xpapply_real__, self._xp_stage.recorder
        found = list(tracers((args, kwargs)))
        args, kwargs = tuple(map(real, args)), {k: real(v) for k, v in kwargs.items()}
        if function.__name__ in _FROM_NUMPY and found and not isinstance(args[0], Tensor):
            return from_numpy(recorder, function, *args, **kwargs)
        if function.__name__ in ("rand", "randn", "randint", "randperm", "normal", "bernoulli"):
            raise recorder.refuse(f"it draws random numbers: torch.{function.__name__}")
        if function.__name__ in ("manual_seed", "save", "load", "set_grad_enabled"):
            raise recorder.refuse(f"it calls torch.{function.__name__}")
        if not found:
            return box(recorder, function(*args, **kwargs), None)
        if any(isinstance(t, Tensor) and t.ref is not None for t in found):
            return call(recorder, function, args, kwargs)
        return box(recorder, function(*values(args), **values(kwargs)), None)


def function(stage: Stage, x: Any, name: str) -> Any:
    """A function or class of torch."""
    torch = _torch()
    if not isinstance(x, type):
        return _TorchFunction(stage, x, name)
    if x.__name__ in _CONTEXTS or x is torch.Tensor:
        return x
    dtype = _OLD.get(x.__name__)
    if dtype is not None and x.__module__ == "torch":
        made = functools.partial(torch.tensor, dtype=getattr(torch, dtype))
        return lambda v: from_numpy(stage.recorder, made, v)
    return Forbidden(stage, x, name)


_OLD = {"FloatTensor": "float32", "DoubleTensor": "float64", "LongTensor": "int64"}
"""The old classes for tensors of one dtype."""
