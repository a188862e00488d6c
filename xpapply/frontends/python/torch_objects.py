"""What stands for objects of torch inside ``f``: functions, and networks with their own plans."""

from __future__ import annotations

import functools
import time
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from ...batching import Batched, BatchingRule
from .. import find
from .proxies import Forbidden, Function
from .python_builtins import real
from .tensors import FROM_NUMPY, Tensor, box, call, from_numpy, torch_module
from .tracer import tracers, values

if TYPE_CHECKING:
    from .sandbox import Stage

_CONTEXTS = frozenset(["no_grad", "inference_mode"])


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
        torch = torch_module()
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
        if isinstance(
            value, (torch_module().nn.Module, torch_module().Tensor, bool, int, float, str)
        ):
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
        stage, module, torch = self._xp_stage, self.__xpapply_real__, torch_module()
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
    return getattr(type(module), name) is getattr(torch_module().nn.Module, name)


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
    with torch_module().no_grad():
        found = run.row.rule(xp, None, (rows,), {}).array
    return Batched(found[:, None] if batched else found)


_MODEL = BatchingRule("torch network", _run_model)


def _run_in_batches(xp: Any, _: Any, given: tuple, __: dict) -> tuple[Batched, ...]:
    run, x = given
    with torch_module().no_grad():
        return tuple(map(Batched, run.row(x.array)))


_IN_BATCHES = BatchingRule("torch network in batches", _run_in_batches)


def _frontend() -> Any:
    return find(torch_module().nn.Identity())


def substitute(stage: Stage, x: Any, name: str) -> Any:
    """What stands for an object of torch."""
    torch = torch_module()
    if isinstance(x, torch.nn.Module):
        return Model(stage, x, name or type(x).__name__)
    if isinstance(x, (torch.dtype, torch.device, torch.Size)):
        return x
    if isinstance(x, torch.Tensor):
        copy = x.detach().clone()
        before, dtype = copy._version, copy.dtype
        # by its content: .data and .numpy() write without a new version
        stage.watch.content(
            x, _content(x), lambda x, was: x.dtype == dtype and torch.equal(_content(x), was)
        )
        stage.checks.append(lambda: copy._version == before)
        return Tensor(stage.recorder, copy, None)
    return Forbidden(stage, x, name)


def _content(x: Any) -> Any:
    """The bytes of a tensor."""
    flat = x.detach().reshape(-1).contiguous()
    return flat.clone().view(torch_module().uint8) if flat.dtype.is_floating_point else flat.clone()


class _TorchFunction(Function):
    """A function of torch."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function, recorder = self.__xpapply_real__, self._xp_stage.recorder
        found = list(tracers((args, kwargs)))
        args, kwargs = tuple(map(real, args)), {k: real(v) for k, v in kwargs.items()}
        if function.__name__ in FROM_NUMPY and found and not isinstance(args[0], Tensor):
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
    torch = torch_module()
    if not isinstance(x, type):
        return _TorchFunction(stage, x, name)
    if x.__name__ in _CONTEXTS or x in (torch.Tensor, torch.device):
        return x
    dtype = _OLD.get(x.__name__)
    if dtype is not None and x.__module__ == "torch":
        made = functools.partial(torch.tensor, dtype=getattr(torch, dtype))
        return lambda v: from_numpy(stage.recorder, made, v)
    return Forbidden(stage, x, name)


_OLD = {"FloatTensor": "float32", "DoubleTensor": "float64", "LongTensor": "int64"}
"""The old classes for tensors of one dtype."""
