"""``python -m xpapply``: see `command_line`."""

from .command_line import start

if __name__ == "__main__":
    start()
