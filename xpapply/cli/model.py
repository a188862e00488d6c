"""The function of a slice that MODEL names: a file, or a name in a module."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any

from ..errors import InputError


def load(text: str, activation: str | None, output_activation: str | None, trust: bool) -> Any:
    """The function.

    Parameters
    ----------
    text : str
        A file that `xpapply.load_model` reads; ``module:name``; or ``file.py:name``.
    activation, output_activation : str or None
        Of networks in files that do not say it.
    trust : bool
        Whether files may run code of their own.

    Raises
    ------
    InputError
        If there is no such file or name, or it is no function.
    """
    path = Path(text)
    if path.exists():
        return _from_file(path, activation, output_activation, trust)
    source, colon, name = text.rpartition(":")
    if not colon or not source or not name:
        raise InputError(
            f"{text}: there is no such file. MODEL is a file with a model, or a function: "
            "package.module:name, script.py:name"
        )
    if activation or output_activation:
        raise InputError("--activation is for files with weights, and not for functions")
    found = _script(Path(source)) if source.endswith(".py") else _module(source)
    first, *rest = name.split(".")
    try:
        function = found[first] if first in found else getattr(sys.modules[source], first)
        for part in rest:
            function = getattr(function, part)
    except (AttributeError, KeyError):
        raise InputError(f"{source} has no {name}") from None
    return function


def _from_file(
    path: Path, activation: str | None, output_activation: str | None, trust: bool
) -> Any:
    from .. import load_model

    how = {"activation": activation, "output_activation": output_activation}
    return load_model(path, trust=trust, **{k: v for k, v in how.items() if v is not None})


def _script(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise InputError(f"{path}: there is no such file")
    return runpy.run_path(str(path))


def _module(name: str) -> dict[str, Any]:
    sys.path.insert(0, "")  # as python -m has it
    try:
        return vars(importlib.import_module(name))
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        raise InputError(f"{name}: there is no such module, and no such file") from None
    finally:
        sys.path.remove("")
