"""``python -m xpapply``: see `cli.start`."""

from .cli.start import start

if __name__ == "__main__":
    start()
