"""Denoise an MRI volume by a bilateral filter: a function of the patch around a voxel.

    pip install ".[examples,cpu]"
    python examples/gallery/mri_bilateral.py --out pictures

The volume is real: echo-planar MRI of a head, 128 x 96 x 24 voxels at two points in time, of which
the first is used. It is `example4d.nii.gz` of nibabel's tests, in nibabel's wheel (MIT licence).
The noise is not real: it is added, Gaussian, so that the truth is known.

A slice has three axes: the 5 x 5 x 3 voxels around each voxel, as views, not copies. The filter
is a weighted mean of them. Near voxels count more, and so do those whose values are alike, which
keeps edges sharp. A branch leaves out what lies outside the head.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from beside_numpy import compare, figure, run, save
from scipy import ndimage

import xpapply

SIZE = (5, 5, 3)
NOISE = 60.0  # standard deviation of what is added; the brain has values around 500
ALIKE = 2.5 * NOISE  # how far apart two values are alike

grid = np.meshgrid(*(np.arange(n) - n // 2 for n in SIZE), indexing="ij")
NEAR = np.exp(-np.square(grid).sum(0) / (2 * 0.8**2))  # (5, 5, 3), 1 in the middle


def bilateral(patch: np.ndarray) -> Any:
    """The new value of the voxel in the middle of a patch ``(5, 5, 3)``."""
    if patch.mean() < NOISE / 2:  # around the head there is nothing
        return 0.0
    weights = NEAR * np.exp(-np.square((patch - patch[2, 2, 1]) / ALIKE) / 2)
    return (weights * patch).sum() / weights.sum()


def read() -> np.ndarray:
    """The volume at the first point in time, ``(128, 96, 24)``."""
    path = Path(nibabel.__file__).parent / "tests" / "data" / "example4d.nii.gz"
    return nibabel.Nifti1Image.from_filename(path).get_fdata()[..., 0]


def rmse(image: np.ndarray, truth: np.ndarray) -> float:
    """Root of the mean squared error over the head."""
    return float(np.sqrt(np.mean((image - truth)[truth > 0] ** 2)))


def main(out: Path | None, small: bool = False) -> None:
    truth = read()[:, :, 8:14] if small else read()
    noisy = truth + NOISE * np.random.default_rng(0).standard_normal(truth.shape)
    padded = np.pad(noisy, [(n // 2, n // 2) for n in SIZE], mode="edge")
    patches = np.lib.stride_tricks.sliding_window_view(padded, SIZE)
    print(f"{truth.size:,} voxels, a patch of {SIZE} around each")

    few = np.s_[8::32]
    filtered = compare(
        lambda: xpapply.apply_along_axis(bilateral, (3, 4, 5), patches),
        lambda: np.reshape([bilateral(p) for p in patches[few].reshape(-1, *SIZE)], (4, 96, -1)),
        few,
    )
    print(xpapply.explain(bilateral, (3, 4, 5), patches))

    widths = np.arange(0.3, 1.0, 0.05)
    all_widths = [ndimage.gaussian_filter(noisy, s) for s in widths]
    gaussian = min(all_widths, key=lambda image: rmse(image, truth))
    images = {"noisy": noisy, "best Gaussian filter": gaussian, "bilateral": filtered}
    errors = {name: rmse(image, truth) for name, image in images.items()}
    for name, error in errors.items():
        print(f"error     {error:.1f} {name}")
    if fig := figure(out, 10, 2.9):
        titles = ["truth", *(f"{name}: error {error:.0f}" for name, error in errors.items())]
        draw(fig, [truth, *images.values()], titles)
        save(fig, out, "mri_bilateral")


def draw(fig: Any, images: list[np.ndarray], titles: list[str]) -> None:
    """One slice of the volume: as it was, with noise, and filtered."""
    where = np.s_[18:112, :, images[0].shape[2] // 2]
    for ax, image, title in zip(fig.subplots(1, 4), images, titles, strict=True):
        ax.imshow(image[where].T, cmap="gray", vmin=0, vmax=900, origin="lower")
        ax.set_title(title, size=11)
        ax.axis("off")


if __name__ == "__main__":
    run(main, __doc__)
