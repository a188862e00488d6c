"""Portable functions for other processes: a pickle, or graphs where pickling fails.

A function is pickled as it is, by cloudpickle if that is installed. A process that lacks its
library, or its module, cannot make it again. So beside the pickle go graphs of the function, for
the kinds of slices that it was called with. They are lifted when it is pickled, and need NumPy
alone.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import io
import pickle
import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from .. import arrays, config, frontends
from ..errors import TraceError, UnsupportedError
from ..functions import pickles
from ..functions.cache import arguments
from ..ir.graph import Graph, ShapeDtype
from ..limits import LIMITS
from ..loop.arguments import Arguments, Looped
from ..loop.signature import Signature, resolve

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class InputSpec(NamedTuple):
    """A kind of call that a function has one graph for.

    Attributes
    ----------
    args, kwargs : tuple
        What it got, with a `Looped` for each slice; keywords as pairs.
    slices : tuple of ShapeDtype
        The slices.
    """

    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    slices: tuple[ShapeDtype, ...]

    def __str__(self) -> str:
        more = [f"argument {k}={a!r}" for k, a in enumerate(self.args) if type(a) is not Looped]
        more += [f"{n}={a!r}" for n, a in self.kwargs if type(a) is not Looped]
        return " and ".join(map(str, self.slices)) + f" with {', '.join(more)}" * bool(more)

    @property
    def arguments(self) -> Arguments:
        """The call."""
        return Arguments(self.args, dict(self.kwargs))

    @property
    def key(self) -> Hashable:
        """The key of a kind of call: 1, 1.0 and True differ."""
        given = self.arguments
        return given.places(), arguments(*given.constants()), self.slices


def kind_of(given: Arguments, slices: tuple[ShapeDtype, ...]) -> InputSpec | None:
    """The kind of a call; None where its arguments are more than numbers and texts."""
    args, kwargs = given.constants()
    if not all(type(a) in _PLAIN for a in (*args, *kwargs.values())):
        return None
    return InputSpec(given.args, tuple(given.kwargs.items()), slices)


# --- the process that sends ---------------------------------------------------------------------


def packed(
    owner: Any, f: Any, kinds: Sequence[InputSpec], signature: Signature | None
) -> PortableFunction:
    """A function for another process.

    Parameters
    ----------
    owner : vectorize
        What it is the function of, which it may call itself.
    f : callable
        The function.
    kinds : sequence of InputSpec
        What it was called with.
    signature : Signature or None
        That of `owner`.

    Raises
    ------
    TypeError
        If it cannot be pickled: what in it cannot, and what to do.
    """
    if isinstance(f, PortableFunction):
        return f
    token = str(len(_now.sending))  # the same whenever it is pickled, as caches want it
    _now.sending[id(owner)] = token
    try:
        given = _pickled(f)
        graphs = () if signature is None else tuple(_graphs(f, kinds, signature))
        by_value = b""
        if not graphs or len(given) <= LIMITS.sent_small:
            by_value = _by_value(f, given)
        if graphs and len(by_value) > LIMITS.sent_small:
            by_value = b""
    finally:
        del _now.sending[id(owner)]
    more = _parameters(f), frontends.is_network(f)
    return PortableFunction(frontends.name_of(f), token, given, by_value, _shared(graphs), *more)


def _pickled(f: Any) -> bytes:
    cloudpickle = pickles.cloudpickle()
    ways: list[Callable[[Any], bytes]] = [pickle.dumps]
    if cloudpickle is not None:
        ways.insert(0, functools.partial(pickles.dumps, cloudpickle))
    first: Exception | None = None
    for dumps in ways:
        try:
            return dumps(f)
        except Exception as error:
            first = first or error
    assert first is not None
    what = f"{frontends.name_of(f)} cannot be pickled: {type(first).__name__}: {first}."
    if cloudpickle is None:
        how = (
            "Without cloudpickle only functions go to other processes that these can import by "
            "name: pip install cloudpickle, with which lambdas, functions in functions and those "
            "of a notebook go by value"
        )
    else:
        found = [f"{name}, {_described(x)}" for name, x in _held(f) if not _goes(cloudpickle, x)]
        what += f" It holds {'; '.join(found)}." * bool(found)
        how = (
            "Make what cannot be pickled inside the function, or send the graph alone, "
            "xpapply.compile(f, shape, dtype), where there is one"
        )
    raise TypeError(f"{what} {how}") from first


def _described(x: Any) -> str:
    return f"of class {type(x).__module__}.{type(x).__qualname__}"


def _goes(cloudpickle: Any, x: Any) -> bool:
    try:
        pickles.dumps(cloudpickle, x)
    except Exception:
        return False
    return True


def _held(f: Any) -> Iterator[tuple[str, Any]]:
    """Iterate over the objects that a function holds, with their names."""
    if isinstance(f, functools.partial):
        yield from ((f"argument {k}", x) for k, x in enumerate(f.args))
        yield from f.keywords.items()
        yield from _held(f.func)
    elif isinstance(f, MethodType):
        yield from _held(f.__self__)
    elif isinstance(f, FunctionType):
        known = inspect.getclosurevars(f)
        yield from known.nonlocals.items()
        yield from known.globals.items()
        yield from (("a default", x) for x in f.__defaults__ or ())
    else:
        yield from ((f"self.{name}", x) for name, x in getattr(f, "__dict__", {}).items())


def _by_value(f: Any, given: bytes) -> bytes:
    """The pickle with the user's modules in it, for where they are missing; b"": it needs none."""
    cloudpickle = pickles.cloudpickle()
    modules: dict[str, ModuleType] = {}
    try:
        while cloudpickle is not None:
            more = {name: m for name, m in _users_modules(given) if name not in modules}
            if not more:
                break
            for name, module in more.items():
                if name in cloudpickle.list_registry_pickle_by_value():
                    continue
                cloudpickle.register_pickle_by_value(module)
                modules[name] = module
            if not modules:
                break
            given = pickles.dumps(cloudpickle, f)
    except Exception:  # of what the modules hold
        return b""
    finally:
        for module in modules.values():
            cloudpickle.unregister_pickle_by_value(module)
    return given if modules else b""


def _users_modules(given: bytes) -> Iterator[tuple[str, ModuleType]]:
    """The modules that a pickle may name and that are in no installed package."""
    import pickletools

    names = {arg for _, arg, _ in pickletools.genops(given) if isinstance(arg, str)}
    for name in names & sys.modules.keys():
        module, root = sys.modules[name], name.partition(".")[0]
        file = getattr(module, "__file__", None)
        if not file or root in sys.stdlib_module_names or root == __name__.partition(".")[0]:
            continue
        if name != "__main__" and "site-packages" not in file and "dist-packages" not in file:
            yield name, module


def _graphs(
    f: Any, kinds: Sequence[InputSpec], signature: Signature
) -> Iterator[tuple[InputSpec, Graph]]:
    """The graphs of a function as it is now, for the kinds that have one."""
    from ..ir.rewrite import compact, fold
    from . import lifting

    network = frontends.is_network(f)
    wanted = [*kinds]
    if network:  # which computes in a dtype of its own
        wanted += _expected(f, signature)
        wanted += [_of_dtype(kind, d) for kind in wanted for d in ("float32", "float64")]
    results = len(signature.outputs)
    for kind in {kind.key: kind for kind in wanted}.values():
        call = replace(kind.arguments, results=results if results > 1 else 0)
        try:
            dims = resolve(signature, [s.shape for s in kind.slices])
            graph = lifting.of_call(f, kind.slices, call, dims, remembered=True)
            yield kind, compact(fold(graph))
        except Exception:  # whatever it raises, the function itself is asked there
            continue


def _of_dtype(kind: InputSpec, dtype: str) -> InputSpec:
    return kind._replace(slices=tuple(s._replace(dtype=dtype) for s in kind.slices))


def _expected(f: Any, signature: Signature) -> Iterator[InputSpec]:
    """Input specs of a network, as far as its signature or first layer determines them."""
    shapes = tuple(tuple(d.size for d in core) for core in signature.inputs)
    length = frontends.find(f).length_of_slices(f)
    if [*map(len, shapes)] == [1] and length is not None:
        shapes = ((length,),)
    if any(None in shape for shape in shapes):
        return
    looped = tuple(map(Looped, range(len(shapes))))
    yield InputSpec(looped, (), tuple(ShapeDtype(s, "float32") for s in shapes))  # type: ignore[arg-type]


def _shared(graphs: tuple[tuple[InputSpec, Graph], ...]) -> tuple[tuple[InputSpec, Graph], ...]:
    """Share equal constants, so that each is pickled once."""
    known: dict[Any, np.ndarray] = {}

    def one(x: np.ndarray) -> np.ndarray:
        content = hashlib.blake2b(
            np.ascontiguousarray(x).data.cast("B") if x.size else b""
        ).digest()
        return known.setdefault((x.shape, x.dtype.str, content), x)

    return tuple((k, replace(g, consts=tuple(map(one, g.consts)), sources=())) for k, g in graphs)


def _parameters(f: Any) -> tuple[tuple[str, int], ...] | None:
    """The names and kinds of a function's parameters; None where it does not tell."""
    try:
        known = inspect.signature(getattr(f, "forward", f)).parameters.values()
    except (TypeError, ValueError):
        return None
    return tuple((p.name, int(p.kind)) for p in known)


# --- the process that receives ------------------------------------------------------------------


class _Now(threading.local):
    """State of this thread while packing or unpacking: a function may refer to its own wrapper."""

    def __init__(self) -> None:
        self.sending: dict[int, str] = {}
        self.loading: dict[str, Any] = {}


_now = _Now()


def itself(owner: Any) -> tuple[Callable[[str], Any], tuple[str]] | None:
    """The pickle of `owner` within its own function; None elsewhere."""
    token = _now.sending.get(id(owner))
    return None if token is None else (_itself, (token,))


def _itself(token: str) -> Any:
    return _now.loading[token]


class _Unpickler(pickle.Unpickler):
    """An unpickler that accepts any copy of cloudpickle for any other."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return super().find_class(module, name)
        except ModuleNotFoundError:
            copies = pickles.COPIES
            written = next((c for c in copies if f"{module}.".startswith(f"{c}.")), None)
            here = pickles.cloudpickle()
            if written is None or here is None:
                raise
            return super().find_class(here.__name__ + module.removeprefix(written), name)


@dataclass(eq=False)
class PortableFunction:
    """A function from another process: the function itself if it can be made here, or its graphs.

    Attributes
    ----------
    name : str
        What it is called.
    token : str
        What stands in the pickle for what it is the function of.
    pickled, by_value : bytes
        The function; the same with the user's modules, b"" if it needs none.
    graphs : tuple of (InputSpec, Graph)
        What it does to slices.
    parameters : tuple of (name, kind), or None
        Those of the function.
    network : bool
        Whether it means the same for arrays of all libraries.
    """

    name: str
    token: str
    pickled: bytes
    by_value: bytes
    graphs: tuple[tuple[InputSpec, Graph], ...]
    parameters: tuple[tuple[str, int], ...] | None
    network: bool

    def __post_init__(self) -> None:
        self.__qualname__ = self.__name__ = self.name
        self._why: Exception | None = None
        self._runs: dict[tuple[int, bool], Callable[..., Any]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_why": None, "_runs": {}}

    def function(self, owner: Any) -> Any:
        """The function of `owner`; where it cannot be made, what stands for it: this."""
        outer = _now.loading.get(self.token)
        _now.loading[self.token] = owner
        try:
            for given in filter(None, (self.pickled, self.by_value)):
                try:
                    return _Unpickler(io.BytesIO(given)).load()
                except Exception as error:
                    self._why = self._why or error
        finally:
            _now.loading[self.token] = outer
        return self

    @property
    def __signature__(self) -> Any:
        if self.parameters is None:
            return NotImplemented  # which `inspect` refuses, as it did the function
        kinds: Any = inspect._ParameterKind  # type: ignore[attr-defined]
        every = [inspect.Parameter(n, kinds(k)) for n, k in self.parameters]
        return inspect.Signature(every)

    @property
    def missing(self) -> str:
        """Why the function could not be made here."""
        error = self._why
        if isinstance(error, ModuleNotFoundError) and error.name:
            root = error.name.partition(".")[0]
            return f"there is no module {(error.name if sys.modules.get(root) else root)!r} here"
        if isinstance(error, AttributeError) and "__main__" in str(error):
            return (
                f"{error} (it went by name, not by value: where it was pickled there is no "
                "cloudpickle, or it holds something that cannot be pickled)"
            )
        return f"{type(error).__name__}: {error}"

    def graph(self, kind: InputSpec | None) -> tuple[int, Graph]:
        """The number and the graph of a kind of call.

        Raises
        ------
        UnsupportedError
            If it has none.
        """
        for k, (known, graph) in enumerate(self.graphs):
            if kind is not None and known.key == kind.key:
                return k, graph
        raise UnsupportedError(self._refusal(kind)) from self._why

    def _refusal(self, kind: InputSpec | None) -> str:
        there = "; ".join(str(known) for known, _ in self.graphs)
        asked = "such a call" if kind is None else f"slices {kind}"
        only = f", only for {there}" * bool(there)
        return (
            f"{self.name} came from another process, and cannot be made here: {self.missing}. "
            f"It has no graph for {asked}{only}. Install here what is missing. Or, where the "
            "function is, call it once with such slices before it is pickled, or send "
            "xpapply.compile(f, shape, dtype) instead, which says why if there is no graph"
        )

    def __call__(self, *slices: Any, **kwargs: Any) -> Any:
        """The function of one slice of each array, where there is a graph of it."""
        given = [np.asarray(x) if arrays.library(x) is None else x for x in slices]
        aval = [ShapeDtype(tuple(x.shape), arrays.dtype_name(x)) for x in given]
        looped = tuple(map(Looped, range(len(given))))
        return self.results(InputSpec(looped, tuple(kwargs.items()), tuple(aval)), given)

    def lift(self, aval: ShapeDtype) -> Graph:
        """The graph for slices of this shape and dtype."""
        try:
            return self.graph(InputSpec((Looped(0),), (), (aval,)))[1]
        except UnsupportedError as error:
            raise TraceError(str(error)) from error.__cause__

    def results(self, kind: InputSpec | None, operands: Sequence[Any]) -> Any:
        """The results of all slices of arrays with their core dims last."""
        from . import compiled, engines

        for x in operands:
            why = self._why_not(x)
            if why:
                raise UnsupportedError(f"{self._refusal(None)}. {why}") from self._why
        k, graph = self.graph(kind)
        loop = config.current().engine == "loop"  # where nothing is chosen
        run = self._runs.get((k, loop))
        if run is None:
            one = len(graph.inputs) == len(graph.outs) == 1 and len(graph.input.shape) == 1
            if one and not loop:
                along = engines.AnyLibrary(graph)
                run = lambda x: along(x, x.ndim - 1)  # noqa: E731
            else:
                run = compiled.OfSeveral(graph)
            self._runs[k, loop] = run
        return run(*operands)

    def _why_not(self, x: Any) -> str:
        """Why no graph is tried for an array."""
        if isinstance(x, np.ndarray) and type(x) not in (np.ndarray, np.memmap):
            return f"{type(x).__name__} is a subclass of ndarray with a meaning of its own"
        if arrays.library(x) == "torch" and not self.network:
            return "What it does to tensors only torch's own functions tell"
        if getattr(x, "requires_grad", False) and sys.modules["torch"].is_grad_enabled():
            return "Autograd would record this call; under torch.no_grad(), or detached, it runs"
        return ""

    def plan(self, by_loop: Any, kind: InputSpec | None, out_shape: Callable[..., Any]) -> Any:
        """The plan for a call, of that which the loop would have; `out_shape`: of a result."""
        _, graph = self.graph(kind)
        results = tuple(graph.nodes[o].aval for o in graph.outs)
        return replace(
            by_loop,
            name=self.name,
            engine="compiled",
            kernels=("the graph that came with it",),
            reasons=(f"the function itself: {self.missing}",),
            results=results,
            out_shapes=tuple(out_shape(k, x.shape) for k, x in enumerate(results)),
        )
