"""Trained models from files, as functions of a slice. Reading a file runs no code of it.

- `model.py`, `layers.py`: a model whose layers are known, and what layers do to a slice
- `inferred.py`: layers from the keys and shapes of weights, or from a list of them
- `safetensors.py`, `torch_files.py`: weights from files
- `pickles.py`, `programs.py`: what is refused, or trusted
- `onnx/`: ONNX files
- `xpapply.ir.saved`: the files of `Plan.save`
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, UnsupportedError
from ..ir import saved
from ..limits import LIMITS
from ..planning.plan import of_graph
from . import inferred, pickles, programs, safetensors, torch_files
from .inferred import Description, SavedTensor
from .model import Model as Model

_TORCH_BEFORE_1_6 = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19"
_COMPRESSED = (
    *(b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"),  # zlib
    *(b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x5d\x00\x00", b"\x04\x22\x4d\x18"),
)
_OTHERS = {
    b"\x89HDF\r\n\x1a\n": "an HDF5 file, as Keras writes them. Export the model to ONNX, or give "
    "its weights to xpapply.MLP",
    b"\x93NUMPY": "an array of NumPy, no model",
    b"GGUF": "a GGUF file of a language model, no function of a slice",
}
_SUFFIXES = frozenset(".safetensors .pt .pth .ckpt .bin .pt2 .onnx .xpapply .pkl .joblib".split())


def load_model(
    path: str | os.PathLike[str],
    *,
    activation: str | Sequence[str] | None = None,
    output_activation: str | None = None,
    layers: Sequence[Any] | None = None,
    module: Any = None,
    key: str | None = None,
    output: str | None = None,
    trust: bool = False,
) -> Callable[..., Any]:
    """A trained model from a file, as a function of one slice for `apply_along_axis`.

    What a file is its content tells, not its name. Nothing in it is run, unless you trust it.

    Parameters
    ----------
    path : str or path
        Weights in a safetensors file, or in a state_dict or checkpoint of torch; a plan that
        `Plan.save` wrote; an ONNX file. Also, with `trust`, TorchScript, ``.pt2``, a whole module
        of torch, a pickle or a file of joblib.
    activation : str or sequence of str, optional
        What is between the layers of a file of weights, as of `MLP`: "relu", "tanh", "gelu" ...;
        a sequence gives one for each gap. Files of weights do not say it.
    output_activation : str, optional
        Behind the last layer; by default nothing.
    layers : sequence of str or dict, optional
        Instead of both: all layers in their order. A name of a layer in the file, such as "fc1";
        a layer without weights, such as "relu" or "flatten"; or a dict with "layer" or "type", and
        parameters: ``{"layer": "conv1", "stride": 2}``, ``{"type": "max_pool", "size": 2}``.
        Where none of the three is given they are looked for in a JSON file beside, ``net.json`` for
        ``net.safetensors``, by the same names.
    module : torch.nn.Module, or a callable that makes one, optional
        Gets the weights, and is the result, in evaluation mode.
    key : str, optional
        Which dict of a checkpoint has the weights, where there are several.
    output : str, optional
        Which output of an ONNX file, where there are several.
    trust : bool, optional
        Whether the file may run code. Only for files whose origin you know.

    Returns
    -------
    callable
        A function of a slice ``(M,)`` or, of convolutions, ``(channels, height, width)``. It
        computes and returns in the dtype of its weights.

    Raises
    ------
    InputError
        For a damaged file, and for weights whose layers are not clear, with what to give.
    UnsupportedError
        For a file that would run code, and where a package is missing.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import tempfile, numpy as np, xpapply
    >>> from safetensors.numpy import save_file
    >>> path = tempfile.mkdtemp() + "/net.safetensors"
    >>> first, last = np.eye(2, dtype="f"), np.ones((1, 2), "f")
    >>> save_file({"0.weight": first, "2.weight": last}, path)
    >>> net = xpapply.load_model(path, activation="relu")
    >>> net
    Model(linear 2-2, relu, linear 2-1; float32)
    >>> xpapply.apply_along_axis(net, -1, np.array([[1.0, 2.0], [3.0, -1.0]]))
    array([[3.],
           [3.]], dtype=float32)
    """
    file = Path(path)
    try:
        given = inferred.asked(activation, output_activation, layers)
        return _load(file, given, module, key, output, trust)
    except (InputError, UnsupportedError) as error:
        text, name = str(error), file.name or str(file)
        says = text.startswith((f"{name} ", f"{name}: ", f"{file} "))
        named = text if says else f"{name}: {text}"
        raise type(error)(named) from error.__cause__


def _load(
    file: Path, given: Description, module: Any, key: str | None, output: str | None, trust: bool
) -> Any:
    if file.is_dir():
        there = sorted(p.name for p in file.iterdir() if p.suffix.lower() in _SUFFIXES)
        inside = f", such as {', '.join(there[:5])}" if there else ""
        raise InputError(f"{file} is a folder: give the file of the model inside{inside}")
    if file.exists() and not file.is_file():  # of a pipe nothing might ever come
        raise InputError("it is not a file, but a pipe or a device")
    kind = _kind(file)
    if output is not None and kind != "onnx":
        raise InputError("output= is for ONNX files, which name their outputs")
    if kind in ("safetensors", "weights", "old"):
        return _of_weights(file, kind, given, module, key, trust)
    if module is not None or key is not None or not given.is_empty:
        raise InputError(
            "activation=, layers=, module= and key= are for files of weights. This one is "
            f"{_NAMES[kind]}, which {_SAYS.get(kind, _CODE)}: leave them out"
        )
    if kind == "saved":
        graph, about = saved.read(file)
        name = about.get("name", file.stem)
        if "signature" in about:
            return of_graph(name, graph, about["signature"])
        if not len(graph.inputs) == len(graph.outs) == 1:
            raise InputError("a plan of several arrays or results that has no signature: damaged")
        return of_graph(name, graph)
    if kind == "onnx":
        from . import onnx

        return onnx.load(file, output=output, trust=trust)
    if not trust:
        raise pickles.refused(*_WHY[kind])
    if kind == "script":
        return programs.load_script(file)
    if kind == "program":
        return programs.load_program(file)
    return pickles.as_function(pickles.load(file, kind == "compressed"), file)


_NAMES = {
    "saved": "a saved plan",
    "onnx": "an ONNX file",
    "script": "a file of TorchScript",
    "program": "a program of torch.export",
    "pickle": "a pickle",
    "compressed": "a compressed file",
}
_SAYS = dict.fromkeys(("saved", "onnx"), "says itself what it computes")
_CODE = "is read by the code that it brings, if you trust it (trust=True)"
_WHY = {
    "script": ("this file of TorchScript was not opened", "it holds a program"),
    "program": ("this program of torch.export was not opened", "it holds pickles"),
    "old": (
        "this file of torch was not opened",
        "it has the format before torch 1.6, a series of pickles (a current torch.save writes "
        "another)",
    ),
    "pickle": ("this pickle was not opened", "a pickle is a program that makes objects"),
    "compressed": (
        "this file was not opened",
        "it is compressed, as joblib writes pickles, which are programs",
    ),
}


def _kind(file: Path) -> str:
    """The kind of a file, by its content."""
    size = file.stat().st_size
    with open(file, "rb") as opened:
        start = opened.read(64)
    if not size:
        raise InputError("the file is empty")
    if start.startswith(saved.MAGIC):
        return "saved"
    if start.startswith(b"PK\x03\x04"):
        kind = torch_files.kind_of_zip(file)
        if not kind:
            raise InputError(
                "a zip file that torch did not write. Models of Keras go by ONNX; arrays of a .npz "
                "go into xpapply.MLP"
            )
        return kind
    if start.startswith(_TORCH_BEFORE_1_6):
        return "old"
    if safetensors.looks_like(start, size):
        return "safetensors"
    for magic, what in _OTHERS.items():
        if start.startswith(magic):
            raise InputError(f"it is {what}")
    if start[0] == 0x80 and start[1:2] <= b"\x05":
        return "pickle"
    if start.startswith(_COMPRESSED):
        return "compressed"
    # a protobuf whose first field is a small version, as ONNX files have it
    if start[0] == 0x08 and start[1:2] < b"\x40" and start[2:3] in _FIELDS_OF_ONNX:
        return "onnx"
    by_suffix = {".safetensors": "safetensors", ".onnx": "onnx"}.get(file.suffix.lower())
    if by_suffix is None:
        raise InputError(
            f"not a file of a model that can be read: it begins with {start[:8]!r}. Read are "
            "safetensors, files of torch, saved plans, ONNX and pickles, each of which begins in "
            "a way of its own. If it is one of them its start is damaged; models of other "
            "libraries go by ONNX"
        )
    return by_suffix


_FIELDS_OF_ONNX = (b"\x12", b"\x1a", b"\x22", b"\x28", b"\x32", b"\x3a", b"\x42", b"\x72")
"""Tags of the fields that may come next."""


def _of_weights(
    file: Path, kind: str, given: Description, module: Any, key: str | None, trust: bool
) -> Any:
    if module is not None and not given.is_empty:
        raise InputError("module= says all that activation= and layers= say: give one of them")
    if kind == "safetensors":
        if key is not None:
            raise InputError("key= is for checkpoints of torch: a safetensors file has one dict")
        weights, said = safetensors.load(file)
        if module is not None:
            return torch_files.into_module(module, torch_files.tensors(weights))
        return _model(file, weights, given, said)
    try:
        if kind == "old":
            raise pickles.refused(*_WHY[kind])
        found = torch_files.state_dict(file, key)
    except UnsupportedError:
        if not trust:
            raise
        whole = torch_files.load_trusted(file)
        if not isinstance(whole, Mapping):
            return pickles.as_function(whole, file)
        found = torch_files.weights_in(whole, key)
    if module is not None:
        return torch_files.into_module(module, found)
    return _model(file, torch_files.as_arrays(found), given)


def _model(
    file: Path, weights: dict[str, SavedTensor], given: Description, said: Description | None = None
) -> Model:
    """The model of weights, with what is said by the caller, a file beside or the metadata."""
    beside = file.with_suffix(".json")
    if given.is_empty and beside != file and beside.is_file():
        given = _beside(beside)
    if given.is_empty and said is not None:
        given = said
    return Model(*inferred.layers_of(weights, given, beside.name))


def _beside(file: Path) -> Description:
    if file.stat().st_size > LIMITS.model_json:
        raise InputError(f"{file.name} beside it is too long for a description of layers")
    try:
        said = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file.name} beside it is not JSON: {str(error)[:200]}") from None
    return inferred.described(said, file.name)
