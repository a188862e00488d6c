"""Train the networks of `apply_networks.py`, and store them in `digits.pt` and `spectra.pt`.

    pip install ".[examples,torch]"
    python examples/train_networks.py  # two minutes on two free cores

The digits are those of scikit-learn but for the last 450, each shifted by up to a pixel in every
step. The spectra are of the pixels of eight scenes; `apply_networks.py` judges on another one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from apply_networks import HELD_OUT, HERE, Digits, Spectra, read_digits, scene
from torch import nn

BATCH = 64


def train(
    net: nn.Module,
    x: np.ndarray,
    labels: np.ndarray,
    epochs: int,
    change: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    """Fit `net` to slices ``(N, ...)``, which get an axis for their one channel."""
    slices, wanted = torch.from_numpy(x)[:, None], torch.from_numpy(labels)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    steps = epochs * (len(slices) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(epochs):
        for some in torch.randperm(len(slices))[: len(slices) // BATCH * BATCH].split(BATCH):
            loss = nn.functional.cross_entropy(net(change(slices[some])), wanted[some])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        found = net.eval()(slices).argmax(-1)
    print(f"{type(net).__name__}: {(found == wanted).float().mean():.2%} of {len(slices):,}")


def shifted(images: torch.Tensor) -> torch.Tensor:
    """Moved by up to a pixel up or down, left or right."""
    down, right = torch.randint(-1, 2, (2,)).tolist()
    return nn.functional.pad(images, (1, 1, 1, 1))[..., 1 + down : 9 + down, 1 + right : 9 + right]


def main() -> None:
    torch.manual_seed(0)
    images, truth = read_digits()
    digits = Digits()
    train(digits, images[:-HELD_OUT], truth[:-HELD_OUT], 120, shifted)
    torch.save(digits.state_dict(), HERE / "digits.pt")

    scenes = [scene(seed) for seed in range(100, 108)]
    spectra = Spectra()
    cubes = np.concatenate([cube.reshape(-1, cube.shape[-1]) for cube, _ in scenes])
    train(spectra, cubes, np.concatenate([kinds.ravel() for _, kinds in scenes]), 3, lambda x: x)
    torch.save(spectra.state_dict(), HERE / "spectra.pt")


if __name__ == "__main__":
    main()
