"""Substitutes of objects that ``f`` reaches: each records or refuses, and writes nowhere."""

from __future__ import annotations

import functools
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from ....batching import syntax
from ....errors import DRAWS, written_at
from ....runtime.error_state import KINDS
from ..data_dependent.distinct import CLASSES
from ..trace import arrays
from ..trace.python_builtins import real
from ..trace.recorder import Recorder
from ..trace.stand_ins import asked, tracers
from ..trace.tracer import Tracer

if TYPE_CHECKING:
    from .stage import Stage


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


_HELPER = "_xpapply_helper_"
"""What the names of functions begin with that stand for methods of Series."""


class Forbidden(Substitute):
    """Something that is not known; whatever is done with it refuses."""

    __slots__ = ()
    _because = "which xpapply does not know"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self._xp_name
        if name.startswith(_HELPER):
            why = f"of a Series, {name.removeprefix(_HELPER)!r} is for compiled functions alone"
            raise self._xp_stage.recorder.refuse(why)
        raise self._xp_stage.recorder.refuse(f"it calls {name}, {self._because}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._xp_stage.recorder.refuse(f"it uses {self._xp_name}.{name}, {self._because}")

    def _refuse(self, *args: Any) -> Any:
        raise self._xp_stage.recorder.refuse(f"it uses {self._xp_name}, {self._because}")

    def __hash__(self) -> int:
        kind = type(self.__xpapply_real__)
        code = getattr(kind.__hash__, "__code__", None)
        if code is not None and written_at(code.co_filename):
            raise self._xp_stage.recorder.refuse(f"the hash of {self._xp_name}")
        return super().__hash__()

    __getitem__ = __setitem__ = __len__ = __iter__ = __next__ = __contains__ = _refuse
    __bool__ = __enter__ = __exit__ = __add__ = __radd__ = __mul__ = __rmul__ = _refuse
    __sub__ = __rsub__ = __truediv__ = __rtruediv__ = __lt__ = __gt__ = __le__ = __ge__ = _refuse
    __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __neg__ = _refuse
    __index__ = __float__ = __int__ = _refuse


class Different(Forbidden):
    """A part of a result that a batching rule has in another form, such as eigenvectors."""

    __slots__ = ()
    _because = "which for several slices differs from that of one"


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
        raise self._xp_stage.recorder.refuse(f"{DRAWS}: {self._xp_name}.{name}")


_METHODS = ("reduce", "accumulate", "outer", "reduceat", "at")


class Function(Substitute):
    """A function of NumPy, CuPy or SciPy."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._xp_stage.calls.call(self.__xpapply_real__, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        what = self.__xpapply_real__
        if isinstance(what, np.ufunc) and name in _METHODS:
            return lambda *args, **kwargs: self._xp_stage.calls.ufunc(what, name, args, kwargs)
        value = getattr(what, name)
        return value if type(value) in PLAIN else Forbidden(self._xp_stage, value, name)


class Maker(Forbidden):
    """A class, or function, of CuPy that makes an interpolator of the values of a slice."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Made(self._xp_stage, (self.__xpapply_real__, args, kwargs), self._xp_name)


class Made(Forbidden):
    """An object made by a `Maker`; it is recorded when it is called."""

    __slots__ = ()

    def __call__(self, *at: Any, **keywords: Any) -> Any:
        make, args, kwargs = self.__xpapply_real__
        return self._xp_stage.calls.make_and_call(make, args, kwargs, at, keywords)


class Type(Substitute):
    """A class of numbers: ``float``, ``numpy.float32``."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = self._xp_stage.recorder
        what = self.__xpapply_real__
        if what is np.ndarray:
            return self._xp_stage.calls.ndarray(*args, **kwargs)
        if what in CLASSES:
            return CLASSES[what](recorder, *args, **kwargs)
        if len(args) == 1 and not kwargs and any(True for _ in tracers(args)):
            return arrays.cast(arrays.as_array(recorder, args[0]), what)
        made = asked((args, kwargs), f"{what.__name__}()")
        return what(*made[0], **made[1])

    @property
    def dtype(self) -> Any:
        """The object for comparisons of a dtype with it."""
        return np.dtype(self.__xpapply_real__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__xpapply_real__, name)

    def __or__(self, other: Any) -> Any:
        return self.__xpapply_real__ | real(other)


class Object(Substitute):
    """An instance of a class written in Python: its methods are traced, it is never written to."""

    __slots__ = ()

    def _class(self) -> Any:
        self._xp_stage.names_class(type(self.__xpapply_real__))
        return type(self.__xpapply_real__)

    __class__ = property(_class)  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return self._xp_stage.attribute(self.__xpapply_real__, self, name)

    def __setattr__(self, name: str, item: Any) -> None:
        self._xp_stage.set_attribute(self.__xpapply_real__, name, item)

    def _special(name: str) -> Any:  # type: ignore[misc]
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return self._xp_stage.special(self.__xpapply_real__, self, name)(*args, **kwargs)

        return method

    for _name in (
        "call getitem len iter contains bool enter exit add radd sub rsub mul rmul truediv "
        "rtruediv matmul rmatmul neg lt le gt ge index float int next"
    ).split():
        vars()[f"__{_name}__"] = _special(f"__{_name}__")

    def __setitem__(self, key: Any, item: Any) -> None:
        raise self._xp_stage.recorder.refuse(f"it writes into {self._xp_name}")

    def __eq__(self, other: object) -> Any:
        what = self.__xpapply_real__
        self._xp_stage.watch.attribute_of_class(type(what), "__eq__")
        if same_slot(what, "__eq__"):
            return what is real(other)
        return self._xp_stage.special(what, self, "__eq__")(other)

    def __hash__(self) -> int:
        self._xp_stage.watch.attribute_of_class(type(self.__xpapply_real__), "__hash__")
        if not same_slot(self.__xpapply_real__, "__hash__"):
            raise self._xp_stage.recorder.refuse(f"the hash of {self._xp_name}")
        return hash(self.__xpapply_real__)


def same_slot(x: Any, name: str) -> bool:
    """Whether a class inherits this slot from `object`."""
    return bool(getattr(type(x), name) is getattr(object, name))


class Impure(Substitute):
    """A function that writes to something outside it."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name in vars(self.__xpapply_real__):
            raise self._xp_stage.recorder.refuse(self._xp_name)
        raise AttributeError(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder, function = self._xp_stage.recorder, self.__xpapply_real__
        if not written_at(function.__code__.co_filename):
            name = f"{function.__module__}.{function.__qualname__}"
            raise recorder.refuse(f"it calls {name}, which writes to something outside it")
        raise recorder.refuse(self._xp_name)


class Sparse(Forbidden):
    """A sparse matrix of SciPy, compressed by rows or columns: of it products are known."""

    __slots__ = ()

    def __matmul__(self, v: Any) -> Any:
        return self._xp_stage.calls.sparse_product(self.__xpapply_real__, v)

    def __getattr__(self, name: str) -> Any:
        if name == "dot":
            return self.__matmul__
        if name in ("shape", "dtype", "nnz", "ndim"):
            return getattr(self.__xpapply_real__, name)
        return super().__getattr__(name)


class Distribution(Forbidden):
    """A distribution of `scipy.stats`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        what = self.__xpapply_real__
        if name in ["pdf", "pmf", "cdf", "sf", "ppf", "isf", "logpdf", "logpmf", "logcdf", "logsf"]:
            method = LateMethod(what, name, keep=self._xp_stage.calls.made(what))

            def call(x: Any, *args: Any, **kwargs: Any) -> Any:
                recorder = self._xp_stage.recorder
                if any(True for _ in tracers((args, kwargs))):
                    given = x, *args
                    batch = (method, *given), kwargs
                    return recorder.call(syntax.ELEMENTS, method, given, kwargs, batch=batch)
                bound = functools.partial(_with_parameters, method, args, kwargs)
                if not isinstance(x, Tracer):
                    return self._xp_stage.calls.constant(bound(x))
                return recorder.call(syntax.ELEMENTS, bound, (x,), batch=((bound, x), {}))

            return call
        return super().__getattr__(name)


class LateMethod:
    """A method of a library's object, which is not kept alive by what is known of ``f``.

    Equal to another one of the same object, so that paths with the same calls are the same.
    `keep`: it is kept alive, since ``f`` has made it and nothing else does.
    """

    def __init__(self, owner: Any, name: str, *, keep: bool = False) -> None:
        self._owner: Any
        try:
            self._owner = (lambda: owner) if keep else weakref.ref(owner)
        except TypeError:
            self._owner = lambda: owner
        self._name, self._id = name, id(owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._owner(), self._name)(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, LateMethod) and other._name == self._name
        return same and other._owner() is self._owner()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((self._id, self._name))


def _with_parameters(method: Any, args: tuple, kwargs: dict, x: Any) -> Any:
    return method(x, *args, **kwargs)


def _looked_up(how: str, known: Any, k: Any, *default: Any) -> Any:
    """A look-up by a whole number that depends on the slice; by anything else `NotImplemented`."""
    if not isinstance(k, Tracer) or k.ref is None or np.ndim(k.value):
        return NotImplemented
    kind = np.asarray(k.value).dtype
    if kind.kind not in "iu" or kind == np.uint64:
        return NotImplemented
    from . import lookups  # which few functions need

    return getattr(lookups, how)(known, k, *default)


class FrozenList(list):
    """A list that ``f`` did not make."""

    def __getitem__(self, k: Any) -> Any:
        found = _looked_up("in_list", self, k)
        return super().__getitem__(k) if found is NotImplemented else found


class FrozenDict(dict):
    """A dict that ``f`` did not make."""

    def __getitem__(self, k: Any) -> Any:
        found = _looked_up("in_dict", self, k)
        return super().__getitem__(k) if found is NotImplemented else found

    def get(self, k: Any, default: Any = None, /) -> Any:
        found = _looked_up("in_dict", self, k, default)
        return super().get(k, default) if found is NotImplemented else found

    def __contains__(self, k: Any) -> bool:
        found = _looked_up("contains", self, k)
        return super().__contains__(k) if found is NotImplemented else found


class FrozenSet(set):
    """A set that ``f`` did not make."""

    def __contains__(self, k: Any) -> bool:
        found = _looked_up("contains", self, k)
        return super().__contains__(k) if found is NotImplemented else found


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


_PLAIN_STATES = frozenset(("ignore", "warn", "raise", None))


class ErrState:
    """`numpy.errstate` inside ``f``: also for the calls that are written down."""

    def __init__(self, recorder: Recorder, **kwargs: Any) -> None:
        self._recorder, self._kwargs = recorder, kwargs
        self._context = np.errstate(**kwargs)

    def __enter__(self) -> None:
        self._before = self._recorder.errstate
        self._context.__enter__()
        given = dict(self._kwargs)
        if given.pop("call", None) is not None or not _PLAIN_STATES.issuperset(given.values()):
            raise self._recorder.refuse("np.errstate prints, logs or calls something")
        every = dict.fromkeys(KINDS.values(), given.pop("all")) if given.get("all") else {}
        given = {k: str(v) for k, v in given.items() if v is not None}
        # what it does not set is as it is where f is called
        self._recorder.errstate = (self._before or {}) | every | given

    def __exit__(self, *error: Any) -> None:
        self._context.__exit__(*error)
        self._recorder.errstate = self._before


class CatchWarnings:
    """`warnings.catch_warnings` inside ``f``."""

    def __init__(self, recorder: Recorder, **kwargs: Any) -> None:

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

    category = args[0] if args and action else kwargs.get("category", Warning)
    others = set(kwargs) - {"category", "append"} or len(args) > 1
    if action != "ignore" or others or category not in (Warning, RuntimeWarning):
        raise recorder.refuse(f"it sets the warnings filter to {action!r} for some warnings")
    warnings.simplefilter("ignore")
    recorder.quiet = True


PLAIN = frozenset(
    (bool, int, float, complex, str, bytes, slice, range, type(Ellipsis), type(NotImplemented))
)


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


class Jitted(Forbidden):
    """A function that numba has compiled: what it does cannot be seen."""

    __slots__ = ()

    @property
    def _because(self) -> str:  # type: ignore[override]
        x, name = self.__xpapply_real__, self._xp_name
        text = "and numba functions are called slice by slice; write it in Python and NumPy"
        return f"{text}, or pass {name}.py_func" if hasattr(x, "py_func") else text
