"""A stand-in for CuPy that computes with NumPy and SciPy, for tests without a GPU.

Its arrays are no NumPy arrays: what takes them for such fails here as on a device. Numbers are
arrays without axes, functions refuse NumPy arrays, and have the names and modules of CuPy's.
They run on the current device, and find no arrays of another one.
"""

import contextlib
import functools
import importlib
import sys
import types
from unittest import mock

import numpy as np

MODULES = ("linalg", "fft")
OF_SCIPY = (
    *("ndimage", "signal", "special", "stats", "fft", "fftpack", "linalg", "interpolate"),
    "spatial.distance",
)


_CURRENT = [0]
"""Numbers of devices, of which the last one is current."""


class Device:
    """One of them, which ``with`` makes the current one."""

    def __init__(self, id):
        self.id = id

    def __enter__(self):
        _CURRENT.append(self.id)

    def __exit__(self, *error):
        _CURRENT.pop()

    def __eq__(self, other):
        return isinstance(other, Device) and self.id == other.id

    __hash__ = None


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array "on the device"."""

    __module__ = "cupy"
    __array_priority__ = 100

    def __init__(self, array, device=None):
        self._array = np.asarray(array)
        self.device = Device(_CURRENT[-1]) if device is None else device

    def get(self):
        return self._array.copy()

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return wrapped(getattr(ufunc, method))(*inputs, **kwargs)

    def __array_function__(self, function, types, args, kwargs):
        return wrapped(function)(*args, **kwargs)

    def __getitem__(self, key):
        key = index(key)
        found = self._array[key]
        if not isinstance(found, np.ndarray):  # an element is a part of its array
            found = self._array[(*(key if isinstance(key, tuple) else (key,)), ...)]
        return ndarray(found, self.device)

    def __setitem__(self, key, item):
        self._array[index(key)] = unwrap(item)

    def __len__(self):
        return len(self._array)

    def __iter__(self):
        return (self[k] for k in range(len(self._array)))

    def __bool__(self):
        return bool(self._array)

    def __int__(self):
        return int(self._array)

    def __float__(self):
        return float(self._array)

    def __index__(self):
        return self._array.__index__()

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "ptp":  # NumPy's arrays have it no more
            return wrapped(lambda *args, **kwargs: np.ptp(self._array, *args, **kwargs))
        found = getattr(self._array, name)
        if callable(found):
            return wrapped(found)
        return wrap(found) if isinstance(found, np.ndarray) else found


def wrap(found):
    if isinstance(found, (tuple, list)):
        made = [wrap(x) for x in found]
        if hasattr(found, "_fields"):
            return type(found)(*made)
        return type(found)(made)
    return ndarray(found) if isinstance(found, (np.ndarray, np.generic)) else found


def unwrap(tree):
    if isinstance(tree, ndarray):
        if tree.device.id != _CURRENT[-1]:
            raise RuntimeError("an illegal memory access was encountered")
        return tree._array
    if isinstance(tree, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(tree, (tuple, list)) and not hasattr(tree, "_fields"):
        return type(tree)(map(unwrap, tree))
    if isinstance(tree, dict):
        return {k: unwrap(x) for k, x in tree.items()}
    return tree


def index(key):
    """An index, which may be on the host."""
    if isinstance(key, tuple):
        return tuple(map(index, key))
    return key if isinstance(key, np.ndarray) else unwrap(key)


def wrapped(function):
    def call(*args, **kwargs):
        return wrap(function(*unwrap(args), **unwrap(kwargs)))

    return call


def of(function, module):
    """CuPy's function of the same name."""
    call = functools.wraps(function, assigned=("__name__",), updated=())(wrapped(function))
    call.__module__, call.__qualname__ = f"{module}._private", call.__name__
    return call


def asnumpy(a):
    return a.get() if isinstance(a, ndarray) else np.asarray(a)


def asarray(a, dtype=None, **kwargs):
    if isinstance(a, np.ndarray):  # from the host
        return ndarray(np.array(a, dtype))
    return ndarray(np.asarray(unwrap(a), dtype))


class ufunc:
    """A ufunc of the device: it has no module of its own."""

    __slots__ = ("_ufunc",)

    def __init__(self, function):
        self._ufunc = function

    __name__ = property(lambda self: f"cupyx_scipy_{self._ufunc.__name__}")

    def __call__(self, *args, **kwargs):
        return wrapped(self._ufunc)(*args, **kwargs)

    def accumulate(self, *args, **kwargs):
        return wrapped(self._ufunc.accumulate)(*args, **kwargs)

    def at(self, a, indices, b):
        self._ufunc.at(a._array, index(indices), unwrap(b))

    def __getattribute__(self, name):
        if name in ("__module__", "__qualname__"):
            raise AttributeError(name)
        return object.__getattribute__(self, name)


ufunc.__module__ = "cupy._core._kernel"


def filled(name, source):
    """A module with everything that `source` has."""
    made = types.ModuleType(name)
    for key in dir(source):
        value = getattr(source, key)
        if key.startswith("_") or isinstance(value, types.ModuleType):
            continue
        if isinstance(value, np.ufunc):
            value = ufunc(value)
        elif callable(value) and not isinstance(value, type):
            value = of(value, name)
        setattr(made, key, value)
    return made


@contextlib.contextmanager
def installed():
    """The stand-in as `cupy`, with what is known of functions by their modules put back later.

    No function has a graph there: what runs graphs needs a device.
    """
    from xpapply.batching import names
    from xpapply.errors import TraceError, UnsupportedError
    from xpapply.planning.python.typed_on_device import TypedOnDevice

    def no_graph(*args):
        raise UnsupportedError("its engine needs a device")

    @staticmethod
    def no_device(made):
        raise TraceError("what runs typed functions needs a device")

    made = {"cupy": filled("cupy", np)}
    cupy = made["cupy"]
    cupy.ndarray, cupy.asarray, cupy.array = ndarray, asarray, asarray
    cupy.asnumpy = asnumpy
    cupy.abs = cupy.absolute  # one object, as NumPy has it
    asarray.__module__ = "cupy._creation"
    cupy.apply_along_axis = apply_along_axis
    runtime = types.SimpleNamespace(getDevice=lambda: _CURRENT[-1])
    stream = types.SimpleNamespace(ptr=0, synchronize=lambda: None)  # the default one
    cupy.cuda = types.SimpleNamespace(
        runtime=runtime, Device=Device, get_current_stream=lambda: stream
    )
    for name in MODULES:
        made[f"cupy.{name}"] = cupy.__dict__[name] = filled(f"cupy.{name}", getattr(np, name))
    made["cupyx"] = types.ModuleType("cupyx")
    made["cupyx.scipy"] = made["cupyx"].scipy = types.ModuleType("cupyx.scipy")
    made["cupyx.scipy.spatial"] = types.ModuleType("cupyx.scipy.spatial")
    for name in OF_SCIPY:
        module = filled(f"cupyx.scipy.{name}", importlib.import_module(f"scipy.{name}"))
        made[f"cupyx.scipy.{name}"] = module
    for name in [m for m in made if "." in m]:  # import cupyx.scipy.ndimage, then use it
        above, _, last = name.rpartition(".")
        setattr(made[above], last, made[name])
    ours = lambda: [m for m in sys.modules if m.partition(".")[0] in names.CUPY]  # noqa: E731
    others = {m: sys.modules.pop(m) for m in ours()}
    sys.modules.update(made)
    try:
        with (
            mock.patch("xpapply.frontends.python.graphs.to_graph.to_graph", no_graph),
            mock.patch.object(TypedOnDevice, "_backend", no_device),
        ):
            yield cupy
    finally:  # what else was imported stays: torch cannot be twice
        for m in ours():
            del sys.modules[m]
        sys.modules.update(others)


def apply_along_axis(f, axis, arr, *args, **kwargs):
    view = np.moveaxis(arr._array, axis, -1)
    first = asarray(f(ndarray(view[(0,) * (view.ndim - 1)]), *args, **kwargs))
    out = np.empty((*view.shape[:-1], *first.shape), first.dtype)
    for k, at in enumerate(np.ndindex(view.shape[:-1])):
        found = asarray(f(ndarray(view[at]), *args, **kwargs)) if k else first
        out[at] = found._array
    order = (*range(axis % arr.ndim), *range(view.ndim - 1, out.ndim))
    rest = range(axis % arr.ndim, view.ndim - 1)
    return ndarray(out.transpose(*order, *rest))
