"""What the scripts of the gallery share: times beside NumPy's loop, and the picture's file."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def run(main: Callable[[Path | None, bool], None], text: str | None) -> None:
    """`main` with what the command line says."""
    parser = argparse.ArgumentParser(description=(text or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, help="folder for the picture, which needs matplotlib")
    parser.add_argument("--small", action="store_true", help="a part of the data, for tests")
    args = parser.parse_args()
    main(args.out, args.small)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call takes, and its result."""
    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result


def compare(
    fast: Callable[[], Any], loop: Callable[[], Any], sample: Any, rtol: float = 1e-9
) -> np.ndarray:
    """The result of `fast`, which is all slices; checked, and timed beside a loop over some.

    `loop` computes ``result[sample]`` slice by slice. The sample is spread over the array, so that
    its time, multiplied, is about that of all slices.
    """
    first, result = timed(fast)
    again = min(timed(fast)[0] for _ in range(3))
    part, expected = timed(loop)
    result = np.asarray(result)
    np.testing.assert_allclose(result[sample], expected, rtol, atol=rtol, equal_nan=True)
    share = result.size / result[sample].size
    print(f"xpapply   {again:.3g} s; {first:.3g} s in the first call, which traces the function")
    said = f"{part:.3g} s for {1 / share:.1%} of the slices, so for all " if share > 1 else ""
    print(f"the loop  {said}{part * share:.3g} s: {part * share / again:,.0f} times as long")
    print(f"checked   the {expected.size:,} numbers of this loop are the same")
    return result


def figure(out: Path | None, width: float, height: float) -> Any:
    """A figure of matplotlib; None if no picture is wanted, or it is not installed."""
    if out is None:
        return None
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("picture   none: matplotlib is not installed")
        return None
    fig = Figure((width, height), layout="constrained", facecolor="white")
    fig.get_layout_engine().set(w_pad=0.07, h_pad=0.07)
    return fig


def save(fig: Any, out: Path | None, name: str) -> None:
    """Write the picture, with 64 levels of each colour: half a file, and nobody sees it."""
    if out is None:
        return
    from PIL import Image  # matplotlib needs it too

    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{name}.png"
    fig.savefig(file, dpi=100)
    with Image.open(file) as picture:
        rounded = picture.convert("RGB").point(lambda level: (level >> 2) * 255 // 63)
    rounded.save(file, optimize=True)
    print(f"picture   {file}")
