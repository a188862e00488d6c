"""Run ``f`` with substitutes for what it reaches: modules, helpers, closures, builtins.

The code of ``f`` is run as it is, with other globals. Every object that it can
reach is one that is known to be harmless, or a substitute that records or
refuses. So nothing outside ``f`` is written to, nothing unknown is called, and
no shared module is patched. What ``f`` reaches is noted for `Watch`.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import dis
import functools
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from ...known import basic, find
from . import arrays, python
from .python import real
from .tracer import Recorder, Traced, Tracer, tracers, values
from .watch import Watch

_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep

HARMLESS_MODULES = frozenset(
    [
        "operator",
        "itertools",
        "functools",
        "collections",
        "collections.abc",
        "typing",
        "numbers",
        "string",
        "copy",
        "types",
        "enum",
        "abc",
        "re",
        "json",
        "cmath",
        "fractions",
        "decimal",
        "statistics",
        "__future__",
        "dataclasses",
        "zlib",
        "hashlib",
        "struct",
        "bisect",
        "heapq",
        "textwrap",
        "unicodedata",
        "keyword",
        "math",
    ]
)
"""Modules of the standard library whose functions only compute."""

_IO = frozenset(
    [
        "save",
        "savez",
        "savez_compressed",
        "savetxt",
        "load",
        "loadtxt",
        "fromfile",
        "genfromtxt",
        "memmap",
        "seterr",
        "seterrcall",
        "setbufsize",
        "set_printoptions",
        "DataSource",
        "fromregex",
        "show_config",
        "info",
        "test",
        "get_include",
        "frompyfunc",
        "fromiter",
        "fromfunction",
        "apply_along_axis",
        "apply_over_axes",
    ]
)


class Substitute:
    """Stands for an object of the user's or of a library."""

    # no __dict__: ``self.__dict__`` in ``f`` must not be that of a substitute
    __slots__ = ("__xpapply_real__", "_xp_name", "_xp_stage")
    __xpapply_real__: Any
    _xp_name: str
    _xp_stage: Stage
    __xpapply_substitute__ = True

    def __init__(self, stage: Stage, what: Any, name: str) -> None:
        for slot, value in (
            ("_xp_stage", stage),
            ("__xpapply_real__", what),
            ("_xp_name", name),
        ):
            object.__setattr__(self, slot, value)

    def __eq__(self, other: object) -> bool:
        return bool(self.__xpapply_real__ == real(other))

    def __hash__(self) -> int:
        return hash(self.__xpapply_real__)

    def __str__(self) -> str:
        raise self._xp_stage.recorder.refuse(f"the text of {self._xp_name}")

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return str(self)

    def __setattr__(self, name: str, item: Any) -> None:
        raise self._xp_stage.recorder.refuse(f"it sets {self._xp_name}.{name}")

    def __delattr__(self, name: str) -> None:
        raise self._xp_stage.recorder.refuse(f"it deletes {self._xp_name}.{name}")


_UNKNOWN = "which xpapply does not know"


class Forbidden(Substitute):
    """Something that is not known; whatever is done with it refuses."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._xp_stage.recorder.refuse(
            f"it calls {self._xp_name}, which xpapply does not know"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._xp_stage.recorder.refuse(
            f"it uses {self._xp_name}.{name}, which xpapply does not know"
        )

    def _refuse(self, *args: Any) -> Any:
        raise self._xp_stage.recorder.refuse(
            f"it uses {self._xp_name}, which xpapply does not know"
        )

    __getitem__ = __setitem__ = __len__ = __iter__ = __next__ = __contains__ = _refuse
    __bool__ = __enter__ = __exit__ = __add__ = __radd__ = __mul__ = __rmul__ = _refuse
    __sub__ = __rsub__ = __truediv__ = __rtruediv__ = __lt__ = __gt__ = __le__ = __ge__ = _refuse
    __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __neg__ = _refuse
    __index__ = __float__ = __int__ = _refuse


class Namespace(Substitute):
    """A module."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return self._xp_stage.member(self.__xpapply_real__, name)


class Random(Forbidden):
    """`numpy.random` and `random`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._xp_stage.recorder.refuse(f"it draws random numbers: {self._xp_name}.{name}")


class Function(Substitute):
    """A function of NumPy, CuPy or SciPy."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._xp_stage.library_call(self.__xpapply_real__, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        what = self.__xpapply_real__
        if isinstance(what, np.ufunc) and name in ("reduce", "accumulate", "outer", "reduceat"):
            return lambda *args, **kwargs: self._xp_stage.ufunc(what, name, args, kwargs)
        if isinstance(what, np.ufunc) and name == "at":
            raise self._xp_stage.recorder.refuse(f"{self._xp_name}.at")
        value = getattr(what, name)
        return value if type(value) in _PLAIN else Forbidden(self._xp_stage, value, name)


class Type(Substitute):
    """A class of numbers: ``float``, ``numpy.float32``."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = self._xp_stage.recorder
        what = self.__xpapply_real__
        if what in python.NUMBERS:
            return python.NUMBERS[what](recorder, *args, **kwargs)
        if len(args) == 1 and not kwargs and any(True for _ in tracers(args)):
            return arrays.cast(arrays.as_array(recorder, args[0]), what)
        return what(*values(args), **values(kwargs))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__xpapply_real__, name)

    def __or__(self, other: Any) -> Any:
        return self.__xpapply_real__ | real(other)


class Object(Substitute):
    """An instance of a class written in Python: its methods are traced, it is never written to."""

    __slots__ = ()

    def _class(self) -> Any:
        return type(self.__xpapply_real__)

    __class__ = property(_class)  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return self._xp_stage.attribute(self.__xpapply_real__, self, name)

    def _special(name: str) -> Any:  # type: ignore[misc]
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return self._xp_stage.special(self.__xpapply_real__, self, name)(*args, **kwargs)

        return method

    for _name in [
        "call",
        "getitem",
        "len",
        "iter",
        "contains",
        "bool",
        "enter",
        "exit",
        "add",
        "radd",
        "sub",
        "rsub",
        "mul",
        "rmul",
        "truediv",
        "rtruediv",
        "matmul",
        "rmatmul",
        "neg",
        "lt",
        "le",
        "gt",
        "ge",
        "index",
        "float",
        "int",
        "next",
    ]:
        vars()[f"__{_name}__"] = _special(f"__{_name}__")

    def __setitem__(self, key: Any, item: Any) -> None:
        raise self._xp_stage.recorder.refuse(f"it writes into {self._xp_name}")

    def __eq__(self, other: object) -> Any:
        what = self.__xpapply_real__
        if _same_slot(what, "__eq__"):
            return what is real(other)
        return self._xp_stage.special(what, self, "__eq__")(other)

    def __hash__(self) -> int:
        if not _same_slot(self.__xpapply_real__, "__hash__"):
            raise self._xp_stage.recorder.refuse(f"the hash of {self._xp_name}")
        return hash(self.__xpapply_real__)


def _same_slot(x: Any, name: str) -> bool:
    """Whether a class has what `object` has."""
    return bool(getattr(type(x), name) is getattr(object, name))


class FrozenList(list):
    """A list that ``f`` did not make."""


class FrozenDict(dict):
    """A dict that ``f`` did not make."""


class FrozenSet(set):
    """A set that ``f`` did not make."""


def _freeze(cls: type, names: str) -> None:
    def forbid(name: str) -> Any:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            raise self._xp_stage.recorder.refuse(
                f"it changes a {cls.__mro__[1].__name__} that it did not make"
            )

        return method

    for name in names.split():
        setattr(cls, name, forbid(name))


_freeze(
    FrozenList,
    "append extend insert remove pop clear sort reverse __setitem__ __delitem__ __iadd__ __imul__",
)
_freeze(FrozenDict, "update pop popitem clear setdefault __setitem__ __delitem__ __ior__")
_freeze(
    FrozenSet,
    "add remove discard pop clear update __ior__ __iand__ __isub__ __ixor__ difference_update "
    "intersection_update symmetric_difference_update",
)


class _ErrState:
    """`numpy.errstate` inside ``f``: also for the calls that are written down."""

    def __init__(self, recorder: Recorder, **kwargs: Any) -> None:
        self._recorder, self._kwargs = recorder, kwargs
        self._context = np.errstate(**kwargs)

    def __enter__(self) -> None:
        self._before = self._recorder.errstate
        self._context.__enter__()
        self._recorder.errstate = {k: str(v) for k, v in np.geterr().items()}

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)
        self._recorder.errstate = self._before


class _CatchWarnings:
    """`warnings.catch_warnings` inside ``f``."""

    def __init__(self, recorder: Recorder, **kwargs: Any) -> None:
        import warnings

        if kwargs.get("record"):
            raise recorder.refuse("it records warnings")
        self._recorder = recorder
        self._context = warnings.catch_warnings()
        self._action = kwargs.get("action")

    def __enter__(self) -> None:
        self._before = self._recorder.quiet
        self._context.__enter__()
        if self._action is not None:
            simple_filter(self._recorder, self._action)

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)
        self._recorder.quiet = self._before


def simple_filter(recorder: Recorder, action: str, *args: Any, **kwargs: Any) -> None:
    """`warnings.simplefilter` and `filterwarnings` inside ``f``."""
    import warnings

    category = args[0] if args and action else kwargs.get("category", Warning)
    others = set(kwargs) - {"category", "append"} or len(args) > 1
    if action != "ignore" or others or category not in (Warning, RuntimeWarning):
        raise recorder.refuse(f"it sets the warnings filter to {action!r} for some warnings")
    warnings.simplefilter("ignore")
    recorder.quiet = True


# --- static checks --------------------------------------------------------------------------


_WRITES = {
    "STORE_GLOBAL": "it writes the global {}",
    "DELETE_GLOBAL": "it deletes the global {}",
    "STORE_ATTR": "it sets the attribute {}",
    "DELETE_ATTR": "it deletes the attribute {}",
}
_GENERATOR = 0x20 | 0x80 | 0x200
"""Code flags of generators, coroutines and asynchronous generators."""


def impure(code: types.CodeType, free: frozenset[str] | None = None) -> str | None:
    """Why running this code would change something outside, or None."""
    if free is None:
        if code.co_flags & _GENERATOR:
            return "it is a generator or coroutine"
        free = frozenset(code.co_freevars)
    line = code.co_firstlineno
    before: Any = None
    inward = [n for n in code.co_names if n.startswith("__") and n not in ("__name__", "__doc__")]
    if inward:
        file = code.co_filename.replace("\\", "/").rpartition("/")[2]
        return f"it uses {inward[0]} ({file}:{line})"
    for step in dis.get_instructions(code):
        if step.starts_line is not None:
            line = step.starts_line if not isinstance(step.starts_line, bool) else line
            line = getattr(step, "line_number", None) or line
        what = _WRITES.get(step.opname)
        if step.opname == "IS_OP" and before not in (None, True, False, Ellipsis):
            what = "it compares identities by `is`"
        before = step.argval if step.opname == "LOAD_CONST" else step.opname
        if step.opname in ("STORE_DEREF", "DELETE_DEREF") and step.argval in free:
            what = "it writes the variable {} of an enclosing function"
        if what is not None:
            file = code.co_filename.replace("\\", "/").rpartition("/")[2]
            return f"{what.format(step.argval)} ({file}:{line})"
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            # variables of an inner function that are free in the outer one are outside too
            why = impure(inner, free & frozenset(inner.co_freevars))
            if why:
                return why
    return None


class _Globals(dict):
    """The globals of a function, substituted as they are asked for."""

    def __init__(self, stage: Stage, function: types.FunctionType) -> None:
        super().__init__(__builtins__=stage.builtins, __name__=function.__module__)
        self._xp_stage, self._own = stage, function.__globals__

    def __missing__(self, name: str) -> Any:
        self._xp_stage.watch.item(self._own, name)  # also if it is not there: it may come
        value = self._own[name]  # a KeyError sends Python on to the builtins
        made = self[name] = self._xp_stage.substitute(value, name)
        return made


_STANDARD = frozenset(dir(BaseException)) | set(vars(collections.namedtuple("_Standard", "a")))


def _own_names(cls: type) -> list[str]:
    """What a class has that named tuples and exceptions do not have by themselves."""
    known = set(getattr(cls, "_fields", ())) | {"__module__", "__doc__", "__weakref__", "__dict__"}
    known |= {"__orig_bases__", "__annotations__", "__static_attributes__", "__firstlineno__"}
    mro = [c for c in cls.__mro__ if c.__module__ != "builtins"]
    names = {
        name
        for c in mro
        for name, x in vars(c).items()
        if not (name in _STANDARD and not _written(x))
    }
    return sorted(names - known)


def _written(x: Any) -> bool:
    """Whether a function stands in a user's file."""
    code = getattr(getattr(x, "__func__", x), "__code__", None)
    return code is not None and not code.co_filename.startswith(("<", _STDLIB))


_STDLIB = os.path.dirname(os.__file__) + os.sep


def _elements(x: Any) -> list[Any]:
    return [e for pair in x.items() for e in pair] if isinstance(x, dict) else list(x)


def _catches(code: types.CodeType) -> bool:
    """Whether there is a ``try`` (or a ``with``) in code."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return bool(code.co_exceptiontable) or any(map(_catches, inner))


# --- the stage --------------------------------------------------------------------------------


class Stage:
    """Substitutes for one run of ``f``."""

    def __init__(self, recorder: Recorder, watch: Watch, models: Callable[..., Any]) -> None:
        self.recorder, self.watch, self.models = recorder, watch, models
        self._made: dict[int, tuple[Any, Any]] = {}
        self.catches = False
        self._frozen: list[tuple[Any, list[Any], str]] = []
        self.checks: list[Callable[[], bool]] = []
        """Whether nothing was written into constants of other libraries."""

    def check(self) -> None:
        """Refuse if something was written into a container that ``f`` did not make."""
        for made, was, name in self._frozen:
            now = _elements(made)
            if len(now) != len(was) or any(a is not b for a, b in zip(now, was, strict=True)):
                raise self.recorder.refuse(f"it changes {name}, which it did not make")
        if not all(check() for check in self.checks):
            raise self.recorder.refuse("it changes a tensor that it did not make")

    # substitutes ---------------------------------------------------------------------------

    def substitute(self, x: Any, name: str = "") -> Any:
        """What stands for `x`."""
        if x is None or type(x) in _PLAIN:
            return x
        known = self._made.get(id(x))
        if known is not None:
            return known[1]
        made = self._substitute(x, name or getattr(x, "__qualname__", type(x).__name__))
        self._made[id(x)] = (x, made)
        return made

    def _substitute(self, x: Any, name: str) -> Any:
        if isinstance(x, (Substitute, Traced, np.dtype, np.generic)):
            return x
        if isinstance(x, np.ndarray):
            return self._array(x, name)
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
        if isinstance(x, functools.partial):
            self.watch.items(x, (x.func, x.args, x.keywords))
            return functools.partial(
                self.substitute(x.func),
                *(self.substitute(a) for a in x.args),
                **{k: self.substitute(v) for k, v in x.keywords.items()},
            )
        if type(x) in (list, tuple, dict, set, frozenset) or isinstance(x, tuple):
            return self._container(x, name)
        return self._instance(x, name)

    def _array(self, x: np.ndarray, name: str) -> Any:
        if type(x) not in (np.ndarray, np.memmap) or x.dtype.hasobject:
            return Forbidden(self, x, name)
        self.watch.array(x)
        view = x.view(np.ndarray)
        view.flags.writeable = False
        return self.recorder.constant(view)

    def _module(self, x: types.ModuleType) -> Any:
        name = x.__name__
        if name in HARMLESS_MODULES and name != "math":
            return x
        if name in ("random", "numpy.random", "cupy.random", "secrets"):
            return Random(self, x, name)
        if name in ("time", "datetime", "os", "sys", "io", "pathlib", "logging"):
            return Forbidden(self, x, name)
        return Namespace(self, x, name)

    def _class(self, x: type, name: str) -> Any:
        if x in python.NUMBERS or issubclass(x, np.generic):
            return Type(self, x, name)
        root = x.__module__.partition(".")[0]
        if root == "torch":
            return self._torch(x, name)
        if root == "builtins" or x is np.ndarray:
            return x
        if issubclass(x, BaseException) and (root in ("numpy", "scipy") or not _own_names(x)):
            return x
        if issubclass(x, tuple) and hasattr(x, "_fields") and not _own_names(x):
            return x
        if x is np.vectorize:
            return lambda *a, **k: self._vectorize(np.vectorize(*values(a), **values(k)))
        if x is np.poly1d:
            return self._poly1d
        if x is np.errstate:
            return functools.partial(_ErrState, self.recorder)
        if x in (np.finfo, np.iinfo, np.dtype) or root in ("collections", "itertools", "functools"):
            return lambda *args, **kwargs: x(*real_arguments(args), **kwargs)
        if root == "scipy":
            return Function(self, x, name)
        return Forbidden(self, x, name)

    def _builtin(self, x: Any, name: str) -> Any:
        owner = getattr(x, "__self__", None)
        module = getattr(x, "__module__", None) or ""
        if x in _BUILTIN_OBJECTS:
            return functools.partial(python.BUILTINS[x.__name__], self.recorder)
        if module == "builtins" and x.__name__ in python.HARMLESS:
            return x
        if module == "math":
            return self.member(sys.modules["math"], x.__name__)
        if module in HARMLESS_MODULES or module in ("_operator", "_functools", "_statistics"):
            return x
        if module.partition(".")[0] in ("numpy", "cupy", "scipy") and find(x) is not None:
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
            return self.substitute(x.__wrapped__)  # type: ignore[attr-defined]
        if root in ("numpy", "cupy", "cupyx", "scipy", "array_api_compat"):
            return Function(self, x, name)
        if root == "torch":
            return self._torch(x, name)
        if root == "xpapply" and x.__code__.co_filename.startswith(_HERE):
            if x.__name__ == "get_array_module":
                return lambda *arrays: namespace_of(self.recorder, self)
            return Forbidden(self, x, name)
        return self.function(x)

    def function(self, x: types.FunctionType) -> Callable[..., Any]:
        """A function with substituted globals, closure and defaults."""
        why = impure(x.__code__)
        if why:
            return _Impure(self, x, why)
        self.watch.function(x)
        self.catches |= _catches(x.__code__)
        cells = tuple(types.CellType() for _ in x.__code__.co_freevars)
        made = types.FunctionType(x.__code__, _Globals(self, x), x.__name__, None, cells)
        self._made[id(x)] = (x, made)  # before its closure, which may hold the function itself
        for name, cell, own in zip(x.__code__.co_freevars, cells, x.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # a variable that is not yet set
                content = own.cell_contents
                self.watch.cell(own)
                cell.cell_contents = self.substitute(content, name)
        if x.__defaults__:
            made.__defaults__ = tuple(self.substitute(d) for d in x.__defaults__)
        for name, value in vars(x).items():
            if name != "__wrapped__":
                self.watch.item(vars(x), name)
                setattr(made, name, self.substitute(value, name))
        if x.__kwdefaults__:
            made.__kwdefaults__ = {k: self.substitute(d) for k, d in x.__kwdefaults__.items()}
        return made

    @functools.cached_property
    def builtins(self) -> dict[str, Any]:
        """The builtins that code on this stage sees."""
        found: dict[str, Any] = {
            name: getattr(builtins, name) for name in python.HARMLESS if hasattr(builtins, name)
        }
        for name, value in vars(builtins).items():
            if isinstance(value, type) and issubclass(value, BaseException):
                found[name] = value
            elif name not in found:
                found[name] = Forbidden(self, value, name)
        for name, function in python.BUILTINS.items():
            found[name] = functools.partial(function, self.recorder)
        for kind in python.NUMBERS:
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
            if hasattr(x, "_make") and _own_names(type(x)):
                return Forbidden(self, x, name)
            parts = [self.substitute(e) for e in x]
            if all(a is b for a, b in zip(parts, x, strict=True)):
                return x
            if hasattr(x, "_make"):
                return x._make(parts)
            return tuple(parts) if type(x) is tuple else Forbidden(self, x, name)
        self.watch.container(x)
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
        self._frozen.append((made, _elements(made), name))
        return made

    def _instance(self, x: Any, name: str) -> Any:
        roots = {cls.__module__.partition(".")[0] for cls in type(x).__mro__} - {"builtins"}
        if isinstance(x, functools._lru_cache_wrapper):
            return self.substitute(x.__wrapped__)
        if type(x).__module__.startswith(("numpy.random", "random", "cupy.random")):
            return Random(self, x, name)
        if isinstance(x, np.vectorize):
            return self._vectorize(x)
        if isinstance(x, np.poly1d):
            return self._poly1d(self.substitute(x.coeffs))
        if "torch" in roots:
            from . import tensors

            return tensors.substitute(self, x, name)
        if "sklearn" in roots:
            from . import estimators

            return estimators.substitute(self, x, name)
        if "xpapply" in roots:
            return self.model(x, name)
        if type(x).__module__.startswith("scipy.interpolate") and callable(x):
            return self.elements(x, name)
        if type(x).__module__.startswith("scipy.stats") and hasattr(x, "cdf"):
            self._watch_object(x)
            return _Distribution(self, x, name)
        if type(x).__module__.partition(".")[0] in ("numpy", "cupy", "scipy") and callable(x):
            return Function(self, x, name)  # e.g. numpy's array functions
        if type(x).__module__.partition(".")[0] in ("numpy", "cupy", "scipy"):
            return Forbidden(self, x, name)
        if type(x).__flags__ & (1 << 9) and hasattr(x, "__dict__"):  # a class written in Python
            if _same_slot(x, "__getattribute__") and not hasattr(type(x), "__getattr__"):
                self.watch.kind(x)
                return Object(self, x, name)
        return Forbidden(self, x, name)

    # what substitutes ask for -------------------------------------------------------------------

    def member(self, module: types.ModuleType, name: str) -> Any:
        """An attribute of a module."""
        full = f"{module.__name__}.{name}"
        root = module.__name__.partition(".")[0]
        if module.__name__ == "math" and hasattr(module, name):
            value = getattr(module, name)
            own = python.math_function(self.recorder, name) if callable(value) else value
            return value if own is None else own
        if module.__name__ == "warnings":
            if name == "catch_warnings":
                return functools.partial(_CatchWarnings, self.recorder)
            if name in ("simplefilter", "filterwarnings"):
                return functools.partial(simple_filter, self.recorder)
            value = getattr(module, name)
            return value if isinstance(value, type) else Forbidden(self, value, full)
        if root in ("numpy", "scipy") and name in _IO:
            return Forbidden(self, getattr(module, name), full)
        if root == "cupy":
            return self._cupy(module, name)
        if name not in vars(module):
            if "__getattr__" in vars(module) and root not in ("numpy", "scipy", "torch"):
                raise self.recorder.refuse(f"{full}, which its module makes when asked")
            value = getattr(module, name)  # lazy submodules; an AttributeError is the user's
        else:
            value = vars(module)[name]
            if root not in ("numpy", "scipy", "torch"):
                self.watch.item(vars(module), name)
        return self.substitute(value, full)

    def _cupy(self, module: types.ModuleType, name: str) -> Any:
        """CuPy's functions are recorded as NumPy's of the same name."""
        rest = module.__name__.partition(".")[2]
        if name == "get_array_module":
            return lambda *arrays: namespace_of(self.recorder, self)
        if name in ("asnumpy", "ElementwiseKernel", "ReductionKernel", "RawKernel", "fuse"):
            return Forbidden(self, getattr(module, name), f"cupy.{name}")
        target: Any = np
        for part in filter(None, rest.split(".")):
            target = getattr(target, part, None)
        value = getattr(target, name, None)
        if value is None:
            value = getattr(module, name)
            return Forbidden(self, value, f"cupy.{name}")
        return self.substitute(value, f"cupy.{name}")

    def attribute(self, x: Any, owner: Object, name: str) -> Any:
        """An attribute of an instance."""
        self.watch.item(vars(x), name)  # also if it is not there: it may come
        first = next((vars(c)[name] for c in type(x).__mro__ if name in vars(c)), None)
        if name in vars(x) and not hasattr(type(first), "__set__"):
            return self.substitute(vars(x)[name], f"{type(x).__name__}.{name}")
        for cls in type(x).__mro__:
            self.watch.attribute(cls, name)
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

    def special(self, x: Any, owner: Object, name: str) -> Callable[..., Any]:
        """A special method of an instance."""
        for cls in type(x).__mro__:
            found = vars(cls).get(name)
            if isinstance(found, types.FunctionType):
                self.watch.attribute(cls, name)
                return functools.partial(self.substitute(found), owner)
        if name == "__bool__":
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
        args, kwargs = real_arguments(args), real_arguments(kwargs)
        if any(not isinstance(t, Tracer) for t in found):
            if self.recorder.library == "torch" and "array_api_compat" in function.__module__:
                from . import tensors

                return tensors.call(self.recorder, function, args, kwargs)
            raise self.recorder.refuse(f"{name} of a tensor")
        if name in ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray"):
            return self._asarray(name, *args, **kwargs)
        if found:
            if isinstance(function, type):
                if any(t.ref is not None for t in found):
                    raise self.recorder.refuse(f"{name} of something that depends on the slice")
                return self.substitute(function(*values(args), **values(kwargs)))
            return arrays.function_call(self.recorder, function, args, kwargs)
        result = function(*args, **kwargs)
        return self._fresh(result)

    def _fresh(self, result: Any) -> Any:
        """Something that a library made out of constants."""
        if isinstance(result, (np.ndarray, tuple, list)):
            if isinstance(result, np.ndarray) and (
                type(result) is not np.ndarray or result.dtype.hasobject
            ):
                return Forbidden(self, result, type(result).__name__)
            return self.recorder._boxed(result, None, None, [])
        return result if type(result) in _PLAIN else self.substitute(result)

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
            found = self.recorder.call(basic.SAME, lambda _: value, (found,), check=False)
        elif found is x and copy:
            found = arrays.copied(found)
        if found.value.ndim < ndmin or (name.startswith("ascont") and not found.value.ndim):
            found = found.reshape(1)
        return found

    def ufunc(self, ufunc: Any, method: str, args: tuple, kwargs: dict) -> Any:
        """A call of a ufunc."""
        args, kwargs = real_arguments(args), real_arguments(kwargs)
        if any(True for _ in tracers((args, kwargs))):
            out = args[ufunc.nin :] if method == "__call__" else ()
            if out:
                args, kwargs = args[: ufunc.nin], kwargs | {"out": out}
            return arrays.ufunc_call(self.recorder, ufunc, method, args, kwargs)
        call = ufunc if method == "__call__" else getattr(ufunc, method)
        return self._fresh(call(*args, **kwargs))

    # callables ------------------------------------------------------------------------------------

    def _watch_object(self, x: Any) -> None:
        """An object of a library, which its attributes describe."""
        for name in (*getattr(x, "__dict__", {}), *getattr(type(x), "__slots__", ())):
            self.watch.field(x, name)

    def elements(self, x: Any, name: str) -> Callable[..., Any]:
        """A callable of a library that takes arrays of any shape, element by element."""
        self._watch_object(x)

        def call(v: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(v, Tracer) or args or kwargs:
                if any(True for _ in tracers((v, args, kwargs))):
                    raise self.recorder.refuse(f"{name} with further arguments")
                return self._fresh(x(v, *args, **kwargs))
            return self.recorder.call(basic.ELEMENTS, x, (v,), batch=((x, v), {}))

        return call

    def model(self, x: Any, name: str) -> Callable[..., Any]:
        """A network: all slices through its own plan."""

        def call(v: Any) -> Any:
            v = arrays.as_array(self.recorder, v)
            if not isinstance(v, Tracer) or v.ndim != 1:
                raise self.recorder.refuse(f"{name} of something that is no slice")
            row, function = self.models(x, v.value.shape, v.dtype)
            return self.recorder.call(row, function, (v,))

        return call

    def _vectorize(self, x: np.vectorize) -> Callable[..., Any]:
        """`numpy.vectorize`: the Python function for each element."""
        self._watch_object(x)
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
                arrays.function_call(self.recorder, np.broadcast_to, (a, shape), {})
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
                arrays.function_call(self.recorder, np.polyval, (coefficients, x), {})
                if any(True for _ in tracers((coefficients, x)))
                else self._fresh(np.polyval(coefficients, x))
            )

        return evaluate

    def _torch(self, x: Any, name: str) -> Any:
        from . import tensors

        return tensors.function(self, x, name)


class _Impure(Substitute):
    """A function that writes to something outside it."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._xp_stage.recorder.refuse(self._xp_name)


class _Distribution(Forbidden):
    """A distribution of `scipy.stats`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        what = self.__xpapply_real__
        if name in ["pdf", "pmf", "cdf", "sf", "ppf", "isf", "logpdf", "logpmf", "logcdf", "logsf"]:
            method = getattr(what, name)

            def call(x: Any, *args: Any, **kwargs: Any) -> Any:
                recorder = self._xp_stage.recorder
                if any(True for _ in tracers((args, kwargs))):
                    raise recorder.refuse(f"{self._xp_name}.{name} with traced parameters")
                bound = functools.partial(_with_parameters, method, args, kwargs)
                if not isinstance(x, Tracer):
                    return self._xp_stage._fresh(bound(x))
                return recorder.call(basic.ELEMENTS, bound, (x,), batch=((bound, x), {}))

            return call
        return super().__getattr__(name)


def _with_parameters(method: Any, args: tuple, kwargs: dict, x: Any) -> Any:
    return method(x, *args, **kwargs)


_PLAIN = frozenset(
    (bool, int, float, complex, str, bytes, slice, range, type(Ellipsis), type(NotImplemented))
)
_BUILTIN_OBJECTS = {
    getattr(builtins, n)
    for n in ("max", "min", "sum", "sorted", "all", "any", "isinstance", "hasattr", "len")
}


def real_arguments(tree: Any) -> Any:
    """Arguments with the objects themselves in the place of classes and functions."""
    if isinstance(tree, tuple):
        return tuple(map(real_arguments, tree)) if type(tree) is tuple else tree
    if isinstance(tree, list):
        return [real_arguments(x) for x in tree]
    if isinstance(tree, dict):
        return {k: real_arguments(x) for k, x in tree.items()}
    if type(tree) is Object:
        raise tree._xp_stage.recorder.refuse(f"{tree._xp_name} goes into a library's function")
    return tree.__xpapply_real__ if isinstance(tree, Substitute) else tree


def namespace_of(recorder: Recorder, stage: Stage | None = None) -> Any:
    """The namespace that ``f`` asks an array for."""
    if recorder.library == "torch":
        import array_api_compat.torch as namespace

        return (stage or recorder.stage).substitute(namespace)
    return (stage or recorder.stage).substitute(np)
