"""The command line: ``xpapply run MODEL INPUT -o OUTPUT``, and its companions.

- `start.py`: a command of these, or a script to run patched; `installed.py`: what there is
- `app.py`: the commands and their options
- `telling.py`: errors and warnings, in words of the command line
- `model.py`: the function of a slice that MODEL names
- `files/`: volumes and images in files, one file for each format
- `stages.py`: what happens between a file and the function: scaling, masks, labels
- `fills.py`: the dtype of labels, and what stands where there is no result
- `running.py`: the run
- `places.py`: where in a file a function failed
- `explained.py`: what runs on a file, or ran, and about how long it takes
- `masks.py`: where there is something to compute
"""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> None:
    """Run a command, and leave the process.

    Parameters
    ----------
    arguments : list of str, optional
        Those of the process by default.
    """
    try:
        from .app import commands
    except ImportError as error:
        if error.name != "click":
            raise
        sys.exit(
            "The command line needs click: pip install 'xpapply[cli]'\n"
            "Without it: python -m xpapply script.py runs a script whose calls of "
            "numpy.apply_along_axis\nrun at once where they can, python -m xpapply says what is "
            "installed"
        )
    commands(arguments, prog_name="xpapply")
