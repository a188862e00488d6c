"""Programs of torch in trusted files: TorchScript and ``.pt2``. A damaged one is not read."""

from __future__ import annotations

import functools
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from .torch_files import Bounded, check_records, imported, short


def batch_of_more(shown: str, count: int, option: str) -> InputError:
    """The error for a program whose batches have a fixed size above 1."""
    return InputError(
        f"its input {shown} is a batch of {count}: export it with an open first axis ({option}), "
        "or with one of length 1"
    )


def load_script(path: Path) -> Any:
    """A module of TorchScript.

    Raises
    ------
    InputError
        If the file is damaged.
    """
    torch = imported(path)
    return _read(path, lambda: torch.jit.load(path, map_location="cpu")).eval()


def load_program(path: Path) -> Any:
    """The module of a program of ``torch.export``. It says what slices it takes.

    Raises
    ------
    InputError
        If the file is damaged.
    """
    torch = imported(path)
    with open(path, "rb") as file:  # by its path torch wants it to end in .pt2
        program = _read(path, lambda: torch.export.load(file))
    net = program.module()
    own = type(net)  # torch makes a class for each
    own.__qualname__ = own.__name__ = "ExportedProgram"
    shapes = _shapes(program)
    if len(shapes) == 1:
        own.forward = _checked(own.forward, *shapes[0], path.name)
    return net


def _read(path: Path, load: Callable[[], Any]) -> Any:
    """Load a file by torch, after all checksums were checked."""
    with Bounded(path) as file, zipfile.ZipFile(file) as archive:
        check_records(archive)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return load()
    except Exception as error:
        raise InputError(
            f"torch cannot read it: {short(error)}. It is damaged, or of another version of torch "
            "than this one"
        ) from error


def _shapes(program: Any) -> list[tuple[str, list[int | None]]]:
    """The inputs of a program: names, and lengths of axes, None for open ones."""
    named = program.graph_signature.user_inputs
    found = []
    for node in program.graph.nodes:
        shape = getattr(node.meta.get("val"), "shape", None)
        if node.op == "placeholder" and node.name in named and shape is not None:
            found.append((node.name, [n if type(n) is int else None for n in shape]))
    return found


def _checked(
    forward: Callable[..., Any], name: str, wants: Sequence[int | None], file: str
) -> Callable[..., Any]:
    """A forward that says what it takes where torch says that its guard failed."""

    @functools.wraps(forward)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return forward(self, *args, **kwargs)
        except AssertionError as error:
            got = tuple(getattr((*args, *kwargs.values())[0], "shape", ()))
            raise _wrong_slice(name, wants, got, file, error) from None

    return checked


def _wrong_slice(
    name: str, wants: Sequence[int | None], got: tuple[int, ...], file: str, error: Exception
) -> InputError:
    dims = ",".join("?" if n is None else str(n) for n in wants)
    shown = f"{name!r} ([{dims}])"
    of_slice = got[1:] if got[:1] == (1,) and len(got) == len(wants) else got
    fits = len(of_slice) == len(wants) - 1
    fits = fits and all(n in (None, m) for n, m in zip(wants[1:], of_slice, strict=True))
    if fits and wants[0] not in (None, 1):
        found = batch_of_more(shown, wants[0] or 0, "dynamic_shapes of torch.export.export")
        return InputError(f"{file}: {found}")
    if list(got) == [n if n is not None else m for n, m in zip(wants, got, strict=False)]:
        return InputError(f"{file}: {str(error)[:200]}, of shape {got}")
    return InputError(
        f"{file}: its input {shown} does not take slices of shape {got}. Is `axis` right? A tuple "
        "of axes gives slices with several"
    )
