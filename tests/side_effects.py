"""Run a function that is given as text, and say all that it did."""

import contextlib
import io
import random
import textwrap
import warnings

import numpy as np
from many_slices import array


def run(source, apply):
    """The result, the slices afterwards, the state, and what was printed."""
    np.random.seed(1)
    random.seed(1)
    space = {"np": np, "__name__": "effects"}
    exec(compile(textwrap.dedent(source), "effects.py", "exec"), space)
    arr = array()
    said = io.StringIO()
    with contextlib.redirect_stdout(said), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = apply(space["f"], 1, arr)
    return result, arr, space["state"](), said.getvalue(), [str(w.message) for w in caught]
