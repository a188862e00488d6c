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
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...arrays import library
from ...batch_of_one import BatchOfOne
from ...batching import Batched, BatchingRule, NoRule, find, resolve, syntax
from ...batching.instances import writeable
from ...batching.names import CUPY, mirrored, public_names, root_of
from ...guards import COPIED, LIBRARIES, MISSING, Guards
from ...ir.graph import ShapeDtype
from ...ir.rewrite import compact, fold
from .. import find as frontend_of
from .. import name_of
from . import (
    arrays,
    data_dependent,
    functions,
    instances,
    native,
    python_builtins,
    scalars,
    sets,
    ufuncs,
)
from .distinct import CLASSES
from .indexers import Indexer, is_indexer
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
    LateMethod,
    Maker,
    Namespace,
    Object,
    Random,
    Substitute,
    Type,
    elements_of,
    real_arguments,
    same_slot,
    simple_filter,
)
from .purity import catches, impure, own_names, stores
from .recorder import Recorder
from .scratch import Writes
from .tracer import Traced, Tracer, tracers, values

_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


HARMLESS_MODULES = frozenset(
    (
        "operator itertools functools collections collections.abc typing numbers string copy "
        "types enum abc re json cmath fractions decimal statistics __future__ dataclasses zlib "
        "hashlib struct bisect heapq textwrap unicodedata keyword math"
    ).split()
)
"""Modules of the standard library whose functions only compute."""

functions.SPECIAL.update(data_dependent.SPECIAL | sets.SPECIAL)

_OFF_DEVICE = frozenset(
    "asnumpy fuse memoize ElementwiseKernel ReductionKernel RawKernel RawModule".split()
)
"""Functions of CuPy that leave the device, or make others."""


_MAKES_ARRAYS = frozenset("array asarray asanyarray ascontiguousarray asfortranarray".split())
_LAZY_ROOTS = ("numpy", "scipy", "torch", "xpapply")
"""Packages that load some of their modules when these are asked for, and do nothing else."""
_IO = frozenset(
    (
        "save savez savez_compressed savetxt load loadtxt fromfile genfromtxt memmap seterr "
        "seterrcall setbufsize set_printoptions DataSource fromregex show_config info test "
        "get_include frompyfunc fromiter fromfunction apply_along_axis apply_over_axes"
    ).split()
)


class _Globals(dict):
    """The globals of a function, substituted as they are asked for."""

    def __init__(self, stage: Stage, function: types.FunctionType) -> None:
        super().__init__(__builtins__=stage.builtins, __name__=function.__module__)
        self._xp_stage, self._function = stage, function
        self._watched = root_of(function) not in CUPY

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


class Stage:
    """Substitutes for one run of ``f``."""

    def __init__(self, recorder: Recorder, watch: Guards, runs: Callable[..., Any]) -> None:
        self.recorder, self.watch, self._runs = recorder, watch, runs
        self._made: dict[int, tuple[Any, Any]] = {}
        self.catches = self.keeps = False
        self._frozen: list[tuple[Any, list[Any], str]] = []
        self.writes = Writes(recorder)
        self._stores: dict[str, str] = {}
        """The attributes that the code sets, and where."""
        self._attributes: list[tuple[Any, dict[str, Any], str]] = []
        """Functions and modules whose attributes cannot be watched while they are set."""
        self.checks: list[Callable[[], bool]] = []
        """Whether nothing was written into constants of other libraries."""

    def check(self) -> None:
        """Refuse if something was written into a container that ``f`` did not make."""
        for made, was, name in self._frozen:
            now = elements_of(made)
            if len(now) != len(was) or any(a is not b for a, b in zip(now, was, strict=True)):
                raise self.recorder.refuse(f"it changes {name}, which it did not make")
        for made, before, name in self._attributes:
            for key in self._stores:
                if vars(made).get(key) is not before.get(key):
                    vars(made).pop(key) if key not in before else setattr(made, key, before[key])
                    line = self._stores[key]
                    raise self.recorder.refuse(f"it sets the attribute {key} of {name} ({line})")
        if not all(check() for check in self.checks):
            raise self.recorder.refuse("it changes a tensor that it did not make")

    # substitutes ---------------------------------------------------------------------------

    def substitute(self, x: Any, name: str = "") -> Any:
        """What stands for `x`."""
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
        """What stands for a further argument of ``f``: traces are remembered by its content."""
        if type(x) in (list, tuple):
            return self._container(type(x)(map(self.argument, x)), type(x).__name__)
        if type(x) is np.ndarray and not x.dtype.hasobject:
            view = x.copy(order="K")
            view.flags.writeable = False
            return self.recorder.constant(view)
        return self.substitute(x)

    def _substitute(self, x: Any, name: str) -> Any:
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
        if isinstance(x, types.MethodType):
            owner = self.substitute(x.__self__)
            if isinstance(owner, Object):
                return types.MethodType(self.substitute(x.__func__), owner)
            return getattr(owner, x.__name__)
        if type(x) is BatchOfOne:
            return BatchOfOne(self.substitute(x.func))
        if isinstance(x, functools.partial):
            for part in ("func", "args", "keywords"):
                self.watch.look(x, "attribute", part)
            return functools.partial(
                self.substitute(x.func),
                *(self.substitute(a) for a in x.args),
                **{k: self.substitute(v) for k, v in x.keywords.items()},
            )
        if type(x) in (list, tuple, dict, set, frozenset) or isinstance(x, tuple):
            return self._container(x, name)
        if hasattr(x, "__array_namespace__") and library(x) not in ("torch", "jax"):
            self._watch_content(x)
        return self._instance(x, name)

    def _watch_content(self, x: Any) -> None:
        """An array of the standard, which may be written to: no other guard looks into it."""
        try:
            was, ref = np.from_dlpack(x).tobytes(), weakref.ref(x)
        except (AttributeError, BufferError, RuntimeError, TypeError):
            return  # made of tasks, or immutable

        def unchanged() -> bool:
            x = ref()
            return x is not None and np.from_dlpack(x).tobytes() == was

        self.watch.add(unchanged)

    def _device_array(self, x: Any, name: str) -> Any:
        """A constant on the device of the slices: traced by its values."""
        if self.recorder.library != "cupy" or x.dtype.hasobject:
            return Forbidden(self, x, name)
        xp = sys.modules["cupy"]
        was, ref = x.copy(), weakref.ref(x)

        def unchanged() -> bool:
            x = ref()
            return x is not None and x.shape == was.shape and bool(xp.array_equal(x, was))

        self.watch.add(unchanged)
        return self.recorder.constant(x.get())

    def _array(self, x: np.ndarray, name: str) -> Any:
        if type(x) not in (np.ndarray, np.memmap) or x.dtype.hasobject:
            return Forbidden(self, x, name)
        self.watch.array(x)
        view = x.view(np.ndarray)
        if x.nbytes <= COPIED:  # else what is known of f would keep it alive
            view = view.copy(order="K")
        else:
            self.keeps = True
        view.flags.writeable = False
        return self.recorder.constant(view)

    def _module(self, x: types.ModuleType) -> Any:
        name = x.__name__
        if name in ("random", "numpy.random", "cupy.random", "secrets"):
            return Random(self, x, name)
        if name in ("time", "datetime", "os", "sys", "io", "pathlib", "logging"):
            return Forbidden(self, x, name)
        return Namespace(self, x, name)

    def _class(self, x: type, name: str) -> Any:
        if x in CLASSES or issubclass(x, np.generic):
            return Type(self, x, name)
        root = x.__module__.partition(".")[0]
        if root == "torch":
            return self._torch(x, name)
        if root == "builtins" or x is np.ndarray or (root in CUPY and x.__name__ == "ndarray"):
            return x
        if issubclass(x, BaseException) and (root in ("numpy", "scipy") or not own_names(x)):
            return x
        if issubclass(x, tuple) and hasattr(x, "_fields") and not own_names(x):
            return x
        if x is np.vectorize:
            return lambda *a, **k: self._vectorize(np.vectorize(*values(a), **values(k)))
        if x is np.poly1d:
            return self._poly1d
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
        """Whether CuPy makes an interpolator with it (SciPy's are objects: `instances`)."""
        if self.recorder.library != "cupy":
            return False
        row = find(x)
        return row is not None and row.how == "made"

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
        if root in (*CUPY, "scipy") and self._makes(x):
            return Maker(self, x, name)
        if root in CUPY:
            return self._of_cupy(x, name)
        if root in ("numpy", "scipy", "array_api_compat"):
            return Function(self, x, name)
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
        if why:
            return Impure(self, x, why)
        if root_of(x) not in CUPY:
            self.watch.function(x)
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
        module = sys.modules[name]
        from_list = args[2] if len(args) > 2 else None
        if not from_list:
            module = sys.modules[name.partition(".")[0]]
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

    def _instance(self, x: Any, name: str) -> Any:
        roots = {cls.__module__.partition(".")[0] for cls in type(x).__mro__} - {"builtins"}
        if isinstance(x, functools._lru_cache_wrapper):
            return self.substitute(self.watch.look(x, "attribute", "__wrapped__"))
        if type(x).__module__.startswith(("numpy.random", "random", "cupy.random")):
            return Random(self, x, name)
        if isinstance(x, np.vectorize):
            return self._vectorize(x)
        if isinstance(x, np.poly1d):
            self.watch.object(x)
            return self._poly1d(self.substitute(x.coeffs))
        if is_indexer(x):
            return Indexer(self, x, name)
        if "torch" in roots:
            return self.recorder.operations.tensors.substitute(self, x, name)
        if not roots.isdisjoint(self.recorder.operations.estimators.PACKAGES):
            return self.recorder.operations.estimators.substitute(self, x, name)
        if "numba" in roots and callable(x):
            return Jitted(self, x, getattr(x, "__name__", name))
        if "xpapply" in roots:
            return self.model(x, name)
        if type(x).__module__.removeprefix("cupyx.").startswith("scipy.interpolate") and callable(
            x
        ):
            return self.elements(x, name)
        if type(x).__module__.startswith("scipy.stats") and hasattr(x, "cdf"):
            self.watch.object(x)
            return Distribution(self, x, name)
        if root_of(x) in CUPY and callable(x):
            return self._of_cupy(x, name)
        if type(x).__module__.partition(".")[0] in ("numpy", "scipy") and callable(x):
            return Function(self, x, name)  # e.g. numpy's array functions
        if type(x).__module__.partition(".")[0] in ("numpy", "scipy", *CUPY):
            return Forbidden(self, x, name)
        if type(x).__flags__ & (1 << 9) and hasattr(x, "__dict__"):  # a class written in Python
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
        if root in ("numpy", "scipy") and name in _IO:
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
        if last in _IO or last in _OFF_DEVICE:
            return Forbidden(self, x, full)
        of_numpy = resolve(mirrored(full)) if full.startswith("cupy.") else None
        if isinstance(of_numpy, np.ufunc):
            return Function(self, of_numpy, full)
        if self.recorder.library != "cupy":
            return Forbidden(self, x, full) if of_numpy is None else self.substitute(of_numpy)
        return Function(self, x, full)

    def attribute(self, x: Any, owner: Object, name: str) -> Any:
        """An attribute of an instance."""
        written, item = self.writes.read(x, name)
        if written:
            return item
        self.watch.look(x, "entry", name)  # also if it is not there: it may come
        self.watch.attribute_of_class(type(x), name)
        first = next((vars(c)[name] for c in type(x).__mro__ if name in vars(c)), None)
        if name in vars(x) and not hasattr(type(first), "__set__"):
            return self.substitute(vars(x)[name], f"{type(x).__name__}.{name}")
        for cls in type(x).__mro__:
            if name in vars(cls):
                found = vars(cls)[name]
                if isinstance(found, types.FunctionType):
                    return types.MethodType(self.substitute(found), owner)
                if isinstance(found, staticmethod):
                    return self.substitute(found.__func__)
                if isinstance(found, property) and found.fget is not None:
                    return self.substitute(found.fget)(owner)
                if isinstance(found, classmethod) or hasattr(type(found), "__get__"):
                    raise self.recorder.refuse(f"the attribute {name} of {type(x).__name__}")
                return self.substitute(found, name)
        raise AttributeError(f"{type(x).__name__!r} object has no attribute {name!r}")

    def set_attribute(self, x: Any, name: str, item: Any) -> None:
        """Set an attribute of an instance."""
        self.writes.write(x, name, item)
        for one in (name, "__setattr__"):  # no class may get a property of this name
            self.watch.attribute_of_class(type(x), one)

    def special(self, x: Any, owner: Object, name: str) -> Callable[..., Any]:
        """A special method of an instance."""
        self.watch.attribute_of_class(type(x), name)
        found = next((vars(cls)[name] for cls in type(x).__mro__ if name in vars(cls)), None)
        if isinstance(found, types.FunctionType):
            return functools.partial(self.substitute(found), owner)
        if name == "__bool__" and found is None:
            self.watch.attribute_of_class(type(x), "__len__")
            if hasattr(type(x), "__len__"):
                return lambda: bool(self.special(x, owner, "__len__")())
            return lambda: True
        raise self.recorder.refuse(f"{type(x).__name__} has no {name} written in Python")

    def library_call(self, function: Any, args: tuple, kwargs: dict) -> Any:
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
            if self.recorder.library == "torch" and "array_api_compat" in function.__module__:
                return self.recorder.operations.tensors.call(self.recorder, function, args, kwargs)
            raise self.recorder.refuse(f"{name} of a tensor")
        if found:
            made = instances.make(self.recorder, function, args, kwargs)
            if made is not NotImplemented:
                return made if isinstance(made, instances.Instance) else self.substitute(made)
            if isinstance(function, type):
                if any(t.ref is not None for t in found):
                    raise self.recorder.refuse(f"{name} of something that depends on the slice")
                return self.substitute(function(*values(args), **values(kwargs)))
            by_rule = functools.partial(
                functions.function_call, self.recorder, function, args, kwargs
            )
            if root_of(function) in CUPY and isinstance(function, types.FunctionType):
                # its own code, as that of a helper
                by_code = lambda: self.function(function)(*given[0], **given[1])  # noqa: E731
                return self.recorder.attempt(by_rule, by_code)
            return by_rule()
        if native.own(self.recorder, function) is not None:
            return self._fresh(native.call(self.recorder, function, args, kwargs))
        with self._calling_back(function, args, kwargs):
            return self._fresh(function(*args, **kwargs))

    @contextlib.contextmanager
    def _calling_back(self, function: Any, args: tuple, kwargs: dict) -> Iterator[None]:
        """Name the library's function if something is refused in a function that it calls."""
        before = self.recorder.inside
        if any(isinstance(x, types.FunctionType) for x in (*args, *kwargs.values())):
            self.recorder.inside = f"{functions.public_name(function)} {functions.CALLS_BACK}"
        try:
            yield
        finally:
            self.recorder.inside = before

    def _fresh(self, result: Any) -> Any:
        """Something that a library made out of constants."""
        if isinstance(result, (np.ndarray, tuple, list)):
            if isinstance(result, np.ndarray) and (
                type(result) is not np.ndarray or result.dtype.hasobject
            ):
                return Forbidden(self, result, type(result).__name__)
            return self.recorder._boxed(result, None, None, [])
        return result if type(result) in PLAIN else self.substitute(result)

    def _asarray(self, name: str, x: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        dtype = None if dtype is None else np.dtype(dtype)
        kwargs.pop("order", None)
        ndmin = kwargs.pop("ndmin", 0)
        copy = kwargs.pop("copy", name == "array")
        kwargs.pop("subok", None)
        kwargs.pop("like", None)
        if args or kwargs or ndmin > 1:
            raise self.recorder.refuse(
                f"numpy.{name} with {', '.join(kwargs) or 'these arguments'}"
            )
        found = arrays.as_array(self.recorder, x, dtype)
        if not isinstance(found, Tracer):
            return self._fresh(np.array(found, dtype))
        if not isinstance(found.value, np.ndarray):  # a number becomes an array without axes
            value = np.asarray(found.value)
            found = self.recorder.call(syntax.SAME, lambda _: value, (found,), check=False)
        elif found is x and copy:
            found = arrays.copied(found)
        if found.value.ndim < ndmin or (name.startswith("ascont") and not found.value.ndim):
            found = found.reshape(1)
        return found

    def make_and_call(self, make: Any, args: Any, kwargs: Any, at: Any, keywords: Any) -> Any:
        """An object of a library that is made, and called once: both are one call of its row."""
        given = real_arguments((args, kwargs, at, keywords))
        if not any(True for _ in tracers(given)):
            return self._fresh(make(*args, **kwargs)(*at, **keywords))
        row = find(make)
        assert row is not None

        def call(args: Any, kwargs: Any, at: Any, keywords: Any) -> Any:
            args, kwargs, at, keywords = writeable((args, kwargs, at, keywords))
            return make(*args, **kwargs)(*at, **keywords)

        call.__module__ = make.__module__  # whose library it runs on
        return self.recorder.call(row, call, given)

    def ufunc(self, ufunc: Any, method: str, args: tuple, kwargs: dict) -> Any:
        """A call of a ufunc."""
        args, kwargs = real_arguments(args), real_arguments(kwargs)
        if any(True for _ in tracers((args, kwargs))):
            out = args[ufunc.nin :] if method == "__call__" else ()
            if out:
                args, kwargs = args[: ufunc.nin], kwargs | {"out": out}
            return ufuncs.ufunc_call(self.recorder, ufunc, method, args, kwargs)
        call = ufunc if method == "__call__" else getattr(ufunc, method)
        return self._fresh(call(*args, **kwargs))

    # callables ------------------------------------------------------------------------------------

    def elements(self, x: Any, name: str) -> Callable[..., Any]:
        """A callable of a library that takes arrays of any shape, element by element."""
        self.watch.object(x)

        def call(v: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(v, Tracer) or args or kwargs:
                if any(True for _ in tracers((v, args, kwargs))):
                    raise self.recorder.refuse(f"{name} with further arguments")
                return self._fresh(x(v, *args, **kwargs))
            late = LateMethod(x, "__call__")
            return self.recorder.call(syntax.ELEMENTS, x, (v,), batch=((late, v), {}))

        return call

    def model(self, x: Any, name: str) -> Callable[..., Any]:
        """A network: all slices through its own plan."""

        def call(v: Any) -> Any:
            v = arrays.as_array(self.recorder, v)
            if not isinstance(v, Tracer) or v.ndim != 1:
                raise self.recorder.refuse(f"{name} of something that is no slice")
            row = self.network(x, v.value.shape, v.dtype)
            frontend = frontend_of(x)
            self.watch.add(frontend.watch(x, (), {}))
            return self.recorder.call(row, frontend.slice_function(x), (v,))

        return call

    def network(self, x: Any, shape: tuple[int, ...], dtype: Any) -> BatchingRule:
        """The rule that runs the graph of a network on all slices at once."""
        graph = frontend_of(x).lift(x, ShapeDtype(shape, np.dtype(dtype).name), (), {})
        run, name = self._runs(compact(fold(graph))), name_of(x)

        def rule(xp: Any, _: Any, args: tuple, kwargs: dict) -> Batched:
            (v,) = args
            if not isinstance(v, Batched) or v.ndim != 1:
                raise NoRule(f"{name} of {v}")
            return Batched(run(v.array, 1))

        return BatchingRule(f"the network {name}", rule)

    def _vectorize(self, x: np.vectorize) -> Callable[..., Any]:
        """`numpy.vectorize`: the Python function for each element."""
        self.watch.object(x)
        if x.signature is not None or x.excluded or x.cache:
            return Forbidden(self, x, "numpy.vectorize with signature, excluded or cache")
        inner = self.substitute(x.pyfunc)

        def call(*args: Any) -> Any:
            found = [arrays.as_array(self.recorder, a) for a in args]
            if not any(isinstance(a, Tracer) for a in found):
                found = [np.asarray(a) for a in found]
            shape = np.broadcast_shapes(*(np.shape(values(a)) for a in found))
            if not shape or 0 in shape:
                raise self.recorder.refuse("numpy.vectorize of a number or of nothing")
            if np.prod(shape) > 4096:
                raise self.recorder.refuse("numpy.vectorize of more than 4096 elements")
            wide = [
                functions.function_call(self.recorder, np.broadcast_to, (a, shape), {})
                if isinstance(a, Tracer)
                else self.recorder.constant(np.broadcast_to(a, shape))
                for a in found
            ]
            results = [inner(*(w[i] for w in wide)) for i in np.ndindex(*shape)]
            if any(isinstance(r, (tuple, list)) for r in results):
                raise self.recorder.refuse("numpy.vectorize of a function with several results")
            first = np.asarray(values(results[0])).dtype
            dtype = np.dtype(x.otypes[0]) if x.otypes else first
            flat = arrays.as_array(self.recorder, results)
            if not isinstance(flat, Tracer):
                return self._fresh(np.asarray(flat, dtype).reshape(shape))
            if np.asarray(flat.value).dtype != dtype:
                # the first element fixes the dtype
                flat = arrays.cast(flat, dtype)
            return flat.reshape(shape)

        return call

    def _poly1d(self, coefficients: Any) -> Any:
        def evaluate(x: Any) -> Any:
            return (
                functions.function_call(self.recorder, np.polyval, (coefficients, x), {})
                if any(True for _ in tracers((coefficients, x)))
                else self._fresh(np.polyval(coefficients, x))
            )

        return evaluate

    def _torch(self, x: Any, name: str) -> Any:
        return self.recorder.operations.tensors.function(self, x, name)


def _is_library(x: Any) -> bool:
    """Whether a function or class is one of a library or of Python's own."""
    root = (getattr(x, "__module__", None) or "").partition(".")[0]
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
