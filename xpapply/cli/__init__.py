"""The command line: ``xpapply run MODEL INPUT -o OUTPUT``, and what is asked before and after.

- `app.py`: the commands and their options
- `model.py`: the function of a slice that MODEL names
- `files/`: volumes and images in files, one file for each format
- `stages.py`: what happens between a file and the function: scaling, masks, labels
- `running.py`: the run
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
        sys.exit("The command line needs click: pip install 'xpapply[cli]'")
    commands(arguments, prog_name="xpapply")
