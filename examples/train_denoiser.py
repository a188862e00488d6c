"""Train the network of ``xpapply demo``, and store it beside the demo.

    pip install ".[demo,torch]"
    python examples/train_denoiser.py  # a minute or two on two free cores

The network sees the 5 x 5 x 3 noisy values around a voxel and says how much noise is in the
voxel. It is trained on the slices z = 0..8 and 16..23 of the volume, with fresh noise and a
random reflection in every step; the demo judges it on the slices 10..14. The two
linear filters that it is compared with are fitted to the same slices.

The features are shifted and scaled for training; both are folded into the first and the last
layer before storing, so that the stored network takes and gives the volume's own units.
"""

from __future__ import annotations

import numpy as np
import torch

from xpapply.cli.demo import (
    HELD_OUT,
    NOISE,
    TRAINED,
    WINDOW,
    add_noise,
    neighbourhoods,
    read_volume,
)

WIDTH = 64
STEPS = 10_000
BATCH = 4096
MIDDLE, SCALE = 500.0, 200.0
CENTRE = int(np.prod(WINDOW)) // 2


def gaussian_kernel(in_plane: float, across: float) -> np.ndarray:
    """A Gaussian filter in the window, of these standard deviations in voxels: shape (75,)."""
    x, y, z = np.meshgrid(*(np.arange(n) - n // 2 for n in WINDOW), indexing="ij")
    kernel = np.exp(-(x**2 + y**2) / (2 * in_plane**2) - z**2 / (2 * across**2))
    return (kernel / kernel.sum()).ravel()


def fit_filters(noisy: np.ndarray, truth: np.ndarray) -> dict[str, np.ndarray]:
    """The best Gaussian and the best linear filter, (rows, 75) -> (rows,)."""
    widths = [(a, b) for a in np.arange(0.4, 1.3, 0.05) for b in np.arange(0.2, 1.3, 0.05)]
    errors = [np.mean((noisy @ gaussian_kernel(*w) - truth) ** 2) for w in widths]
    best = widths[int(np.argmin(errors))]
    print(f"Gaussian filter: {best[0]:.2f} voxels in plane, {best[1]:.2f} across")
    rows = np.column_stack([noisy, np.ones(len(noisy))]).astype(np.float64)
    *linear, bias = np.linalg.solve(rows.T @ rows, rows.T @ truth)
    return {
        "gaussian": gaussian_kernel(*best).astype(np.float32),
        "gaussian_widths": np.array(best, np.float32),
        "linear": np.array(linear, np.float32),
        "linear_bias": np.float32(bias),
    }


def reflect(windows: torch.Tensor, step: int) -> torch.Tensor:
    """One of the 16 reflections of the windows, shape (rows, 75)."""
    x = windows.reshape(-1, *WINDOW)
    x = x.flip([axis + 1 for axis in range(3) if step >> axis & 1])
    if step >> 3 & 1:
        x = x.transpose(1, 2)
    return x.reshape(len(windows), -1)


def train(windows: torch.Tensor, weight: torch.Tensor) -> torch.nn.Sequential:
    """A network that tells the noise in the middle of a window of clean values plus noise."""
    n = windows.shape[1]
    net = torch.nn.Sequential(
        torch.nn.Linear(n, WIDTH),
        torch.nn.ReLU(),
        torch.nn.Linear(WIDTH, WIDTH),
        torch.nn.ReLU(),
        torch.nn.Linear(WIDTH, 1),
    )
    adam = torch.optim.Adam(net.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, STEPS)
    running = 0.0
    for step in range(STEPS):
        rows = torch.randint(len(windows), (BATCH,))
        noise = NOISE / SCALE * torch.randn(BATCH, n)
        noisy = reflect(windows[rows], step) + noise
        loss = (weight[rows] * (net(noisy)[:, 0] - noise[:, CENTRE]) ** 2).mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
        schedule.step()
        running += loss.item()
        if (step + 1) % 1000 == 0:
            print(f"step {step + 1:6}: error {SCALE * (running / 1000) ** 0.5:.2f}")
            running = 0.0
    return net


def main() -> None:
    torch.manual_seed(0)
    truth = read_volume()
    z = np.arange(truth.shape[2])
    training = (z < HELD_OUT.start - 1) | (z > HELD_OUT.stop)
    clean = neighbourhoods(truth)[:, :, training].reshape(-1, np.prod(WINDOW))
    noisy = neighbourhoods(add_noise(truth, seed=0))[:, :, training].reshape(clean.shape)
    head = clean[:, CENTRE] > 0

    arrays = fit_filters(noisy[head], clean[head, CENTRE])
    # the head, and with less weight what lies around it
    near = clean.max(axis=1) > 0
    weight = np.where(head[near], np.float32(1), np.float32(0.3))
    windows = (torch.from_numpy(clean[near]) - MIDDLE) / SCALE
    net = train(windows, torch.from_numpy(weight))

    weights = [layer.weight.detach().double().numpy() for layer in net[::2]]
    biases = [layer.bias.detach().double().numpy() for layer in net[::2]]
    weights[0] /= SCALE
    biases[0] -= MIDDLE * weights[0].sum(axis=1)
    weights[-1] *= SCALE
    biases[-1] *= SCALE
    for k, (w, b) in enumerate(zip(weights, biases, strict=True)):
        arrays |= {f"weight{k}": w.astype(np.float32), f"bias{k}": b.astype(np.float32)}
    np.savez_compressed(TRAINED, **arrays)
    print(f"{TRAINED.name}: {TRAINED.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
