"""Weights in safetensors files, as NumPy has them: by the package, without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, UnsupportedError
from ..limits import LIMITS
from .inferred import Description, SavedTensor, described

_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}


def looks_like(start: bytes, size: int) -> bool:
    """Whether a file of this start and size may be a safetensors file."""
    return start[8:9] == b"{" and 2 <= int.from_bytes(start[:8], "little") <= size - 8


def load(path: Path) -> tuple[dict[str, SavedTensor], Description]:
    """The weights by key, and what the metadata says of the network.

    Raises
    ------
    InputError
        If the file is damaged.
    UnsupportedError
        If the package is missing.
    """
    try:
        import safetensors
    except ImportError:
        raise UnsupportedError(
            f"{path.name} is a safetensors file, and the package safetensors is missing: "
            'pip install safetensors, or "xpapply[models]"'
        ) from None
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        size = path.stat().st_size
        if length > min(LIMITS.safetensors_header, size - 8):
            raise InputError(
                f"the header should have {length:,} bytes; the file has {size:,}, and headers have "
                f"{LIMITS.safetensors_header:,} at most. It is cut off, damaged, or no "
                "safetensors file"
            )
        data = length.to_bytes(8, "little") + file.read()
    try:
        found: Any = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__") or {}
    except Exception as error:
        raise InputError(f"damaged, or no safetensors file: {str(error)[:200]}") from None
    return {str(name): _tensor(str(name), x) for name, x in found}, _said(metadata)


def _tensor(name: str, x: dict[str, Any]) -> SavedTensor:
    dtype = _DTYPES.get(str(x["dtype"]))
    if dtype is None:
        raise InputError(
            f"{name} has dtype {x['dtype']}: float16, bfloat16, float32 and float64 are read"
        )
    if dtype == "bfloat16":  # the upper half of a float32
        wide = np.frombuffer(x["data"], "<u2").astype(np.uint32) << 16
        return SavedTensor(wide.view(np.float32).reshape(x["shape"]), dtype)
    array = np.frombuffer(x["data"], np.dtype(dtype).newbyteorder("<")).reshape(x["shape"])
    return SavedTensor(array.astype(dtype, copy=False), dtype)


def _said(metadata: dict[str, str]) -> Description:
    """The description in our keys of the metadata, which are texts."""
    said: dict[str, Any] = {
        k: x for k, x in metadata.items() if k in ("activation", "output_activation", "layers")
    }
    if "layers" in said:
        try:
            said["layers"] = json.loads(said["layers"])
        except (ValueError, RecursionError):
            raise InputError("the metadata has 'layers' that are not JSON") from None
    return described(said, "the file's metadata")
