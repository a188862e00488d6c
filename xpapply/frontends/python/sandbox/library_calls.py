"""Calls while ``f`` is traced: functions of libraries, networks, `numpy.vectorize`."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ....batching import Batched, BatchingRule, NoRule, find, syntax
from ....batching.instances import writeable
from ....batching.names import CUPY, root_of
from ....errors import TraceError
from ....functions.purity import beside_cache, of_library
from ....ir.avals import ShapeDtype
from ... import find as frontend_of
from ... import name_of
from ..trace import arrays, functions, native, ufuncs
from ..trace.stand_ins import tracers, values
from ..trace.tracer import Tracer
from . import ambient, instances
from .proxies import PLAIN, Forbidden, LateMethod, real_arguments

if TYPE_CHECKING:
    from ....ir.graph import Graph
    from .stage import Stage

Runs = Callable[["Graph"], Callable[[Any, int], Any]]
"""``runs(graph)(arr, axis)``: how the graph of a network that ``f`` calls runs on all slices."""

_MAKES_ARRAYS = frozenset("array asarray asanyarray ascontiguousarray asfortranarray".split())


class LibraryCalls:
    """The calls of one run of ``f``: written down, or made at once where all is constant.

    Parameters
    ----------
    stage : Stage
        The substitutes of this run.
    runs : callable (Graph) -> callable
        What runs the graphs of networks.
    """

    def __init__(self, stage: Stage, runs: Runs) -> None:
        self._stage, self._runs = stage, runs
        self._recorder = stage.recorder
        self._made: dict[int, Any] = {}

    def call(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """A call of a function of NumPy or SciPy."""
        if isinstance(function, np.ufunc):
            return self.ufunc(function, "__call__", args, kwargs)
        name = getattr(function, "__name__", "")
        found = list(tracers((args, kwargs)))
        given = args, kwargs
        args, kwargs = real_arguments(args), real_arguments(kwargs)
        of_tensor = name == "from_dlpack" and any(not isinstance(t, Tracer) for t in found)
        if name in _MAKES_ARRAYS or of_tensor:
            return self._asarray(name, *args, **kwargs)
        if any(not isinstance(t, Tracer) for t in found):
            if self._recorder.library == "torch" and "array_api_compat" in function.__module__:
                return self._recorder.operations.tensors.call(
                    self._recorder, function, args, kwargs
                )
            row = find(function)
            if row is None or not row.name.startswith("xpapply."):
                raise self._recorder.refuse(f"{name} of a tensor")
            return self._recorder.call(row, function, args, kwargs)
        if found:
            made = instances.make(self._recorder, function, args, kwargs)
            if made is not NotImplemented:
                return made if isinstance(made, instances.Instance) else self._new(made)
            if isinstance(function, type):
                if any(t.ref is not None for t in found):
                    raise self._recorder.refuse(f"{name} of something that depends on the slice")
                return self._new(function(*values(args), **values(kwargs)))
            by_rule = functools.partial(
                functions.function_call, self._recorder, function, args, kwargs
            )
            if root_of(function) in CUPY and isinstance(function, types.FunctionType):
                # its own code, as that of a helper
                by_code = lambda: self._stage.function(function)(*given[0], **given[1])  # noqa: E731
                return self._recorder.attempt(by_rule, by_code)
            return by_rule()
        if name in ("empty", "empty_like") and root_of(function) in ("numpy", *CUPY):
            return self._empty(np.empty_like if name == "empty_like" else np.empty, args, kwargs)
        if native.own(self._recorder, function) is not None:
            return self.constant(native.call(self._recorder, function, args, kwargs))
        if ambient.tells_settings(function):
            raise self._recorder.refuse(f"{name} tells how NumPy is set")
        with functions.calling_back(self._recorder, function, args, kwargs):
            with ambient.of_constants(self._recorder, function):
                found = function(*args, **kwargs)
            if isinstance(found, str):
                self._stage.prints()
            return self.constant(found)

    def constant(self, result: Any) -> Any:
        """Something that a library made out of constants."""
        if isinstance(result, (np.ndarray, tuple, list)):
            if isinstance(result, np.ndarray) and (
                type(result) is not np.ndarray or result.dtype.hasobject or result.dtype.names
            ):
                return Forbidden(self._stage, result, type(result).__name__)
            return self._recorder._boxed(result, None, None, [])
        return result if type(result) in PLAIN else self._new(result)

    def sparse_product(self, x: Any, v: Any) -> Any:
        """``x @ v`` of a sparse matrix and a vector."""
        if not isinstance(v, Tracer):
            return self.constant(x @ values(v))
        if np.ndim(v.value) != 1:
            raise self._recorder.refuse("a product of a sparse matrix and no vector")
        late = LateMethod(x, "dot", keep=self.made(x))
        return self._recorder.call(syntax.SPARSE, x.dot, (v,), batch=((late, v), {}))

    def _empty(self, function: Any, args: tuple, kwargs: dict) -> Any:
        """Record uninitialized memory."""
        real = self._recorder.real(lambda: function(*args, **kwargs))
        if real.dtype.hasobject or type(real) is not np.ndarray:
            return self.constant(real)
        return self._recorder.empty(real)

    def _new(self, made: Any) -> Any:
        """The substitute of an object that a library has made in this run."""
        self._made[id(made)] = made
        return self._stage.substitute(made)

    def made(self, x: Any) -> bool:
        """Whether a library made this object in this run, so that it has no other owner."""
        return id(x) in self._made

    def _asarray(self, name: str, x: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        dtype = None if dtype is None else np.dtype(dtype)
        kwargs.pop("order", None)
        ndmin = kwargs.pop("ndmin", 0)
        copy = kwargs.pop("copy", name == "array")
        kwargs.pop("subok", None)
        kwargs.pop("like", None)
        if args or kwargs or ndmin > 1:
            raise self._recorder.refuse(
                f"numpy.{name} with {', '.join(kwargs) or 'these arguments'}"
            )
        found = arrays.as_array(self._recorder, x, dtype)
        if not isinstance(found, Tracer):
            return self.constant(np.array(found, dtype))
        if not isinstance(found.value, np.ndarray):  # a number becomes an array without axes
            value = np.asarray(found.value)
            found = self._recorder.call(syntax.SAME, lambda _: value, (found,), check=False)
        elif found is x and copy:
            found = arrays.copied(found)
        if found.value.ndim < ndmin or (name.startswith("ascont") and not found.value.ndim):
            found = found.reshape(1)
        return found

    def make_and_call(self, make: Any, args: Any, kwargs: Any, at: Any, keywords: Any) -> Any:
        """An object of a library that is made, and called once: both are one call of its row."""
        given = real_arguments((args, kwargs, at, keywords))
        if not any(True for _ in tracers(given)):
            return self.constant(make(*args, **kwargs)(*at, **keywords))
        row = find(make)
        assert row is not None

        def call(args: Any, kwargs: Any, at: Any, keywords: Any) -> Any:
            args, kwargs, at, keywords = writeable((args, kwargs, at, keywords))
            return make(*args, **kwargs)(*at, **keywords)

        call.__module__ = make.__module__  # whose library it runs on
        return self._recorder.call(row, call, given)

    def ufunc(self, ufunc: Any, method: str, args: tuple, kwargs: dict) -> Any:
        """A call of a ufunc."""
        args, kwargs = real_arguments(args), real_arguments(kwargs)
        if any(True for _ in tracers((args, kwargs))):
            out = args[ufunc.nin :] if method == "__call__" else ()
            if out:
                args, kwargs = args[: ufunc.nin], kwargs | {"out": out}
            return ufuncs.ufunc_call(self._recorder, ufunc, method, args, kwargs)
        call = ufunc if method == "__call__" else getattr(ufunc, method)
        with ambient.of_constants(self._recorder, ufunc):
            found = call(*args, **kwargs)
        return self.constant(found)

    def elements(self, x: Any, name: str) -> Callable[..., Any]:
        """A callable of a library that takes arrays of any shape, element by element."""
        self._stage.watch.object(x)

        def call(v: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(v, Tracer) or args or kwargs:
                if any(True for _ in tracers((v, args, kwargs))):
                    raise self._recorder.refuse(f"{name} with further arguments")
                return self.constant(x(v, *args, **kwargs))
            late = LateMethod(x, "__call__", keep=self.made(x))
            return self._recorder.call(syntax.ELEMENTS, x, (v,), batch=((late, v), {}))

        return call

    def model(self, x: Any, name: str) -> Callable[..., Any]:
        """A network: all slices through its own plan."""

        def call(v: Any) -> Any:
            v = arrays.as_array(self._recorder, v)
            if not isinstance(v, Tracer) or v.ndim != 1:
                raise self._recorder.refuse(f"{name} of something that is not a slice")
            row = self.network(x, v.value.shape, v.dtype)
            frontend = frontend_of(x)
            self._stage.watch.add(frontend.watch(x, (), {}))
            return self._recorder.call(row, frontend.slice_function(x), (v,))

        return call

    def network(self, x: Any, shape: tuple[int, ...], dtype: Any) -> BatchingRule:
        """The rule that runs the graph of a network on all slices at once."""
        from ....ir.rewrite import compact, fold

        frontend, aval = frontend_of(x), ShapeDtype(shape, np.dtype(dtype).name)
        checked = frontend.checked(x, aval, (), {})
        graph = frontend.lift(x, aval, (), {}) if checked is None else checked.graph
        if graph.gathers:
            raise TraceError(f"{name_of(x)} has convolutions, which its own library runs faster")
        run, name = self._runs(compact(fold(graph))), name_of(x)
        run = run if checked is None else checked.around(run)

        def rule(xp: Any, _: Any, args: tuple, kwargs: dict) -> Batched:
            (v,) = args
            if isinstance(v, Batched) and v.ndim == 2 and checked is not None:  # samples in rows
                batch, samples = v.array.shape[:2]
                found = run(v.array.reshape(batch * samples, -1), 1)
                return Batched(found.reshape((batch, samples, *found.shape[1:])))
            if not isinstance(v, Batched) or v.ndim != 1:
                raise NoRule(f"{name} of {v}")
            return Batched(run(v.array, 1))

        if checked is None:  # else the graph alone does not say all
            rule.runs = run  # type: ignore[attr-defined]  # for `to_graph`
        return BatchingRule(f"the {'network' if checked is None else 'formula'} {name}", rule)

    def vectorize(self, x: np.vectorize) -> Callable[..., Any]:
        """`numpy.vectorize`: the Python function for each element."""
        self._stage.watch.object(x)
        if x.signature is not None or x.excluded or x.cache:
            return Forbidden(self._stage, x, "numpy.vectorize with signature, excluded or cache")
        inner = self._stage.substitute(x.pyfunc)

        def call(*args: Any) -> Any:
            found = [arrays.as_array(self._recorder, a) for a in args]
            if not any(isinstance(a, Tracer) for a in found):
                found = [np.asarray(a) for a in found]
            shape = np.broadcast_shapes(*(np.shape(values(a)) for a in found))
            if not shape or 0 in shape:
                raise self._recorder.refuse("numpy.vectorize of a number, or without arguments")
            if np.prod(shape) > 4096:
                raise self._recorder.refuse("numpy.vectorize of more than 4096 elements")
            wide = [
                functions.function_call(self._recorder, np.broadcast_to, (a, shape), {})
                if isinstance(a, Tracer)
                else self._recorder.constant(np.broadcast_to(a, shape))
                for a in found
            ]
            results = [inner(*(w[i] for w in wide)) for i in np.ndindex(*shape)]
            if any(isinstance(r, (tuple, list)) for r in results):
                raise self._recorder.refuse("numpy.vectorize of a function with several results")
            first = np.asarray(values(results[0])).dtype
            dtype = np.dtype(x.otypes[0]) if x.otypes else first
            flat = arrays.as_array(self._recorder, results)
            if not isinstance(flat, Tracer):
                return self.constant(np.asarray(flat, dtype).reshape(shape))
            if np.asarray(flat.value).dtype != dtype:
                # the first element fixes the dtype
                flat = arrays.cast(flat, dtype)
            return flat.reshape(shape)

        return call

    def cached(self, x: Any, inner: Callable[..., Any]) -> Callable[..., Any]:
        """A function with a cache: what it keeps for arguments that no slice changes."""
        code = getattr(x.__wrapped__, "__code__", None)
        if code and of_library(code.co_filename):  # which give the same again
            return inner

        def call(*args: Any, **kwargs: Any) -> Any:
            given = (*args, *kwargs.values())
            why = beside_cache(x)
            if why or not all(type(a) in (int, float, bool, str, type(None)) for a in given):
                why = why or "its arguments depend on the slice"
                raise self._recorder.refuse(f"a function with a cache: {why}")
            inner(*args, **kwargs)  # which refuses what does more than to compute
            return self._stage.substitute(x(*args, **kwargs), x.__name__)

        return call

    def ndarray(self, *args: Any, **kwargs: Any) -> Any:
        """``numpy.ndarray(shape, dtype)``."""
        given = dict(zip(("shape", "dtype", "buffer", "offset", "strides"), args, strict=False))
        given |= kwargs
        if given.keys() - {"shape", "dtype", "order"} or "shape" not in given:
            raise self._recorder.refuse("numpy.ndarray of memory that is there already")
        return self._empty(np.empty, (), real_arguments(given))

    def poly1d(self, *args: Any, **kwargs: Any) -> Any:
        """`numpy.poly1d` of coefficients that may depend on the slice."""
        if len(args) != 1 or kwargs:
            if any(True for _ in tracers((args, kwargs))):
                raise self._recorder.refuse("numpy.poly1d of roots, or with a name")
            return self.poly1d(np.poly1d(*args, **kwargs).coeffs)
        from . import polynomials

        return polynomials.Polynomial(self._recorder, self.constant, args[0])

    def series(self, kind: type) -> Any:
        """A class of series of `numpy.polynomial`; None: another class."""
        from . import polynomials

        if not polynomials.is_series(kind):
            return None
        return polynomials.SeriesClass(self._recorder, self.constant, kind)
