"""Convolutional networks on every slice: digits, and a map of the classes in a spectral image.

    pip install ".[examples,torch]"
    python examples/apply_networks.py               # --out FOLDER: pictures, which need matplotlib

Two trained networks, as tutorials write them: for batches of images or spectra of one channel.

- The classic one has two convolutions of 3 x 3, with pooling by 2 after each, and a linear layer.
  It sees 8 x 8 pixels of a handwritten digit. The slices are images: `apply_along_axis(net, (1, 2),
  images)`.
- The second sees the spectrum of one pixel, 120 bands long, in an image of five minerals with
  noise, shadow and mixed pixels. The slices are along one axis: `apply_along_axis(net, -1, cube)`.

Both are stored as a `state_dict`, which holds nothing but weights; `train_networks.py` made them.
Each is applied to arrays of NumPy, torch and, on a GPU, CuPy, with the same answers.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import xpapply

HERE = Path(__file__).parent
HELD_OUT = 450
"""Digits at the end of scikit-learn's 1797, which training does not see. Others wrote them."""
MINERALS = ("alunite", "calcite", "kaolinite", "muscovite", "quartz")
BANDS = 120
SIDE = 96


class Digits(nn.Module):
    """Images ``(B, 1, 8, 8)`` to ten numbers, the largest for the digit that is seen."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 3, padding=1)
        self.conv2 = nn.Conv2d(10, 20, 3, padding=1)
        self.fc = nn.Linear(80, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc(x.view(x.size(0), -1))


class Spectra(nn.Sequential):
    """Spectra ``(B, 1, 120)`` to a number for each mineral."""

    def __init__(self) -> None:
        super().__init__(
            nn.Conv1d(1, 8, 9),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(8, 16, 7),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Flatten(),
            nn.Linear(400, len(MINERALS)),
        )


def load(net: nn.Module, file: Path) -> nn.Module:
    """A network with the weights of a file, ready to be used."""
    net.load_state_dict(torch.load(file, weights_only=True))
    return net.eval()


def read_digits() -> tuple[np.ndarray, np.ndarray]:
    """Images ``(1797, 8, 8)`` from 0 to 1, and what they show."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return (data.images / 16).astype(np.float32), data.target


def reflectances() -> np.ndarray:
    """What each mineral reflects in each band, ``(5, 120)``: a slope with absorption bands."""
    x = np.linspace(0, 1, BANDS)
    bands = {  # centre, width, depth
        "alunite": [(0.35, 0.03, 0.25), (0.62, 0.04, 0.35)],
        "calcite": [(0.80, 0.05, 0.40)],
        "kaolinite": [(0.38, 0.03, 0.25), (0.66, 0.03, 0.35)],
        "muscovite": [(0.66, 0.05, 0.30), (0.85, 0.04, 0.15)],
        "quartz": [],
    }
    slopes = (0.10, 0.05, 0.15, -0.05, 0.0)
    found = []
    for name, slope in zip(MINERALS, slopes, strict=True):
        dips = sum((d * np.exp(-(((x - c) / w) ** 2)) for c, w, d in bands[name]), np.zeros(BANDS))
        found.append(0.6 + slope * x - dips)
    return np.array(found)


def scene(seed: int, side: int = SIDE) -> tuple[np.ndarray, np.ndarray]:
    """A cube ``(side, side, 120)`` as a camera sees it, and what each pixel has most of.

    The ground has a mineral around each of 25 points; pixels on borders are mixed, some lie in
    shadow, and all are noisy.
    """
    rng = np.random.default_rng(seed)
    points, kinds = rng.random((25, 2)), rng.permutation(25) % len(MINERALS)
    y, x = np.meshgrid(*[(np.arange(side) + 0.5) / side] * 2, indexing="ij")
    x, y = x + 0.03 * np.sin(9 * y), y + 0.03 * np.sin(7 * x)
    distance = (x[..., None] - points[:, 0]) ** 2 + (y[..., None] - points[:, 1]) ** 2
    share = np.exp(-(distance - distance.min(-1, keepdims=True)) * 1500)
    amounts = np.stack([share[..., kinds == k].sum(-1) for k in range(len(MINERALS))], -1)
    amounts /= amounts.sum(-1, keepdims=True)
    light = 0.35 + 0.65 / (1 + np.exp(-6 * np.sin(5 * x + 3 * y)))
    cube = amounts @ reflectances() * light[..., None]
    cube += rng.normal(0, 0.05, cube.shape)
    return cube.astype(np.float32), amounts.argmax(-1)


def libraries(arr: np.ndarray) -> dict[str, Any]:
    """The array in each library that is here."""
    found: dict[str, Any] = {"NumPy": arr, "torch": torch.from_numpy(arr)}
    if torch.cuda.is_available():
        found["torch, CUDA"] = torch.from_numpy(arr).cuda()
        try:
            import cupy
        except ImportError:
            return found
        found["CuPy"] = cupy.asarray(arr)
    return found


def apply(net: nn.Module, axis: int | tuple[int, ...], arr: np.ndarray) -> np.ndarray:
    """What `net` says of all slices; with times, and how far the libraries are apart."""
    results = {}
    for name, x in libraries(arr).items():
        device = getattr(x, "device", "cpu")
        net.to("cuda" if name == "CuPy" else str(device) if name.startswith("torch") else "cpu")
        with torch.no_grad():
            xpapply.apply_along_axis(net, axis, x)
            begin = time.perf_counter()
            y = xpapply.apply_along_axis(net, axis, x)
            y = y.get() if name == "CuPy" else np.asarray(y.cpu() if name != "NumPy" else y)
        took = time.perf_counter() - begin
        results[name] = y
        apart = np.abs(y - results["NumPy"]).max()
        print(f"  {name:12} {took * 1e3:8.2f} ms, max diff {apart:.1e}")
    net.cpu()
    return results["NumPy"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="folder for pictures, which need matplotlib")
    args = parser.parse_args()

    digits = load(Digits(), HERE / "digits.pt")
    images, truth = read_digits()
    images, truth = images[-HELD_OUT:], truth[-HELD_OUT:]
    print(f"digits: {images.shape}, a slice is an image")
    scores = apply(digits, (1, 2), images)
    print(f"  accuracy {np.mean(scores.argmax(-1) == truth):.1%} of images not seen in training")

    spectra = load(Spectra(), HERE / "spectra.pt")
    cube, minerals = scene(seed=1)
    print(f"spectra: {cube.shape}, a slice is the spectrum of a pixel")
    found = apply(spectra, -1, cube).argmax(-1)
    print(f"  accuracy {np.mean(found == minerals):.1%} of pixels of a scene not seen in training")
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        draw_digits(digits, images, truth, scores.argmax(-1), args.out / "digits.png")
        draw_spectra(cube, minerals, found, args.out / "spectra.png")


# --- pictures -----------------------------------------------------------------------------


def draw_digits(
    net: nn.Module, images: np.ndarray, truth: np.ndarray, found: np.ndarray, file: Path
) -> None:
    """Digits with what the network says of them, right and wrong, and its feature maps."""
    import matplotlib.pyplot as plt

    # the layers inside, as functions of a slice: one image to ten maps, and to twenty
    first = xpapply.apply_along_axis(net.conv1, (1, 2), images[:1])[0]
    hidden = nn.Sequential(net.conv1, nn.ReLU(), nn.MaxPool2d(2), net.conv2).eval()
    second = xpapply.apply_along_axis(hidden, (1, 2), images[:1])[0]
    order = [*np.flatnonzero(found == truth)[:8], *np.flatnonzero(found != truth)[:4]]
    figure, axes = plt.subplots(4, 12, figsize=(9, 3.4))
    for ax in axes.flat:
        ax.axis("off")
    for ax, k in zip(axes[0], order, strict=True):
        ax.imshow(images[k], cmap="gray_r")
        right = found[k] == truth[k]
        ax.set_title(f"{found[k]}" if right else f"{found[k]} ({truth[k]})", fontsize=8,
                     color="black" if right else "tab:red")  # fmt: skip
    axes[1, 0].imshow(images[0], cmap="gray_r")
    for ax, x in zip(axes[1, 2:], np.maximum(first, 0), strict=True):
        ax.imshow(x, cmap="viridis")
    for ax, x in zip(axes[2:, 2:].flat, np.maximum(second, 0), strict=True):
        ax.imshow(x, cmap="viridis")
    for row, text in ((1, "10 maps"), (2, "20 maps")):
        axes[row, 1].text(0.5, 0.5, text, ha="center", va="center", fontsize=8)
    figure.tight_layout(pad=0.3)
    figure.savefig(file, dpi=75)


def draw_spectra(cube: np.ndarray, truth: np.ndarray, found: np.ndarray, file: Path) -> None:
    """One band of the scene, what is on the ground, the map, and spectra of single pixels."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(9, 2.6), width_ratios=(1, 1, 1, 1.5))
    pictures = (("one band", cube[..., 79]), ("ground", truth), ("network", found))
    for ax, (title, picture) in zip(axes[:3], pictures, strict=True):
        ax.imshow(picture, cmap="gray" if title == "one band" else plt.get_cmap("Set2", 5),
                  interpolation="nearest")  # fmt: skip
        ax.set_title(title, fontsize=9)
        ax.axis("off")
    for k, name in enumerate(MINERALS):
        row, column = np.argwhere(truth == k)[len(np.argwhere(truth == k)) // 2]
        line = cube[row, column] + k * 0.4
        axes[3].plot(line, color=plt.get_cmap("Set2", 5)(k), lw=1, label=name)
    axes[3].set_title("one pixel of each", fontsize=9)
    axes[3].set_xlabel("band", fontsize=8)
    axes[3].set_yticks([])
    axes[3].legend(fontsize=6, loc="upper right")
    figure.tight_layout(pad=0.4)
    figure.savefig(file, dpi=75)


if __name__ == "__main__":
    main()
