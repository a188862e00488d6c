"""Addresses of arrays in memory."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

_HEAD = object.__basicsize__
_at = ctypes.c_size_t.from_address


def _read(x: np.ndarray) -> int:
    return _at(id(x) + _HEAD).value


_probe = np.empty(3)[1:]
_readable = sys.implementation.name == "cpython" and _read(_probe) == _probe.ctypes.data


def _asked(x: np.ndarray) -> int:
    return x.ctypes.data


of_array: Callable[[np.ndarray], int] = _read if _readable else _asked
"""Read where NumPy's C interface has it, in a tenth of the time of ``x.ctypes.data``."""


def _of_tensor(x: Any) -> int:
    found: int = x.data_ptr()
    return found


def address_of(x: Any) -> Callable[[Any], int]:
    """The function that returns the address of the first element of such arrays."""
    return of_array if isinstance(x, np.ndarray) else _of_tensor
