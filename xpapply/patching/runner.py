"""A script or a module run as Python itself would run it, but patched."""

from __future__ import annotations

import atexit
import contextlib
import importlib.machinery
import io
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from types import ModuleType, TracebackType
from typing import Any

from . import patch, places

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_RUNPY = ("<frozen runpy>", runpy.__file__)


def run(
    target: str,
    args: Sequence[str],
    *,
    module: bool = False,
    report: str | None = None,
    quiet: bool = False,
) -> None:
    """Run a program in this process, which is patched from now on.

    Parameters
    ----------
    target : str
        A file, a folder or zip file with a ``__main__.py``; or the name of a module.
    args : sequence of str
        The arguments of the program.
    module : bool, optional
        Whether `target` is the name of a module, as of ``python -m``.
    report : str, optional
        A file for the report.
    quiet : bool, optional
        Whether the report is not shown when the program ends.

    Raises
    ------
    BaseException
        What the program raises. What Python shows of it has no lines of xpapply.
    """
    _end_with_report(patch(), report, quiet)
    _tell_children()
    main = ModuleType("__main__")
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    sys.modules["__main__"] = main
    sys.argv[:] = [target, *args]
    target = target if module else os.path.abspath(target)
    try:
        if module:
            runpy._run_module_as_main(target)  # type: ignore[attr-defined]
            return
        if os.path.isfile(target) and not _is_archive(target):
            if not sys.flags.safe_path:
                sys.path[0] = os.path.dirname(os.path.realpath(target))
            _run_file(target, main)
            return
        if not sys.flags.safe_path and sys.path:
            del sys.path[0]  # it becomes the folder or archive itself
        sys.path.insert(0, target)
        runpy._run_module_as_main("__main__", False)  # type: ignore[attr-defined]
    except SystemExit:
        raise
    except BaseException:
        _hide_own_lines()
        raise


def _run_file(path: str, main: ModuleType) -> None:
    """Run as ``python path``: in a module ``__main__`` without a spec."""
    if path.endswith(".pyc"):
        loader: Any = importlib.machinery.SourcelessFileLoader("__main__", path)
        code = loader.get_code("__main__")
    else:
        loader = importlib.machinery.SourceFileLoader("__main__", path)
        with io.open_code(path) as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
    vars(main).update(__file__=path, __cached__=None, __loader__=loader, __spec__=None)
    exec(code, vars(main))


def _is_archive(path: str) -> bool:
    import zipfile

    return not path.endswith((".py", ".pyc")) and zipfile.is_zipfile(path)


# --- the end ------------------------------------------------------------------------------------


def _end_with_report(patched: patch, path: str | None, quiet: bool) -> None:
    """Show the report when this process ends, but not when one that it forks does."""
    here = os.getpid()
    path = None if path is None else os.path.abspath(path)

    def end() -> None:
        if os.getpid() != here:
            return
        if not quiet:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
            with contextlib.suppress(Exception):  # there may be no stderr, or a closed one
                print(patched.report, file=sys.stderr, flush=True)
        if path is not None:
            try:
                patched.report.save(path)
            except OSError as error:
                print(f"xpapply: cannot write the report: {error}", file=sys.stderr)

    atexit.register(end)


# --- tracebacks ---------------------------------------------------------------------------------


def _hide_own_lines() -> None:
    """Have Python show what is raised now as if there were no runner."""
    hook = sys.excepthook

    def show(kind: Any, error: BaseException, trace: TracebackType | None) -> None:
        trace = _of_program(trace)
        hook(kind, error.with_traceback(trace), trace)

    sys.excepthook = show


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from where the program begins."""
    while trace is not None and _is_own(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _is_own(file: str) -> bool:
    return file.startswith(_HERE) or file in _RUNPY


# --- child processes ----------------------------------------------------------------------------


class _Patched:
    """Patches the process that reads its pickle, if xpapply is found there."""

    def __reduce__(self) -> Any:
        return exec, (_CHILD,)


_CHILD = f"""
try:
    from {__name__} import in_child
except ImportError:
    pass
else:
    in_child()
"""
_kept: list[patch] = []


def in_child() -> None:
    """Patch a process that multiprocessing has started."""
    if not _kept:
        _kept.append(patch())


def _tell_children() -> None:
    """Have processes that multiprocessing starts anew (spawn, forkserver) be patched as well."""
    if _SPAWN in sys.modules:
        _hook_spawn()
    else:
        places.WhenLoaded(_SPAWN, _hook_spawn).start()


_SPAWN = "multiprocessing.spawn"


def _hook_spawn() -> None:
    spawn: Any = sys.modules[_SPAWN]
    own: Callable[..., dict[str, Any]] = spawn.get_preparation_data
    if getattr(own, "of_xpapply", False):
        return

    def get_preparation_data(name: str) -> dict[str, Any]:
        return {**own(name), "xpapply": _Patched()}

    get_preparation_data.of_xpapply = True  # type: ignore[attr-defined]
    spawn.get_preparation_data = get_preparation_data
