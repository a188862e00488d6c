"""ONNX files as functions of a slice.

- `files.py`: reading a file, and what is looked at before anything of it is believed
- `messages.py`: how many parts it has, before protobuf reads it
- `program.py`: what it says, as plain Python
- `writer.py`: the graph of one slice, node by node
- `elementwise.py`, `shapes.py`, `layers.py`, `ml.py`, `trees.py`: the operators, a row for each
- `model.py`: the function of a slice
- `runtime.py`: what has no graph runs through onnxruntime, in batches
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from ...errors import InputError, TraceError, UnsupportedError
from ...ir.graph import ShapeDtype


def load(path: str | Path, *, output: str | None = None, trust: bool = False) -> Any:
    """An ONNX file as a function of a slice.

    The first axis of the model's input is that of batches, slices are what follows: a slice gives
    what the model gives for a batch of it alone, without the axis of batches.

    Parameters
    ----------
    path : path-like
        The file. Weights in files beside it, in the same folder, are read too.
    output : str, optional
        Which output, where there are several: classifiers have labels and probabilities. The
        dicts of probabilities that skl2onnx makes (ZipMap) are an array, with a column per class.
    trust : bool, optional
        Makes no difference: nothing that a file says is executed.

    Returns
    -------
    callable
        A function of a slice, shape (M,) or with several axes, of any real dtype, which is cast to
        that of the model's input. It gives the output's shape without the axis of batches, and its
        dtype. It can be pickled.

    Raises
    ------
    InputError
        For what is not an ONNX model, is damaged, has several inputs, or several outputs and no
        `output`; for a batch of a fixed size above 1; where a node has no graph and onnxruntime is
        not installed.
    UnsupportedError
        Without the package onnx.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, onnx, xpapply
    >>> from onnx import helper, numpy_helper
    >>> layers = ("Gemm", ["x", "w"], ["h"]), ("Relu", ["h"], ["y"])
    >>> nodes = [helper.make_node(*layer) for layer in layers]
    >>> w = numpy_helper.from_array(np.array([[1, -1], [2, 0]], np.float32), "w")
    >>> x, y = (helper.make_tensor_value_info(k, 1, ["batch", 2]) for k in "xy")
    >>> graph = helper.make_graph(nodes, "layer", [x], [y], [w])
    >>> path = Path(tempfile.mkdtemp(), "layer.onnx")
    >>> onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    >>> layer = load(path)
    >>> layer
    OnnxModel('layer.onnx', float32[2] -> 'y')
    >>> xpapply.apply_along_axis(layer, 0, np.array([[1.0, 2.0, 3.0], [0.5, 0.5, -4.0]]))
    array([[2., 3., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    path = Path(path)
    try:
        from . import files, model, runtime
    except ModuleNotFoundError as error:
        if error.name != "onnx":
            raise
        raise UnsupportedError(
            f"{path.name}: the package onnx is not installed, which reads such files: "
            "pip install onnx"
        ) from None
    found = model.OnnxModel(files.read(path, output), path.name)
    shape = found.slice_shape
    if shape is not None and None not in shape:  # what is wrong with it is said now
        with contextlib.suppress(TraceError):  # which is not the end, as onnxruntime is there
            found.lift(ShapeDtype(shape, found.dtype))  # type: ignore[arg-type]
    elif (why := found.why_not()) and not runtime.is_there():
        raise InputError(f"{path.name}: {why}; {runtime.INSTALL}")
    return found
