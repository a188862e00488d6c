"""Map the classes in a hyperspectral image: a function of the spectrum of a pixel, with a model.

    pip install ".[examples,cpu]"
    python examples/gallery/hyperspectral_map.py --out pictures

The image is real: Indian Pines, fields and woods in Indiana, seen by the AVIRIS instrument from an
aeroplane on June 12, 1992. It has 145 x 145 pixels and 200 bands, and people have said for about
half of the pixels which of 16 classes they are. tensorly's wheel has both. Source: M. F.
Baumgardner, L. L. Biehl, D. A. Landgrebe (2015), 220 Band AVIRIS Hyperspectral Image Data Set,
Purdue University Research Repository, doi:10.4231/R7RX991C, licence CC BY 3.0.

A pipeline of scikit-learn is fitted to a fifth of the labelled pixels, chosen at random. The
function scales a spectrum, asks the model for probabilities, and answers 0, "not sure", where none
is above a half. The accuracy is that of the other four fifths. As they lie beside pixels of the
training, another image would be harder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from beside_numpy import compare, figure, run, save
from sklearn.decomposition import PCA
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tensorly.datasets import load_indian_pines

import xpapply

CLASSES = (
    "no label, not sure", "alfalfa", "corn, no till", "corn, min till", "corn", "grass, pasture",
    "grass, trees", "grass, mowed", "hay, windrowed", "oats", "soybean, no till",
    "soybean, min till", "soybean, clean", "wheat", "woods", "buildings, trees", "stone, steel",
)  # fmt: skip
SURE = 0.5

model = make_pipeline(
    StandardScaler(),
    PCA(40, random_state=0),
    MLPClassifier((64,), alpha=0.1, tol=1e-3, max_iter=500, random_state=0),
)


def kind(spectrum: np.ndarray) -> Any:
    """The class of a spectrum ``(200,)``: 1 to 16, or 0."""
    shape = (spectrum - spectrum.mean()) / spectrum.std()  # how bright it is does not count
    probabilities = model.predict_proba(shape[None])[0]
    best = probabilities.argmax()
    if probabilities[best] < SURE:
        return 0
    return model.classes_[best]


def main(out: Path | None, small: bool = False) -> None:
    data = load_indian_pines()
    image, labels = data.tensor, data.ticks[0].astype(int)
    labelled = np.random.default_rng(0).permutation(np.flatnonzero(labels))
    fifth = len(labelled) // 5
    training, others = labelled[:fifth], labelled[fifth:]
    spectra = image.reshape(-1, 200)[training]
    spectra = (spectra - spectra.mean(1, keepdims=True)) / spectra.std(1, keepdims=True)
    if small:
        model.set_params(mlpclassifier__tol=0.03)
    model.fit(spectra, labels.flat[training])
    print(f"{image.shape[0] * image.shape[1]:,} pixels of {image.shape[2]} bands")

    few = np.s_[::145] if small else np.s_[::29]
    found = compare(
        lambda: xpapply.apply_along_axis(kind, -1, image),
        lambda: np.apply_along_axis(kind, -1, image[few]),
        few,
    )
    print(xpapply.explain(kind, -1, image))

    sure = others[found.flat[others] > 0]
    right = np.mean(found.flat[sure] == labels.flat[sure])
    print(f"sure      {len(sure) / len(others):.1%} of {len(others):,} pixels not trained on")
    print(f"accuracy  {right:.1%} of those")
    if fig := figure(out, 10, 3.6):
        draw(fig, image, labels, found)
        save(fig, out, "hyperspectral_map")


def draw(fig: Any, image: np.ndarray, labels: np.ndarray, found: np.ndarray) -> None:
    """The image in false colours, the labels, and the map."""
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch, Rectangle

    colours = ["white", *(colormaps["tab20"].colors[k] for k in (*range(14), 16, 18))]
    shown = image[..., [50, 27, 17]]  # near infrared, red, green
    low, high = np.percentile(shown, [1, 99], axis=(0, 1))
    axes = fig.subplots(1, 3)
    axes[0].imshow(np.clip((shown - low) / (high - low), 0, 1), interpolation="nearest")
    for ax, values in ((axes[1], labels), (axes[2], found)):
        ax.imshow(values, cmap=ListedColormap(colours), vmin=0, vmax=16, interpolation="nearest")
    for ax, title in zip(
        axes, ("three of the 200 bands", "ground truth", "map of all pixels"), strict=True
    ):
        ax.set_title(title, size=11)
        ax.axis("off")
        ax.add_patch(Rectangle((0, 0), 1, 1, transform=ax.transAxes, fill=False, ec="0.7"))
    names = [
        Patch(facecolor=colour, edgecolor="0.7", label=name)
        for colour, name in zip(colours, CLASSES, strict=True)
    ]
    fig.legend(handles=names, loc="outside right center", fontsize=8, frameon=False)


if __name__ == "__main__":
    run(main, __doc__)
