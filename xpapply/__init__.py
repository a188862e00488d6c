"""xpapply: `numpy.apply_along_axis` without the Python loop, on any array library.

>>> import numpy as np, xpapply
>>> net = xpapply.MLP([np.eye(3), np.ones((1, 3))], activation="tanh")
>>> xpapply.apply_along_axis(net, -1, np.zeros((64, 64, 3))).shape
(64, 64, 1)
"""

from . import special
from .apply import apply_along_axis, compile, explain, lift
from .config import options
from .custom import elementwise, reduction
from .errors import FallbackWarning, InputError, TraceError, UnsupportedError, XpapplyError
from .mlp import MLP
from .namespace import get_array_module
from .plan import Plan

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
    "compile",
    "elementwise",
    "explain",
    "get_array_module",
    "lift",
    "options",
    "reduction",
    "special",
]
