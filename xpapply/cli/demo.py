"""A trained network at every voxel of a real 4-D MRI volume.

    pip install "xpapply[demo]"
    xpapply demo

nibabel ships the volume: 128 x 96 x 24 voxels at two points in time, echo-planar MRI of a head.
Noise is added to it (Gaussian, of a known strength, so that the truth is known), every voxel
gets the 5 x 5 x 3 = 75 noisy values around it as its features, and a small network
(75-64-64-1, trained by `examples/train_denoiser.py` on other slices of the volume) says for
each voxel how much noise is in it:

    noise = xpapply.apply_along_axis(network, -1, features)

What comes out is compared with the truth on slices that the training never saw, beside two
linear filters that see the same 75 values; and the time is compared with NumPy's own loop and
with torch, where torch is installed. A GPU is used where there are one and CuPy. The picture
shows one of the unseen slices.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from .. import MLP, apply_along_axis, explain

HERE = Path(__file__).parent
TRAINED = HERE / "denoiser.npz"
WINDOW = (5, 5, 3)
"""Voxels along x, y and z that the network sees around each voxel."""
NOISE = 80.0
"""Standard deviation of the added noise; the brain has values around 550."""
HELD_OUT = range(10, 15)
"""Slices z that the training never saw; their neighbours 9 and 15 are not trained on either."""
SHOWN = 12
"""The slice of the picture."""


# --- the volume and its features --------------------------------------------------------


def read_volume() -> np.ndarray:
    """The volume that nibabel ships, float32 of shape (128, 96, 24, 2), Fortran-ordered."""
    path = Path(nibabel.__file__).parent / "tests" / "data" / "example4d.nii.gz"
    volume: np.ndarray = nibabel.Nifti1Image.from_filename(path).get_fdata(dtype=np.float32)
    return volume


def add_noise(volume: np.ndarray, seed: int) -> np.ndarray:
    """`volume` plus Gaussian noise of standard deviation `NOISE`."""
    noise = np.random.default_rng(seed).standard_normal(volume.shape, np.float32)
    return np.asfortranarray(volume + np.float32(NOISE) * noise)


def neighbourhoods(volume: np.ndarray) -> np.ndarray:
    """The values around every voxel, shape (x, y, z, t, 75), edges repeated.

    In the memory order of a NIfTI volume: x runs fastest and the features, as they are
    the last axis, slowest. Nothing has to be transposed for `apply_along_axis`.
    """
    pad = [(n // 2, n // 2) for n in WINDOW] + [(0, 0)]
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(volume, pad, mode="edge"), WINDOW, axis=(0, 1, 2)
    )
    features = np.empty((*volume.shape, np.prod(WINDOW)), volume.dtype, order="F")
    for k, where in enumerate(itertools.product(*map(range, WINDOW))):
        index: Any = (..., *where)
        features[..., k] = windows[index]
    return features


# --- the network ------------------------------------------------------------------------


@dataclass
class Trained:
    """The file of `train_denoiser.py`."""

    weights: list[np.ndarray]
    biases: list[np.ndarray]
    gaussian: np.ndarray
    """The Gaussian filter that does best on the training slices, shape (75,)."""
    linear: np.ndarray
    """The best linear filter of all on the training slices (least squares), shape (75,)."""
    linear_bias: float

    @classmethod
    def read(cls, path: Path = TRAINED) -> Trained:
        """Read it from plain arrays: no code of the file can run."""
        with np.load(path, allow_pickle=False) as file:
            layers = range(sum(name.startswith("weight") for name in file))
            return cls(
                [file[f"weight{k}"] for k in layers],
                [file[f"bias{k}"] for k in layers],
                file["gaussian"],
                file["linear"],
                float(file["linear_bias"]),
            )

    def one_voxel(self, v: np.ndarray) -> np.ndarray:
        """The network as one would write it for NumPy's loop: (75,) -> (1,)."""
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            v = np.maximum(w @ v + b, 0)
        return self.weights[-1] @ v + self.biases[-1]

    def torch_module(self) -> Any:
        """The network as a torch module."""
        import torch

        layers: list[Any] = []
        for w, b in zip(self.weights, self.biases, strict=True):
            layer = torch.nn.Linear(*w.shape[::-1])
            layer.load_state_dict({"weight": torch.from_numpy(w), "bias": torch.from_numpy(b)})
            layers += [layer, torch.nn.ReLU()]
        return torch.nn.Sequential(*layers[:-1]).eval()


# --- how good, how fast -----------------------------------------------------------------


def rmse(image: np.ndarray, truth: np.ndarray, where: np.ndarray) -> float:
    """Root of the mean squared error over the voxels `where`."""
    return float(np.sqrt(np.mean(np.square(image[where] - truth[where], dtype=np.float64))))


def psnr(image: np.ndarray, truth: np.ndarray, where: np.ndarray, peak: float) -> float:
    """Peak signal-to-noise ratio in dB over the voxels `where`."""
    return float(20 * np.log10(peak / rmse(image, truth, where)))


def median_time(call: Callable[[], Any]) -> tuple[float, Any]:
    """Median time of a few calls in seconds, after one that is not counted; and the result."""
    result, times = call(), []
    for _ in range(5):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def loop_row(
    name: str, f: Callable[..., Any], features: np.ndarray, noise: np.ndarray, step: int
) -> tuple[str, float, float]:
    """NumPy's own loop, on every `step`-th slice z: name, seconds for all, difference."""
    sample = np.s_[:, :, step // 2 :: step]
    start = time.perf_counter()
    found = np.apply_along_axis(f, -1, features[sample])
    share = features.shape[2] / found.shape[2]
    seconds = (time.perf_counter() - start) * share
    difference = float(np.abs(found - noise[sample]).max())
    return f"numpy.apply_along_axis, {name} *", seconds, difference


def torch_rows(
    trained: Trained, features: np.ndarray, noise: np.ndarray
) -> list[tuple[str, float, float]]:
    """Torch's own forward pass over all voxels at once, as rows of a matrix."""
    try:
        import torch
    except ImportError:
        return []
    module = trained.torch_module()

    def one_voxel(v: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            y: np.ndarray = module(torch.from_numpy(np.ascontiguousarray(v))).numpy()
        return y

    rows = [loop_row("torch at a voxel", one_voxel, features, noise, step=12)]
    # the matrix of all voxels and their features, a view: torch gets its input without a copy
    matrix = torch.from_numpy(features.T.reshape(features.shape[-1], -1)).T
    for device in ("cpu", "cuda")[: 1 + torch.cuda.is_available()]:
        net, x = module.to(device), matrix.to(device)

        def call(net: Any = net, x: Any = x) -> Any:
            with torch.inference_mode():
                y = net(x)
            if x.is_cuda:
                torch.cuda.synchronize()
            return y

        seconds, y = median_time(call)
        y = y.cpu().numpy().T.reshape(noise.T.shape).T
        name = "torch, eager" + (" on the GPU" if device == "cuda" else "")
        rows.append((name, seconds, float(np.abs(y - noise).max())))
    return rows


def cupy_rows(
    network: MLP, features: np.ndarray, noise: np.ndarray
) -> list[tuple[str, float, float]]:
    """Time the same call on a CuPy array, where there is a GPU."""
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception:  # not installed, or no driver, or no device
        return []
    on_gpu = cupy.asarray(features, order="F")

    def call() -> Any:
        y = apply_along_axis(network, -1, on_gpu)
        cupy.cuda.get_current_stream().synchronize()
        return y

    seconds, y = median_time(call)
    return [("xpapply on CuPy", seconds, float(np.abs(y.get() - noise).max()))]


# --- the picture ------------------------------------------------------------------------


def font(size: int) -> Any:
    """The font of the picture."""
    return ImageFont.load_default(size)


def draw(
    images: Mapping[str, np.ndarray], truth: np.ndarray, notes: Mapping[str, str], path: Path
) -> None:
    """Draw one slice, before and after: each (x, y) image over its error, and the truth."""
    scale, gap, head = 4, 10, 64
    # crop to the head, with a margin
    box = tuple(slice(max(0, i.min() - 3), i.max() + 4) for i in np.nonzero(truth > 0))
    nx, ny = (s * scale for s in truth[box].shape)
    panels = {**images, "truth": truth}
    size = (len(panels) * (nx + gap) + gap, head + 2 * ny + 3 * gap)
    picture = Image.new("RGB", size, (16, 18, 22))
    pen = ImageDraw.Draw(picture)
    low, high, worst = 100.0, 900.0, 200.0

    def put(values: np.ndarray, left: int, top: int) -> None:
        pixels = (255 * np.clip(values[box], 0, 1)).astype(np.uint8).T[::-1]
        panel = Image.fromarray(np.ascontiguousarray(pixels)).resize(
            (nx, ny), Image.Resampling.NEAREST
        )
        picture.paste(panel.convert("RGB"), (left, top))

    for k, (name, image) in enumerate(panels.items()):
        left, top = gap + k * (nx + gap), head
        pen.text((left + 2, 8), name, font=font(21), fill="white")
        pen.text((left + 2, 36), notes.get(name, ""), font=font(17), fill=(255, 190, 90))
        put((image - low) / (high - low), left, top)
        below = top + ny + gap
        if name != "truth":
            put(np.abs(image - truth) / worst, left, below)
        else:
            text = (
                f"Top: slice z = {SHOWN}, which\nthe training never saw.\n\n"
                f"Below: the error that is left,\nup or down, black 0 to white {worst:.0f}.\n\n"
                "The network sees the\n5 x 5 x 3 noisy values around\na voxel. "
                "It is applied at every\nvoxel by one call of\nxpapply.apply_along_axis."
            )
            pen.multiline_text(
                (left + 8, below + 8), text, font=font(18), fill=(200, 204, 210), spacing=8
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path, optimize=True)


# --- the whole --------------------------------------------------------------------------


def show(out: Path, small: bool, seed: int) -> None:
    """All of it, printed; the picture goes to `out`."""
    truth = read_volume()
    peak = float(truth.max())
    noisy = add_noise(truth, seed)
    first = 0
    if small:
        first = HELD_OUT.start - 1
        crop = np.s_[24:104, :, first : HELD_OUT.stop + 1, :1]
        truth, noisy = np.asfortranarray(truth[crop]), np.asfortranarray(noisy[crop])
    features = neighbourhoods(noisy)
    trained = Trained.read()
    network = MLP(trained.weights, trained.biases, activation="relu")
    print(f"volume    {truth.shape} {truth.dtype}, noise of standard deviation {NOISE:g} added")
    print(f"features  {features.shape}, {features.nbytes / 1e6:.0f} MB\n")

    # the job: how much noise is in each voxel?
    noise = apply_along_axis(network, -1, features)
    denoised = noisy - noise[..., 0]

    print(explain(network, -1, features), end="\n\n")
    seconds, _ = median_time(lambda: apply_along_axis(network, -1, features))
    rows = [
        loop_row("NumPy at a voxel", trained.one_voxel, features, noise, step=6),
        *torch_rows(trained, features, noise),
        ("xpapply on NumPy", seconds, 0.0),
        *cupy_rows(network, features, noise),
    ]
    print(f"{'the network at ' + format(noise.size, ',') + ' voxels':56}{'seconds':>10}{'x':>8}")
    print("-" * 90)
    for name, took, difference in rows:
        print(f"{name:56}{took:10.3g}{took / seconds:8.3g}   max diff {difference:.1e}")
    print("* timed on every 6th (NumPy) or 12th (torch) slice z, and multiplied")

    # a linear filter is a network with one layer
    linear = MLP([trained.linear[None]], [[trained.linear_bias]])
    gaussian = MLP([trained.gaussian[None]])
    images = {
        "with noise": noisy,
        "best Gaussian filter": apply_along_axis(gaussian, -1, features)[..., 0],
        "best linear filter": apply_along_axis(linear, -1, features)[..., 0],
        "network, 75-64-64-1": denoised,
    }
    unseen = np.zeros(truth.shape, bool)
    unseen[:, :, HELD_OUT.start - first : HELD_OUT.stop - first] = True
    unseen &= truth > 0
    print(
        f"\nunseen slices, {unseen.sum():,} voxels inside the head      RMSE   PSNR (peak {peak:g})"
    )
    print("-" * 90)
    notes = {}
    for name, image in images.items():
        quality = psnr(image, truth, unseen, peak)
        notes[name] = f"{quality:.1f} dB"
        print(f"{name:48}{rmse(image, truth, unseen):10.1f}{quality:8.2f} dB")

    shown = np.s_[:, :, SHOWN - first, 0]
    panels = {name: images[name][shown] for name in images if name != "best linear filter"}
    draw(panels, truth[shown], notes, out)
    print(f"\npicture   {out}")
