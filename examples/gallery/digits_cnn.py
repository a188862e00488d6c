"""Read handwritten digits by a convolutional network: a function of an image.

    pip install ".[examples,torch,cpu]"
    python examples/gallery/digits_cnn.py --out pictures

The digits are real: 8 x 8 pixels each, from the UCI repository (E. Alpaydin and C. Kaynak, licence
CC BY 4.0), in scikit-learn's wheel. The network has two convolutions of 3 x 3 and a linear layer.
Its weights, `examples/digits.pt`, come from `examples/train_networks.py`, which did not see the 450
images used here. Each is read nine times: as it is, and moved by a pixel in eight directions.

The function is written for one image. It calls the network, and answers -1, "not sure", where no
digit has a probability above 0.6. The array is (450, 3, 3, 8, 8): the slices are its last two axes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from beside_numpy import compare, figure, run, save

import xpapply

sys.path.append(str(Path(__file__).parents[1]))  # the network and its weights are there

from apply_networks import HELD_OUT, HERE, Digits, load, read_digits

SURE = 0.6
net = load(Digits(), HERE / "digits.pt")


def read(image: np.ndarray) -> Any:
    """The digit in an image ``(8, 8)``, or -1."""
    with torch.no_grad():
        scores = net(torch.tensor(image)[None, None])
    probabilities = torch.softmax(scores, 1)[0].numpy()
    if probabilities.max() < SURE:
        return -1
    return probabilities.argmax()


def main(out: Path | None, small: bool = False) -> None:
    images, truth = read_digits()
    images, truth = images[-HELD_OUT:], truth[-HELD_OUT:]
    if small:
        images, truth = images[::9], truth[::9]
    padded = np.pad(images, [(0, 0), (1, 1), (1, 1)])
    moved = np.array(np.lib.stride_tricks.sliding_window_view(padded, (8, 8), axis=(1, 2)))
    print(f"{moved.shape}: {len(images)} digits, each in nine places")

    few = np.s_[::5]
    found = compare(
        lambda: xpapply.apply_along_axis(read, (3, 4), moved),
        lambda: np.reshape([read(image) for image in moved[few].reshape(-1, 8, 8)], (-1, 3, 3)),
        few,
    )
    print(xpapply.explain(read, (3, 4), moved))

    right = np.mean(found == truth[:, None, None], axis=0)
    unsure = np.mean(found < 0, axis=0)
    print(f"right     {right[1, 1]:.1%} where they are, {right.min():.1%} in the worst place")
    print(f"not sure  {unsure[1, 1]:.1%} where they are, {unsure.max():.1%} in the worst place")
    if fig := figure(out, 10, 4):
        draw(fig, images, truth, found)
        save(fig, out, "digits_cnn")


def draw(fig: Any, images: np.ndarray, truth: np.ndarray, found: np.ndarray) -> None:
    """The confusion matrix of all nine places, and images where the network is wrong."""
    left, right = fig.subfigures(1, 2, width_ratios=(1.2, 1))
    counts = np.zeros((10, 11), int)
    np.add.at(counts, (truth[:, None, None], found), 1)  # -1 is the last column
    ax = left.subplots()
    ax.imshow(np.log1p(counts), cmap="Blues", vmax=np.log(800))
    for (row, column), count in np.ndenumerate(counts):
        if count:
            colour = "white" if count > 80 else "black"
            ax.text(column, row, count, ha="center", va="center", size=8, color=colour)
    ax.set_xticks(range(11), [*map(str, range(10)), "?"], size=9)
    ax.set_yticks(range(10), map(str, range(10)), size=9)
    ax.set_xlabel("what the function says; ?: not sure", size=9)
    ax.set_ylabel("what it is", size=9)
    ax.set_title(f"{len(images)} digits, each in nine places", size=11)

    here = found[:, 1, 1]
    wrong = np.flatnonzero(here != truth)[:12]
    right.suptitle("not read right where they are", size=11)
    axes = right.subplots(3, 4).ravel()
    for ax in axes:
        ax.axis("off")
    for ax, k in zip(axes, wrong, strict=False):
        ax.imshow(images[k], cmap="gray_r")
        ax.set_title(f"{truth[k]}: {'?' if here[k] < 0 else here[k]}", size=9)


if __name__ == "__main__":
    run(main, __doc__)
