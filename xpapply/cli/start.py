"""``xpapply`` and ``python -m xpapply``: a command of `cli`, or a program to run patched."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Sequence

COMMANDS = {
    "run": "apply a model to every slice of a volume or an image, into a file",
    "explain": "say what would run, and how fast it can be",
    "check": "compare some slices with the plain loop",
    "doctor": "say what there is to run with, and try it",
    "demo": "a network on a real MRI volume, with a picture",
}
"""Commands of `cli`, which take precedence over files of their names."""

_USAGE = (
    "xpapply run | explain | check | doctor | demo [--help]\n"
    "       "
    "python -m xpapply [-q] [--report FILE] script.py [args ...]\n"
    "       python -m xpapply [-q] [--report FILE] -m module [args ...]\n"
    "       python -m xpapply"
)


def parser() -> argparse.ArgumentParser:
    """The parser for arguments before a program."""
    made = argparse.ArgumentParser(
        prog="python -m xpapply",
        usage=_USAGE,
        description="Apply a model to a file, or run a program whose calls of "
        "numpy.apply_along_axis and\nnumpy.vectorize run at once where they can. Without "
        "arguments: the versions that a\nbug report needs. xpapply and python -m xpapply are the "
        "same.\n\ncommands:\n" + "\n".join(f"  {name:9}{what}" for name, what in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("-q", "--quiet", action="store_true", help="show no report at the end")
    made.add_argument("--report", metavar="FILE", help="write the report as a page of HTML")
    made.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run a module")
    made.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return made


def start() -> None:
    """Do what the arguments of this process say, and leave it."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int | None:
    """Do what the arguments say.

    Parameters
    ----------
    arguments : sequence of str
        Those of the command line.

    Returns
    -------
    int or None
        The exit status.
    """
    if not arguments:
        from .installed import report

        print(report())
        return None
    if arguments[0] == "--version":
        from .. import __version__

        print(f"xpapply {__version__}")
        return None
    if arguments[0] in COMMANDS:
        from .. import cli

        cli.main(list(arguments))
    read = parser()
    found = read.parse_args(arguments)
    how = {"report": found.report, "quiet": found.quiet}
    if found.report and not os.path.isdir(os.path.dirname(os.path.abspath(found.report))):
        read.error(f"argument --report: there is no folder for {found.report}")
    if found.module is not None:
        if not found.module:
            read.error("argument -m: expected the name of a module")
        name, *rest = found.module
        _run(name, rest, module=True, **how)
    elif found.program:
        path, *rest = found.program
        if not os.path.exists(path):
            print(f"{sys.executable}: {_unknown(path)}", file=sys.stderr)
            return 2
        _run(path, rest, **how)
    else:
        read.error("give a script, or -m and a module")
    return None


def _unknown(name: str) -> str:
    """The message for a name that is neither a file nor a command, with a suggestion."""
    said = f"can't open file {name!r}: there is no such file, and no such command"
    close = difflib.get_close_matches(name.lower(), COMMANDS, 1)
    if close:
        return f"{said}. Did you mean {close[0]}?"
    return f"{said}. The commands are {', '.join(COMMANDS)}"


def _run(*given: object, **how: object) -> None:
    from ..patching import runner

    runner.run(*given, **how)  # type: ignore[arg-type]
