"""Files that run code when they are read: refused with the reason and the safe way, or trusted."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from .. import frontends
from ..errors import InputError, UnsupportedError

_SAFE = (
    "Safe ways: where the model is, xpapply.compile(model, slice_shape, dtype).save(path), "
    "weights alone (safetensors, or torch.save(model.state_dict(), path)), or ONNX"
)


def refused(what: str, why: str) -> UnsupportedError:
    """The error for a file that is not opened."""
    return UnsupportedError(
        f"{what}: {why}, and may run any code when it is read. {_SAFE}. If you trust where it "
        "comes from: load_model(path, trust=True)"
    )


def load(path: Path, compressed: bool) -> Any:
    """Load a pickle, by joblib where it is installed. Only for trusted files.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    try:
        import joblib
    except ImportError:
        if compressed:
            raise UnsupportedError(
                f"{path.name} is compressed, as joblib writes files: pip install joblib"
            ) from None
        joblib = None
    try:
        if joblib is not None:
            return joblib.load(path)
        with open(path, "rb") as file:
            return pickle.load(file)
    except Exception as error:
        what = f"{type(error).__name__}: {str(error).strip()[:200]}"
        raise InputError(
            f"the pickle cannot be read: {what}. Its classes and functions have to be there under "
            "the names that they had when it was written; or it is damaged"
        ) from error


def as_function(x: Any, path: Path) -> Any:
    """A function of a slice from a loaded object: an estimator's method, a module in eval mode.

    Raises
    ------
    InputError
        If it is none.
    """
    if callable(getattr(x, "eval", None)) and callable(getattr(x, "state_dict", None)):
        return x.eval()
    x = frontends.as_function(x)
    if not callable(x):
        raise InputError(
            f"{path.name} holds an object of class {type(x).__qualname__}, which is neither a "
            "function of a slice nor an estimator"
        )
    return x
