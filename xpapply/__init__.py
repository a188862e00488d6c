"""xpapply: `numpy.apply_along_axis` without the Python loop, on any array library.

>>> import numpy as np, xpapply
>>> net = xpapply.MLP([np.eye(3), np.ones((1, 3))], activation="tanh")
>>> xpapply.apply_along_axis(net, -1, np.zeros((64, 64, 3))).shape
(64, 64, 1)
"""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "MLP",
    "FallbackWarning",
    "InputError",
    "Plan",
    "TraceError",
    "UnsupportedError",
    "XpapplyError",
    "apply_along_axis",
    "avg_pool",
    "compile",
    "conv",
    "elementwise",
    "explain",
    "get_array_module",
    "lift",
    "load_model",
    "max_pool",
    "options",
    "patch",
    "reduction",
    "special",
    "vectorize",
]

_FILES = {
    "apply": ("apply_along_axis", "compile", "explain", "lift"),
    "config": ("options",),
    "convolution": ("avg_pool", "conv", "max_pool"),
    "custom": ("elementwise", "reduction"),
    "errors": ("FallbackWarning", "InputError", "TraceError", "UnsupportedError", "XpapplyError"),
    "mlp": ("MLP",),
    "models": ("load_model",),
    "pandas.engine": ("__pandas_udf__",),
    "arrays": ("get_array_module",),
    "patching": ("patch",),
    "planning.plan": ("Plan",),
    "special": ("special",),
    "vectorized": ("vectorize",),
}
"""Files of the public names, loaded on first access."""

if TYPE_CHECKING:
    from . import special
    from .apply import apply_along_axis, compile, explain, lift
    from .arrays import get_array_module
    from .config import options
    from .convolution import avg_pool, conv, max_pool
    from .custom import elementwise, reduction
    from .errors import FallbackWarning, InputError, TraceError, UnsupportedError, XpapplyError
    from .mlp import MLP
    from .models import load_model
    from .patching import patch
    from .planning.plan import Plan
    from .vectorized import vectorize
else:  # type checkers would take any name from it

    def __getattr__(name):
        for file, names in _FILES.items():
            if name in names:
                module = import_module(f"{__name__}.{file}")
                found = module if name == file else getattr(module, name)
                globals()[name] = found
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(ip: Any) -> None:
    """Patch NumPy and CuPy in a notebook: ``%load_ext xpapply``."""
    from .patching import notebook

    notebook.load(ip)


def unload_ipython_extension(ip: Any) -> None:
    """Undo it: ``%unload_ext xpapply``."""
    from .patching import notebook

    notebook.unload(ip)


def _before_fork() -> None:
    if "torch" in sys.modules:
        from .runtime import threads  # noqa: F401  # torch's threads are lost in the child: it must know


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_before_fork)
