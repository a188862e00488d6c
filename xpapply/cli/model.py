"""The function of a slice that MODEL names: a file, or a name in a module."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any

from ..errors import InputError, UnsupportedError, add_note

_SAID_HERE = {
    "activation=": "--activation",
    "key=": "--key",
    "output=": "--model-output",
    "trust=True": "--trust",
    "layers=": "a list in a JSON file beside",
    "module=": "not possible: see load_model",
}
"""Arguments of `load_model` that its errors name, and what stands for them here."""


def load(
    text: str,
    activation: str | None = None,
    output_activation: str | None = None,
    key: str | None = None,
    model_output: str | None = None,
    trust: bool = False,
) -> Any:
    """The function.

    Parameters
    ----------
    text : str
        A file that `xpapply.load_model` reads; ``module:name``; or ``file.py:name``.
    activation, output_activation : str or None
        Of networks in files that do not say it.
    key, model_output : str or None
        Of files with several sets of weights, or several outputs: which.
    trust : bool
        Whether files may run code of their own.

    Raises
    ------
    InputError
        If there is no such file or name, or it is not a function.
    """
    path = Path(text)
    how = {"activation": activation, "output_activation": output_activation, "key": key}
    how = {k: v for k, v in {**how, "output": model_output}.items() if v is not None}
    if path.suffix == ".py" and path.is_file():
        raise InputError(f"{text}: say which function of it, {text}:NAME")
    if path.exists():
        return _from_file(path, trust, how)
    source, colon, name = text.rpartition(":")
    if not colon or not source or not name:
        raise InputError(
            f"{text}: there is no such file. MODEL is a file with a model, or a function: "
            "package.module:name, script.py:name"
        )
    if how:
        raise InputError(
            "--activation, --output-activation, --key and --model-output are for files of models, "
            "and not for functions"
        )
    found = _script(Path(source)) if source.endswith(".py") else _module(source)
    first, *rest = name.split(".")
    try:
        function = found[first] if first in found else getattr(sys.modules[source], first)
        for part in rest:
            function = getattr(function, part)
    except (AttributeError, KeyError):
        raise InputError(f"{source} has no {name}") from None
    return function


def _from_file(path: Path, trust: bool, how: dict[str, Any]) -> Any:
    from .. import load_model

    try:
        return load_model(path, trust=trust, **how)
    except (InputError, UnsupportedError) as error:
        text = str(error).replace("output_activation=", "")
        here = [f"{name} is {option}" for name, option in _SAID_HERE.items() if name in text]
        if here:
            add_note(error, f"On the command line {', '.join(here)}.")
        raise


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
