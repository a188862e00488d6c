"""Files of torch: weights by ``weights_only=True``, and, where they are trusted, what runs code.

A file of weights is looked at before torch reads it: its records are as long as they say, not
compressed and undamaged, and its pickle names nothing but tensors. So no file makes torch take more
memory than it has itself.
"""

from __future__ import annotations

import importlib
import io
import os
import pickletools
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, UnsupportedError
from ..limits import LIMITS
from . import pickles
from .inferred import SavedTensor, unwrapped

_ALLOWED = frozenset(
    (
        "collections.OrderedDict",
        "torch._utils._rebuild_tensor_v2",
        "torch._utils._rebuild_tensor",
        "torch._utils._rebuild_parameter",
        "torch.nn.parameter.Parameter",
        "torch.Size",
        "torch.device",
    )
)
_STORAGES = frozenset(
    f"torch.{kind}Storage"
    for kind in "Double Float Half BFloat16 Long Int Short Char Byte Bool".split()
)
_DICTS = ("state_dict", "model_state_dict", "model", "net", "network", "weights", "params")
"""Keys of a model's weights in checkpoints, the usual one first."""


class Bounded(io.FileIO):
    """A file with a limit on single reads."""

    def read(self, size: int | None = -1) -> bytes:
        left = os.fstat(self.fileno()).st_size - self.tell()
        if min(left, left if size is None or size < 0 else size) > LIMITS.torch_read:
            raise InputError(f"a directory or a pickle of more than {LIMITS.torch_read:,} bytes")
        return super().read(size)


def kind_of_zip(path: Path) -> str:
    """The content of a zip file: "weights", "script", "program", or "" for anything else.

    Raises
    ------
    InputError
        If it is no whole zip file.
    """
    try:
        with Bounded(path) as file, zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"a zip file that cannot be read: {str(error)[:200]}") from None
    if len(infos) > LIMITS.torch_records:
        raise InputError(f"a zip file of {len(infos):,} records: at most {LIMITS.torch_records:,}")
    ends = {"/".join(i.filename.split("/")[1:]) or i.filename for i in infos}
    if "constants.pkl" in ends:
        return "script"
    if "archive_format" in ends or "serialized_exported_program.json" in ends:
        return "program"
    if any(e.startswith("models/") and e.endswith(".json") for e in ends):
        return "program"
    return "weights" if "data.pkl" in ends else ""


def as_arrays(weights: Mapping[str, Any]) -> dict[str, SavedTensor]:
    """Weights as NumPy has them."""
    return {k: _tensor(k, x) for k, x in weights.items()}


def _tensor(name: str, x: Any) -> SavedTensor:
    import torch

    dtype = str(x.dtype).removeprefix("torch.")
    if x.layout != torch.strided or x.is_quantized or x.device.type == "meta":
        raise InputError(f"{name} is not a plain tensor, but {x.layout} on {x.device}")
    x = x.detach()
    return SavedTensor(np.array((x.float() if dtype == "bfloat16" else x).numpy()), dtype)


def state_dict(path: Path, key: str | None) -> dict[str, Any]:
    """Names and tensors: those of the file, or of the one dict of tensors in it.

    Raises
    ------
    UnsupportedError
        Without torch, and for files that hold more than weights.
    InputError
        If the file is damaged, or has several such dicts.
    """
    _look_at(path)
    torch = imported(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # mapped: a record that is shorter than the pickle says does not read other memory
            found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        raise InputError(f"torch cannot read it: {short(error)}") from None
    weights = weights_in(found, key)
    with zipfile.ZipFile(path) as archive:
        records = {i.file_size for i in archive.infolist()}
    for name, x in weights.items():
        if x.numel() and x.untyped_storage().nbytes() not in records:
            raise InputError(f"{name} has no record of its size: the file is damaged")
    most = LIMITS.torch_alike * path.stat().st_size + (1 << 20)
    if sum(x.numel() * x.element_size() for x in weights.values()) > most:
        raise InputError("tensors that are much larger than the file: it was made to fill memory")
    return weights


def imported(path: Path) -> Any:
    """The module torch, for a file."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise UnsupportedError(
            f"{path.name} is a file of torch, which is not installed here. Where torch is, write "
            "the weights with safetensors.torch.save_file(model.state_dict(), path), or the whole "
            "network with xpapply.compile(model, slice_shape, dtype).save(path)"
        ) from None


def short(error: Exception) -> str:
    """The text of another library's error, for one of ours."""
    return f"{type(error).__name__}: {str(error).strip()[:200]}"


def _look_at(path: Path) -> None:
    """Refuse what torch should not get."""
    size = path.stat().st_size
    with Bounded(path) as file, zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        names = [i.filename for i in infos]
        if len(set(names)) < len(names):
            raise InputError("a zip file with two records of one name")
        if min(i.header_offset for i in infos):
            raise InputError("a zip file with something before it")
        for i in infos:
            parts = i.filename.split("/")
            if ".." in parts or i.filename.startswith(("/", "\\")) or ":" in parts[0]:
                raise InputError(f"a record with the name {i.filename[:80]!r}")
            if i.compress_type != zipfile.ZIP_STORED or i.compress_size != i.file_size:
                raise InputError(
                    f"record {i.filename[:80]!r} is compressed, {i.file_size:,} bytes in "
                    f"{i.compress_size:,}: torch writes records as they are"
                )
        if sum(i.file_size for i in infos) > size:
            raise InputError("the records of the zip file are longer than the file")
        check_records(archive)
        (pickled,) = [n for n in names if n.split("/")[1:] == ["data.pkl"] or n == "data.pkl"][:1]
        _look_at_pickle(archive.read(pickled))


def check_records(archive: zipfile.ZipFile) -> None:
    """Refuse a record whose checksum does not fit: torch itself does not look at them."""
    try:
        damaged = archive.testzip()
    except Exception as error:
        raise InputError(f"a damaged zip file: {short(error)}") from None
    if damaged is not None:
        raise InputError(
            f"record {damaged[:80]!r} is damaged: its checksum does not fit. (Or it was saved "
            "without checksums, by torch.serialization.set_crc32_options(False).)"
        )
    for info in archive.infolist():
        if not _as_beside(archive, info):
            raise InputError(f"the directory says of record {info.filename[:80]!r} what is not so")


def _as_beside(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bool:
    """Whether a record's checksum and size equal those beside it: the directory has no checksum."""
    file = archive.fp
    assert file is not None
    file.seek(info.header_offset)
    header = file.read(30)
    flags, crc, size, name, more = (
        int.from_bytes(header[a:b], "little") for a, b in _PLACES_IN_HEADER
    )
    if flags & 8:  # after the record, most often with a signature
        file.seek(info.header_offset + 30 + name + more + info.compress_size)
        behind = file.read(12)
        start = 4 if behind.startswith(b"PK\x07\x08") else 0
        crc, size = (int.from_bytes(behind[k : k + 4], "little") for k in (start, start + 4))
    long = not flags & 8 and size == 0xFFFFFFFF  # then it stands elsewhere
    return crc == info.CRC and (long or size == info.compress_size & 0xFFFFFFFF)


_PLACES_IN_HEADER = ((6, 8), (14, 18), (18, 22), (26, 28), (28, 30))
"""Offsets in the header of flags, checksum, size and lengths."""


def _look_at_pickle(data: bytes) -> None:
    """Refuse a pickle that names anything but tensors: it is not read, its opcodes are listed."""
    tuples = 0
    unknown: list[str] = []
    try:
        for n, (op, given, _) in enumerate(pickletools.genops(io.BytesIO(data))):
            if n > LIMITS.torch_opcodes:
                raise InputError(
                    f"more than {LIMITS.torch_opcodes:,} opcodes: too many for weights"
                )
            tuples += op.name.startswith("TUPLE")
            if op.name in ("GLOBAL", "STACK_GLOBAL", "INST", "OBJ"):
                name = str(given).replace(" ", ".")
                known = name in _ALLOWED | _STORAGES or name.startswith(_DTYPES)
                unknown += [name] * (not known and name not in unknown)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"a damaged pickle: {short(error)}") from None
    if tuples > LIMITS.torch_tuples:
        raise InputError(f"more than {LIMITS.torch_tuples:,} tuples: too many for weights")
    if unknown:
        what = f"it holds more than weights: {', '.join(unknown[:5])}"
        raise pickles.refused("this file of torch was not opened", what)


_DTYPES = tuple(f"torch.{d}" for d in ("float", "bfloat16", "int", "uint8", "bool", "half"))


def weights_in(x: Any, key: str | None) -> dict[str, Any]:
    """The dict of tensors that a file holds."""
    if key is not None:
        if not isinstance(x, Mapping) or key not in x or not _is_state_dict(x[key]):
            there = ", ".join(map(repr, x)) if isinstance(x, Mapping) else type(x).__name__
            raise InputError(f"no weights under key={key!r}: the file has {there[:300]}")
        return dict(x[key])
    if _is_state_dict(x):
        return dict(x)
    if not isinstance(x, Mapping):
        raise InputError(f"it holds a {type(x).__name__}, no weights by name")
    found = {str(k): v for k, v in x.items() if _is_state_dict(v) and "optim" not in str(k)}
    named = [k for k in _DICTS if k in found]
    if len(found) == 1 or (named and not set(found) - {named[0]} - {"optimizer"}):
        return dict(found[named[0] if named else next(iter(found))])
    if not found:
        raise InputError(
            f"it holds no weights by name: its keys are {', '.join(map(str, x))[:300]}"
        )
    raise InputError(
        f"it holds several sets of weights, {', '.join(map(repr, found))[:300]}: say which, as key="
    )


def _is_state_dict(x: Any) -> bool:
    import torch

    return (
        isinstance(x, Mapping)
        and bool(x)
        and all(isinstance(k, str) and isinstance(v, torch.Tensor) for k, v in x.items())
    )


# --- into a module ------------------------------------------------------------------------------


def into_module(module: Any, weights: Mapping[str, Any]) -> Any:
    """A module with these weights, in evaluation mode.

    Parameters
    ----------
    module : torch.nn.Module or callable
        It, or what makes it.
    weights : mapping of str to tensor
        Prefixes that wrappers have put before all names are taken off where it has none.
    """
    import torch

    net = module if isinstance(module, torch.nn.Module) else module()
    if not isinstance(net, torch.nn.Module):
        raise InputError(
            f"module= makes a {type(net).__qualname__}: give a torch.nn.Module, or its class"
        )
    found = dict(weights)
    own = set(net.state_dict())
    prefix = unwrapped(found)
    while prefix and not own & set(found):
        first, _, prefix = prefix.partition(".")
        found = {k[len(first) + 1 :]: x for k, x in found.items()}
    try:
        net.load_state_dict(found)
    except RuntimeError as error:
        raise InputError(f"the weights do not fit module=: {str(error)[:1500]}") from None
    return net.eval()


def tensors(weights: Mapping[str, SavedTensor]) -> dict[str, Any]:
    """Weights of another file as tensors."""
    torch = imported(Path("module="))
    return {
        k: torch.from_numpy(np.array(x.array)).to(getattr(torch, x.dtype))
        for k, x in weights.items()
    }


# --- trusted ------------------------------------------------------------------------------------


def load_trusted(path: Path) -> Any:
    """A whole module, or anything else, by pickle.

    Raises
    ------
    InputError
        If torch cannot read it.
    """
    torch = imported(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:
        raise InputError(
            f"torch cannot read it: {short(error)}. Its classes have to be there under the names "
            "that they had when it was saved; or it is damaged"
        ) from error
