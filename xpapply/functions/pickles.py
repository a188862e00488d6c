"""Functions pickled by value, by the copy of cloudpickle that there is."""

from __future__ import annotations

import importlib
import io
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar

COPIES = ("cloudpickle", "joblib.externals.cloudpickle", "ray.cloudpickle", "pyspark.cloudpickle")
"""The package, and the copies that other libraries have: what one writes the others can read."""


def cloudpickle() -> Any:
    """The module; None where there is none."""
    return next(filter(None, map(_found, COPIES)), None)


def _found(name: str) -> Any:
    """A module, if it is installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def dumps(module: Any, x: Any) -> bytes:
    """The pickle of `x`, by a copy of cloudpickle.

    Since its version 3.1.3 all code that it writes is of the file ``<dynamic-code>``. Here it
    keeps its own, which warnings and reasons name in the process that reads it.
    """
    known = module.CloudPickler.dispatch_table

    def reduced(code: CodeType) -> tuple[Any, ...]:
        make, parts = known[CodeType](code)
        return of_file, (code.co_filename, make, *parts)

    class Pickler(module.CloudPickler):  # type: ignore[misc]
        dispatch_table: ClassVar = ChainMap({CodeType: reduced}, known)

    with io.BytesIO() as file:
        Pickler(file).dump(x)
        return file.getvalue()


def of_file(name: str, make: Callable[..., CodeType], *parts: Any) -> CodeType:
    """Code that was pickled, with the name of its file."""
    return make(*parts).replace(co_filename=name)
