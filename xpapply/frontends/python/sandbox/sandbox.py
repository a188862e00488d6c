"""Run ``f`` with substitutes for what it reaches: modules, helpers, closures, builtins.

The code of ``f`` is run as it is, with other globals. Every object that it can
reach is one that is known to be harmless, or a substitute that records or
refuses. So nothing outside ``f`` is written to, nothing unknown is called, and
no shared module is patched. What ``f`` reaches is noted in `Guards`.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import os
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ....arrays import library
from ....batching import find, resolve
from ....batching.names import CUPY, mirrored, public_names, root_of
from ....functions.estimators import PACKAGES, BatchOfOne
from ....functions.guards import Guards
from ....functions.purity import (
    HARMLESS_MODULES,
    INPUT_OUTPUT,
    OFF_DEVICE,
    catches,
    impure,
    is_record,
    own_names,
    stores,
)
from ....functions.snapshots import LIBRARIES, MISSING, WRITTEN, home_of, lives_on
from ....limits import LIMITS
from ....loop.originals import Replaced
from ..data_dependent import sets, shapes
from ..data_dependent.distinct import CLASSES
from ..trace import functions, python_builtins, scalars
from ..trace.recorder import Recorder
from ..trace.stand_ins import Traced, values
from . import ambient
from .library_calls import LibraryCalls, Runs
from .proxies import (
    PLAIN,
    CatchWarnings,
    Distribution,
    ErrState,
    Forbidden,
    FrozenDict,
    FrozenList,
    FrozenSet,
    Function,
    Impure,
    Jitted,
    Maker,
    Namespace,
    Object,
    Random,
    Sparse,
    Substitute,
    Type,
    real_arguments,
    same_slot,
    simple_filter,
)
from .stage import Stage, elements_of

_HERE = os.path.dirname(str(sys.modules["xpapply"].__file__)) + os.sep


functions.SPECIAL.update(shapes.SPECIAL | sets.SPECIAL)

_LAZY_ROOTS = ("numpy", "scipy", "torch", "xpapply")
"""Packages whose modules load lazily on attribute access, without other effects."""


class _Globals(dict):
    """Globals of a function, substituted on access."""

    def __init__(self, stage: Sandbox, function: types.FunctionType) -> None:
        super().__init__(__builtins__=stage.builtins, __name__=function.__module__)
        self._xp_stage, self._function = stage, function
        self._watched = root_of(function) not in CUPY
        if function.__builtins__ is not vars(builtins):  # type: ignore[attr-defined]
            raise stage.recorder.refuse("it has builtins of its own")

    def __missing__(self, name: str) -> Any:
        stage = self._xp_stage
        if self._watched:
            value = stage.watch.look(self._function, "global", name)  # also if it may come only
            if value is MISSING:
                value = stage.watch.look(builtins, "entry", name)
                if value is MISSING or value is _BUILTINS.get(name):
                    raise KeyError(name)  # Python goes on to the builtins of the stage
        else:
            value = self._function.__globals__[name]
        made = self[name] = stage.substitute(value, name)
        return made


class Sandbox(Stage):
    """Substitutes by the kind of object."""

    def __init__(self, recorder: Recorder, watch: Guards, runs: Runs) -> None:
        super().__init__(recorder, watch)
        self.calls = LibraryCalls(self, runs)

    # substitutes ---------------------------------------------------------------------------

    def substitute(self, x: Any, name: str = "") -> Any:
        """The substitute of `x`."""
        if x is None or type(x) in PLAIN:
            return x
        known = self._made.get(id(x))
        if known is not None:
            if type(x) is types.FunctionType and type(known[1]) is types.FunctionType:
                self.watch.names(x, inside=True)
            return known[1]
        made = self._substitute(x, name or getattr(x, "__qualname__", type(x).__name__))
        self._made[id(x)] = (x, made)
        return made

    def argument(self, x: Any) -> Any:
        """The substitute of a further argument of ``f``: traces are keyed by its content."""
        if type(x) in (list, tuple):
            return self._container(type(x)(map(self.argument, x)), type(x).__name__)
        if type(x) is np.ndarray and not x.dtype.hasobject:
            return self._constant(x.copy(order="K"), x)
        return self.substitute(x)

    def _substitute(self, x: Any, name: str) -> Any:
        if isinstance(x, np.void) and x.dtype.names:
            return self._record(x, name)
        if isinstance(x, (Substitute, Traced, FrozenList, np.dtype, np.generic)):
            return x
        if isinstance(x, np.ndarray):
            return self._array(x, name)
        if type(x).__module__.startswith("cupy") and type(x).__name__ == "ndarray":
            return self._device_array(x, name)
        if isinstance(x, types.ModuleType):
            return self._module(x)
        if isinstance(x, type):
            return self._class(x, name)
        if isinstance(x, np.ufunc):
            if x.types == ["O->O"] * len(x.types) or "O" in "".join(x.types[:1]):
                return Forbidden(self, x, x.__name__)  # numpy.frompyfunc
            return Function(self, x, x.__name__)
        if isinstance(x, (types.BuiltinFunctionType, types.MethodWrapperType)):
            return self._builtin(x, name)
        if isinstance(x, types.FunctionType):
            return self._function(x, name)
        if type(x) is Replaced:  # by `xpapply.patch`: what is known of the original holds
            return self.substitute(x.original)
        if isinstance(x, types.MethodType):
            owner = self.substitute(x.__self__)
            if isinstance(owner, Object):
                return types.MethodType(self.substitute(x.__func__), owner)
            return getattr(owner, x.__name__)
        if type(x) is BatchOfOne:
            return x.of(self.substitute(x.func))
        if isinstance(x, functools.partial):
            for part in ("func", "args", "keywords"):
                self.watch.look(x, "attribute", part)
            partial = functools.partial(
                self.substitute(x.func),
                *(self.substitute(a) for a in x.args),
                **{k: self.substitute(v) for k, v in x.keywords.items()},
            )
            self.watch.names(x)  # others may come
            for key, value in vars(x).items():
                self.watch.look(x, "entry", key)
                setattr(partial, key, self.substitute(value, key))
            return partial
        if type(x) in (list, tuple, dict, set, frozenset) or isinstance(x, tuple):
            return self._container(x, name)
        ambient.watch_memory(self.watch, x)
        if hasattr(type(x), "__array_namespace__") and library(x) not in ("torch", "jax"):
            self.watch.standard_array(x)
        if type(x).__module__ == "uarray" and find(x) is not None:  # functions of scipy.fft
            return Function(self, x, name)
        return self._instance(x, name)

    def _record(self, x: np.void, name: str) -> Any:
        """A row of a structured array, whose memory it may share: traced by its values."""
        if x.dtype.hasobject:
            return Forbidden(self, x, name)
        was = x.tobytes()
        self.watch.add(lambda: x.tobytes() == was)
        return x.copy()

    def _device_array(self, x: Any, name: str) -> Any:
        """A constant on the device of the slices: traced by its values."""
        if self.recorder.library != "cupy" or x.dtype.hasobject:
            return Forbidden(self, x, name)
        xp = sys.modules["cupy"]
        self.watch.content(x, x.copy(), lambda now, was: bool(xp.array_equal(now, was)))
        return self.recorder.constant(x.get())

    def _array(self, x: np.ndarray, name: str) -> Any:
        if type(x) not in (np.ndarray, np.memmap) or x.dtype.hasobject:
            return Forbidden(self, x, name)
        self.watch.array(x)
        view = x.view(np.ndarray)
        if x.nbytes <= LIMITS.copied:  # else what is known of f would keep it alive
            view = view.copy(order="K")
        else:
            self.keeps = True
        return self._constant(view, x)

    def _constant(self, view: np.ndarray, x: np.ndarray) -> Any:
        """An array that ``f`` did not make, by a view or a copy that it cannot write to."""
        view.flags.writeable = False
        if x.flags.writeable:
            self.recorder.lent[id(view)] = view
        return self.recorder.constant(view)

    def _module(self, x: types.ModuleType) -> Any:
        name = x.__name__
        if name in ("random", "numpy.random", "cupy.random", "secrets"):
            return Random(self, x, name)
        if name in ("time", "datetime", "os", "sys", "io", "pathlib", "logging"):
            return Forbidden(self, x, name)
        return Namespace(self, x, name)

    def _class(self, x: type, name: str) -> Any:
        if x in CLASSES or x is np.ndarray or issubclass(x, np.generic):
            return Type(self, x, name)
        root = home_of(x)
        if root == "torch":
            return self._torch(x, name)
        if root == "builtins" or (root in CUPY and x.__name__ == "ndarray"):
            return x
        if issubclass(x, BaseException) and (root in ("numpy", "scipy") or not own_names(x)):
            return x
        if issubclass(x, tuple) and hasattr(x, "_fields") and not own_names(x):
            return x
        if is_record(x):
            return x
        if x is np.vectorize:
            return lambda *a, **k: self.calls.vectorize(np.vectorize(*values(a), **values(k)))
        if x is np.poly1d:
            return self.calls.poly1d
        if root == "numpy" and x.__module__.startswith("numpy.polynomial"):
            return self.calls.series(x) or Forbidden(self, x, name)
        if x is np.errstate:
            return functools.partial(ErrState, self.recorder)
        if x in (np.finfo, np.iinfo, np.dtype) or root in ("collections", "itertools", "functools"):
            return lambda *args, **kwargs: x(*real_arguments(args), **kwargs)
        if root in (*CUPY, "scipy") and self._makes(x):
            return Maker(self, x, name)
        if root == "scipy":
            return Function(self, x, name)
        return Forbidden(self, x, name)

    def _makes(self, x: Any) -> bool:
        """Whether it makes an interpolator of CuPy (SciPy's are objects: `instances`)."""
        if self.recorder.library != "cupy":
            return False
        row = find(x)
        return row is not None and row.kind == "made"

    def _builtin(self, x: Any, name: str) -> Any:
        owner = getattr(x, "__self__", None)
        module = getattr(x, "__module__", None) or ""
        if x in _BUILTIN_OBJECTS:
            return functools.partial(python_builtins.BUILTINS[x.__name__], self.recorder)
        if module == "builtins" and x.__name__ in python_builtins.HARMLESS:
            return x
        if module.lstrip("_") in scalars.MODULES:
            return self._of_numbers(x, module.lstrip("_"), x.__name__)
        if module in HARMLESS_MODULES or module in ("_operator", "_functools", "_statistics"):
            return x
        if root_of(x) in CUPY:
            return self._of_cupy(x, name)
        if module.partition(".")[0] in ("numpy", "scipy") and find(x) is not None:
            return Function(self, x, name)
        if module.partition(".")[0] == "torch":
            return self._torch(x, name)
        if owner is not None and not isinstance(owner, types.ModuleType):
            if isinstance(owner, type):
                return x
            substitute = self.substitute(owner)
            if not isinstance(substitute, Forbidden):
                return getattr(substitute, x.__name__)
        if module.partition(".")[0] == "numpy":
            return Function(self, x, name)
        return Forbidden(self, x, name)

    def _function(self, x: types.FunctionType, name: str) -> Any:
        root = (x.__module__ or "").partition(".")[0]
        if x.__code__.co_filename.replace("\\", "/").endswith("torch/utils/_contextlib.py"):
            # @torch.no_grad(): nothing is recorded for autograd here anyway
            return self.substitute(self.watch.look(x, "attribute", "__wrapped__"))
        if root not in LIBRARIES and x.__code__.co_filename == contextlib.__file__:
            return Forbidden(self, x, name)  # a context manager of a generator
        if root in (*CUPY, "scipy") and self._makes(x):
            return Maker(self, x, name)
        if root in CUPY:
            return self._of_cupy(x, name)
        if "array_api" in (x.__module__ or ""):
            from . import array_api_compat

            if array_api_compat.takes(x):
                return array_api_compat.function(self, x, name)
        if root in ("numpy", "scipy"):
            # what they make inside a function and hand to others is like a function of the user's
            inner = "<locals>" in x.__qualname__ and find(x) is None
            return self.function(x) if inner else Function(self, x, name)
        if root == "torch":
            return self._torch(x, name)
        if root == "xpapply" and x.__code__.co_filename.startswith(_HERE):
            if x.__name__ == "get_array_module":
                return lambda *arrays: namespace_of(self.recorder, self)
            if find(x) is not None:  # of xpapply.special
                return Function(self, x, name)
            return Forbidden(self, x, name)
        return self.function(x)

    def function(self, x: types.FunctionType) -> Callable[..., Any]:
        """A function with substituted globals, closure and defaults."""
        why = impure(x.__code__)
        if root_of(x) not in CUPY:
            self.watch.function(x)
        if why:
            self.watch.names(x)
            return Impure(self, x, why)
        self.catches |= catches(x.__code__)
        self._stores = stores(x.__code__) | self._stores
        cells = tuple(types.CellType() for _ in x.__code__.co_freevars)
        made = types.FunctionType(x.__code__, _Globals(self, x), x.__name__, None, cells)
        if root_of(x) not in CUPY:  # which are called by their rules first
            self._made[id(x)] = (x, made)  # before its closure, which may hold the function itself
        for k, (name, cell) in enumerate(zip(x.__code__.co_freevars, cells, strict=True)):
            content = self.watch.look(x, "cell", k)
            if content is not MISSING:  # a variable that is not yet set
                cell.cell_contents = self.substitute(content, name)
        if x.__defaults__:
            made.__defaults__ = tuple(self.substitute(d) for d in x.__defaults__)
        self.watch.names(x)
        for name, value in vars(x).items():
            if name != "__wrapped__":
                self.watch.look(x, "entry", name)
                setattr(made, name, self.substitute(value, name))
        if x.__kwdefaults__:
            made.__kwdefaults__ = {k: self.substitute(d) for k, d in x.__kwdefaults__.items()}
        self._attributes.append((made, dict(vars(made)), x.__name__))
        return made

    @functools.cached_property
    def builtins(self) -> dict[str, Any]:
        """The builtins that code on this stage sees."""
        found: dict[str, Any] = {
            name: getattr(builtins, name)
            for name in python_builtins.HARMLESS
            if hasattr(builtins, name)
        }
        for name, value in vars(builtins).items():
            if isinstance(value, type) and issubclass(value, BaseException):
                found[name] = value
            elif name not in found:
                found[name] = Forbidden(self, value, name)
        for name, function in python_builtins.BUILTINS.items():
            found[name] = functools.partial(function, self.recorder)
        for kind in CLASSES:
            found[kind.__name__] = self.substitute(kind)
        found["__import__"] = self._import
        return found

    def _import(self, name: str, *args: Any) -> Any:
        if name not in sys.modules:
            raise self.recorder.refuse(f"it imports {name} for the first time")
        from_list = args[2] if len(args) > 2 else None
        if not from_list:
            name = name.partition(".")[0]
        module = sys.modules[name]
        if not lives_on(module):  # another one may come in its place
            found = weakref.ref(module)
            self.watch.add(lambda: sys.modules.get(name) is found())
        return self.substitute(module)

    def _container(self, x: Any, name: str) -> Any:
        if len(x) > 10_000:
            return Forbidden(self, x, name)
        if isinstance(x, tuple):
            if hasattr(x, "_make") and own_names(type(x)):
                return Forbidden(self, x, name)
            parts = [self.substitute(e) for e in x]
            if all(a is b for a, b in zip(parts, x, strict=True)):
                return x
            if hasattr(x, "_make"):
                return x._make(parts)
            return tuple(parts) if type(x) is tuple else Forbidden(self, x, name)
        made: Any
        if isinstance(x, dict):
            made = FrozenDict()
            self._made[id(x)] = (x, made)
            dict.update(made, {k: self.substitute(v, f"{name}[{k!r}]") for k, v in x.items()})
        elif isinstance(x, list):
            made = FrozenList()
            self._made[id(x)] = (x, made)
            list.extend(made, [self.substitute(v, name) for v in x])
        elif isinstance(x, frozenset):
            return x
        else:
            made = FrozenSet()
            set.update(made, x)
        made._xp_stage = self
        self._frozen.append((made, elements_of(made), name))
        return made

    def _is_compressed(self, x: Any) -> bool:
        """Whether it is a sparse matrix whose content can be watched."""
        if self.recorder.library != "numpy" or getattr(x, "format", "") not in ("csr", "csc"):
            return False
        for part in ("data", "indices", "indptr"):
            self.watch.array(self.watch.look(x, "attribute", part))
        return x.ndim == 2 and x.dtype.kind in "biufc"

    def _instance(self, x: Any, name: str) -> Any:
        roots = {cls.__module__.partition(".")[0] for cls in type(x).__mro__} - {"builtins"}
        if isinstance(x, functools._lru_cache_wrapper):
            wrapped = self.watch.look(x, "attribute", "__wrapped__")
            self.watch.names(x)
            own = vars(x).keys() - getattr(wrapped, "__dict__", {}).keys()
            own -= {n for n in own if n.startswith("__")} | {"cache_parameters"}
            if own:  # the user has set them
                return Forbidden(self, x, name)
            return self.calls.cached(x, self.substitute(wrapped))
        if type(x).__module__.startswith(("numpy.random", "random", "cupy.random")):
            return Random(self, x, name)
        if isinstance(x, np.vectorize):
            return self.calls.vectorize(x)
        if isinstance(x, np.poly1d):
            self.watch.object(x)
            return self.calls.poly1d(self.substitute(x.coeffs))
        if type(x).__module__ == type(np.s_).__module__:
            from .indexers import Indexer, is_indexer

            if is_indexer(x):
                return Indexer(self, x, name)
        if "torch" in roots:
            return self.recorder.operations.torch_objects.substitute(self, x, name)
        if not roots.isdisjoint(PACKAGES):
            return self.recorder.operations.estimators.substitute(self, x, name)
        if "numba" in roots and callable(x):
            return Jitted(self, x, getattr(x, "__name__", name))
        if "xpapply" in roots:
            return self.calls.model(x, name)
        if type(x).__module__.removeprefix("cupyx.").startswith("scipy.interpolate") and callable(
            x
        ):
            return self.calls.elements(x, name)
        if type(x).__module__.startswith("scipy.sparse") and self._is_compressed(x):
            return Sparse(self, x, name)
        if type(x).__module__.startswith("scipy.stats") and hasattr(x, "cdf"):
            self.watch.object(x)
            return Distribution(self, x, name)
        if root_of(x) in CUPY and callable(x):
            return self._of_cupy(x, name)
        if type(x).__module__.partition(".")[0] in ("numpy", "scipy") and callable(x):
            if type(x).__flags__ & WRITTEN:  # a polynomial, a density
                self.watch.object(x)
            return Function(self, x, name)  # e.g. numpy's array functions
        if type(x).__module__.partition(".")[0] in ("numpy", "scipy", *CUPY):
            return Forbidden(self, x, name)
        if type(x).__flags__ & WRITTEN and hasattr(x, "__dict__"):
            self.watch.kind(x)
            for special in ("__getattribute__", "__getattr__"):
                self.watch.attribute_of_class(type(x), special)
            if same_slot(x, "__getattribute__") and not hasattr(type(x), "__getattr__"):
                return Object(self, x, name)
        return Forbidden(self, x, name)

    # what substitutes ask for -------------------------------------------------------------------

    def member(self, module: types.ModuleType, name: str) -> Any:
        """An attribute of a module."""
        full = f"{module.__name__}.{name}"
        root = module.__name__.partition(".")[0]
        if root not in LIBRARIES and ambient.makes(type(module), name):
            raise self.recorder.refuse(f"{full}, which the class of its module makes when asked")
        if name not in vars(module) and root not in LIBRARIES:
            for one in (name, "__getattr__"):  # they may come
                self.watch.look(module, "entry", one)
        if module.__name__ in HARMLESS_MODULES or module.__name__ in scalars.MODULES:
            value = getattr(module, name)  # an AttributeError is the user's
            self.watch.look(module, "entry", name)
            if isinstance(value, types.FunctionType) and not _is_library(value):
                return self.substitute(value, full)  # a user has put it there
            return self._of_numbers(value, module.__name__, name)
        if module.__name__ == "warnings":
            if name == "catch_warnings":
                return functools.partial(CatchWarnings, self.recorder)
            if name in ("simplefilter", "filterwarnings"):
                return functools.partial(simple_filter, self.recorder)
            value = getattr(module, name)
            return value if isinstance(value, type) else Forbidden(self, value, full)
        if root in ("numpy", "scipy") and name in INPUT_OUTPUT:
            return Forbidden(self, getattr(module, name), full)
        if root in CUPY:
            return self._cupy(module, name)
        if name not in vars(module):
            if "__getattr__" in vars(module) and root not in _LAZY_ROOTS:
                raise self.recorder.refuse(f"{full}, which its module makes when asked")
            value = getattr(module, name)  # lazy submodules; an AttributeError is the user's
        else:
            value = vars(module)[name]
        self.watch.look(module, "entry", name)
        return self.substitute(value, full)

    def _of_numbers(self, value: Any, module: str, name: str) -> Any:
        """A member of a module of the standard library that only computes."""
        if module not in scalars.MODULES or not callable(value):
            return value
        if (getattr(value, "__module__", "") or "").lstrip("_") != module:
            return self.substitute(value, name)
        name = value.__name__
        if module == "math":
            return python_builtins.math_function(self.recorder, value, name)
        return scalars.function(self.recorder, value, name)

    def _cupy(self, module: types.ModuleType, name: str) -> Any:
        """Something in one of CuPy's modules; for arrays of others what NumPy has of that name."""
        value = getattr(module, name)  # an AttributeError is the user's
        self.watch.look(module, "entry", name)
        full = f"{module.__name__}.{name}"
        if isinstance(value, types.ModuleType) and self.recorder.library != "cupy":
            value = sys.modules.get(mirrored(full), value)
        own = root_of(value) in CUPY and name != "ndarray"
        if own and (isinstance(value, type) or not callable(value)):  # poly1d, r_
            of_numpy = resolve(mirrored(full))
            value = value if of_numpy is None else of_numpy  # r_ has no length
        return self.substitute(value, full)

    def _of_cupy(self, x: Any, name: str) -> Any:
        """A function of CuPy."""
        names = public_names(x)
        full = names[0] if names else name
        last = full.rpartition(".")[2]
        if full.startswith("cupy.random."):
            return Random(self, x, "cupy.random")
        if last == "get_array_module":
            return lambda *arrays: namespace_of(self.recorder, self)
        if last in INPUT_OUTPUT or last in OFF_DEVICE:
            return Forbidden(self, x, full)
        of_numpy = resolve(mirrored(full)) if full.startswith("cupy.") else None
        if isinstance(of_numpy, np.ufunc):
            return Function(self, of_numpy, full)
        if self.recorder.library != "cupy":
            return Forbidden(self, x, full) if of_numpy is None else self.substitute(of_numpy)
        return Function(self, x, full)

    def _torch(self, x: Any, name: str) -> Any:
        return self.recorder.operations.torch_objects.function(self, x, name)


def _is_library(x: Any) -> bool:
    """Whether a function or class belongs to a library or to Python."""
    root = home_of(x)
    return root in LIBRARIES or root == "builtins"


_BUILTINS = {name: x for name, x in vars(builtins).items() if not isinstance(x, types.FunctionType)}
"""Python's own builtins: what a user puts in their place is traced like any function."""


_BUILTIN_OBJECTS = {
    getattr(builtins, n)
    for n in ("max", "min", "sum", "sorted", "all", "any", "isinstance", "hasattr", "len")
}


def namespace_of(recorder: Recorder, stage: Stage | None = None) -> Any:
    """The namespace that ``f`` asks an array for."""
    if recorder.library == "torch":
        import array_api_compat.torch as namespace

        return (stage or recorder.stage).substitute(namespace)
    namespace = sys.modules["cupy"] if recorder.library == "cupy" else np
    return (stage or recorder.stage).substitute(namespace)
