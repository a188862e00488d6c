"""Turn the colours of an image by quaternions: a function of two arrays at each pixel.

    pip install ".[examples,cpu]"
    python examples/gallery/colour_quaternions.py --out pictures

The image is real: `flower.jpg` of scikit-learn, 427 x 640 pixels (from
flickr.com/photos/vultilion, licence CC BY 2.0).

A colour is a vector of red, green and blue. A unit quaternion turns it about the grey axis, from
black to white, so that the hue changes and the grey part stays. Here the angle grows from left to
right, from none to a full turn: each column of pixels has a quaternion of its own. Pixels that have
hardly any colour are left alone by a branch. `vectorize` takes a function of one colour and one
quaternion, with the signature ``(c),(q)->(c)``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from beside_numpy import compare, figure, run, save
from sklearn.datasets import load_sample_image

import xpapply

GREY = np.ones(3) / np.sqrt(3)


def turned(colour: np.ndarray, q: np.ndarray) -> Any:
    """A colour ``(3,)`` turned by a unit quaternion ``(4,)``, w first."""
    if np.ptp(colour) < 0.05:
        return colour
    w, axis = q[0], q[1:]
    across = 2 * np.cross(axis, colour)
    return colour + w * across + np.cross(axis, across)


def main(out: Path | None, small: bool = False) -> None:
    image = load_sample_image("flower.jpg") / 255
    if small:
        image = image[150:250]
    height, width, _ = image.shape
    half = np.pi * np.arange(width) / width  # half of the angle
    quaternions = np.concatenate([np.cos(half)[:, None], np.sin(half)[:, None] * GREY], axis=1)
    print(f"{height * width:,} pixels, one quaternion for each column")

    turn = xpapply.vectorize(turned, signature="(c),(q)->(c)")
    loop = np.vectorize(turned, signature="(c),(q)->(c)")
    few = np.s_[::50]
    result = compare(lambda: turn(image, quaternions), lambda: loop(image[few], quaternions), few)
    print(turn.explain(image, quaternions))

    apart = np.abs(result.sum(-1) - image.sum(-1)).max()
    print(f"grey      red + green + blue is what it was, to {apart:.0e}")
    if fig := figure(out, 7.6, 2.8):
        draw(fig, image, result)
        save(fig, out, "colour_quaternions")


def draw(fig: Any, image: np.ndarray, result: np.ndarray) -> None:
    """The image before and after."""
    pictures = (("before", image), ("after: turned by 0° to 360°, left to right", result))
    for ax, (title, picture) in zip(fig.subplots(1, 2), pictures, strict=True):
        ax.imshow(np.clip(picture, 0, 1))
        ax.set_title(title, size=10)
        ax.axis("off")


if __name__ == "__main__":
    run(main, __doc__)
