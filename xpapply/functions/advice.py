"""Advice for calls of models that cannot run as they are.

Libraries are recognised by the package of a class or of a line of code: none is imported.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

from .. import arrays, config
from ..errors import add_note
from .estimators import MAIN, METHODS

_INSIDE = ("state_dict", "model_state_dict", "model")
"""Keys of a model's weights in checkpoints."""

_LOAD = "load it into its module: net.load_state_dict({}); net.eval(), and pass net"


def for_model(f: Any) -> str:
    """The line to write for a model that is not a function; "" for anything else."""
    if callable(getattr(f, "fit", None)):
        for name in MAIN:
            if hasattr(f, name):
                return f"write lambda v: model.{name}(v.reshape(1, -1))[0]"
    if callable(getattr(f, "run", None)) and callable(getattr(f, "get_inputs", None)):
        return "write lambda v: session.run(None, {session.get_inputs()[0].name: v[None]})[0][0]"
    if _is_state_dict(f):
        return _LOAD.format("...")
    for key in _INSIDE:
        if isinstance(f, dict) and _is_state_dict(f.get(key)):
            return _LOAD.format(f"f[{key!r}]")
    return ""


def _is_state_dict(x: Any) -> bool:
    """Whether `x` is a dict of arrays alone."""
    return (
        isinstance(x, dict)
        and bool(x)
        and all(isinstance(k, str) and arrays.library(v) is not None for k, v in x.items())
    )


def note(error: BaseException) -> None:
    """Add to what `f` raised what to write instead, where a model got a slice as it is."""
    text = str(error)
    frames = list(_frames(error))
    if isinstance(error, (TypeError, AttributeError)) and "ndarray" in text:
        numpys = "numpy.ndarray" in text  # CuPy's class is written in Python: "ndarray"
        line = "torch.from_numpy(v)" if numpys else "torch.as_tensor(v, device='cuda')"
        if any(_package(frame) == "torch" for frame in frames):
            module = any(
                callable(getattr(frame.f_locals.get("self"), "state_dict", None))
                for frame in frames
            )
            what = f"pass the net itself as f, or net({line})" if module else f"pass {line}"
            add_note(error, f"torch takes tensors, the slice is an array: {what}")
        elif "must be Tensor, not" in text:
            add_note(error, f"torch takes tensors, the slice is an array: pass {line}")
    elif isinstance(error, TypeError) and text.startswith("Implicit conversion to a NumPy array"):
        where = {_package(frame) for frame in frames} & {"scipy", "numpy", "sklearn"}
        if where:
            named = {"scipy": "SciPy", "numpy": "NumPy", "sklearn": "scikit-learn"}[min(where)]
            add_note(
                error,
                f"{named} takes arrays of the host, the slice is on a GPU: pass v.get(), and "
                "return cupy.asarray(...) of what it gives",
            )
    elif layer := _layer(frames):
        add_note(error, layer)
    elif isinstance(error, TypeError) and "unexpected keyword argument" in text:
        name = text.rpartition("argument ")[2].partition(".")[0].strip("'\"")
        if name in config.NAMES:
            add_note(
                error,
                f"further arguments are those of f; an option of xpapply is given around the call: "
                f"with xpapply.options({name}=...):",
            )
    if isinstance(error, ValueError) and "got 1D array instead" in text:
        for name in (frame.f_code.co_name for frame in frames if _package(frame) == "sklearn"):
            if name in METHODS:  # others wrap it
                add_note(error, f"a slice is one sample: write model.{name}(v.reshape(1, -1))[0]")
                return


def layers_before(error: BaseException) -> int:
    """The number of layers before the one that raised."""
    calls = _calls(list(_frames(error)))
    if not calls:
        return 0
    root, last = calls[0].f_locals["self"], calls[-1].f_locals["self"]
    return next((k for k, m in enumerate(root.modules()) if m is last), 0)


def _layer(frames: list[FrameType]) -> str:
    """The layer of a torch network that raised, and what it got; "" where none did."""
    calls = _calls(frames)
    if not calls:
        return ""
    root, last = calls[0].f_locals["self"], calls[-1].f_locals["self"]
    name = next((name for name, m in root.named_modules() if m is last), "")
    tensors = [x for x in calls[-1].f_locals.get("args", ()) if hasattr(x, "shape")]
    given = ", ".join(str(tuple(x.shape)) for x in tensors) or "no tensor"
    what = f"layer {name!r}, " if name else ""
    shown = str(last).partition("\n")[0].removesuffix("(")
    return f"in {what}{shown}, which got {given}{_of_another_dtype(tensors, last)}"


def _of_another_dtype(tensors: list[Any], layer: Any) -> str:
    """What to write where floats are not those of the weights of a layer; "" if they are."""
    own = next((x.dtype for x in layer.parameters() if x.is_floating_point()), None)
    found = next((x.dtype for x in tensors if x.is_floating_point() and x.dtype != own), None)
    if own is None or found is None:
        return ""
    return f" of {found}, while its weights are {own}: write torch.from_numpy(v).to({own})"


def _calls(frames: list[FrameType]) -> list[FrameType]:
    """The calls of torch's modules among them, the network's first."""
    return [
        frame
        for frame in frames
        if frame.f_code.co_name == "_call_impl"
        and _package(frame) == "torch"
        and hasattr(frame.f_locals.get("self"), "named_modules")
    ]


def _frames(error: BaseException) -> list[FrameType]:
    found, step = [], error.__traceback__
    while step is not None:
        found.append(step.tb_frame)
        step = step.tb_next
    return found


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]
