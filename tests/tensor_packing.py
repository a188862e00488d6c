"""What a tensor-core kernel reads and computes, written anew from its text and the PTX manual.

The places of factors, scales and biases are those that the kernel's own text reads;
nothing of the packing is called. Only for chains of Linear layers whose values are in
registers and whose weights are in shared memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from xpapply.codegen import ptx


@dataclass(frozen=True)
class Product:
    """One product as the kernel sees it, in float64; `lo` is None without split factors.

    `hi`, `lo` are (8 * tiles, 16 * steps); `scale` and `bias` belong to the results,
    `inputs` to the values before they are rounded (None: the product before has it);
    `name` is the array of the results.
    """

    name: str
    hi: np.ndarray
    lo: np.ndarray | None
    scale: np.ndarray | None
    bias: np.ndarray
    inputs: np.ndarray | None


def products(text, consts) -> list[Product]:
    """The products of a kernel, decoded from its packed weights."""
    packed = text.pack(consts)
    assert packed.dtype == np.uint8
    source = _loop(text, True)
    floats = int(re.search(r"factors = shared \+ (\d+);", text.source)[1])
    numbers = packed[:floats].view(np.float32)
    parts = re.split(r"(?=u32 p\d+_hi\[)", source)[1:]
    return [_product(part, packed[floats:], numbers, text.target) for part in parts]


def _loop(text, careful: bool) -> str:
    """The loop that looks at the range, or the one before it, which does not."""
    return text.source.split("for (;;)")[-1 if careful else -2]


def _masked(source: str, name: str) -> np.ndarray:
    """The places of a value that are set to 0 once it is there."""
    mask = rf"if \((\d+) >> \(2 \* t \+ \(e & 1\)\) & 1\) {name}\[m\]\[(\d+)\]\[e\] = 0;"
    found = [(int(bits), int(tile)) for bits, tile in re.findall(mask, source)]
    return np.array([8 * tile + c for bits, tile in found for c in range(8) if bits >> c & 1], int)


def features(text, n: int) -> np.ndarray:
    """The feature of the input in each place, 8 per tile; -1 for none.

    With loads of four numbers lane t reads the features 4 t to 4 t + 3 of 16: the first
    two are its pair of the first tile, the others of the second.
    """
    places = np.arange(-(-n // 8) * 8)
    if text.packing:
        pair, tile, lane = places % 2, places // 8, places % 8 // 2
        return 16 * (tile // 2) + 4 * lane + 2 * (tile % 2) + pair
    return np.where(places < n, places, -1)


def _product(part: str, factors: np.ndarray, numbers: np.ndarray, target) -> Product:
    steps = int(re.match(r"u32 p\d+_hi\[\d+\]\[(\d+)\]", part)[1])
    both, scaled = target.precision == "highest", target.precision != "medium"
    name, count = re.search(r"float (v\d+)\[\d+\]\[(\d+)\]\[4\];", part).groups()
    tiles = int(count)
    chunk = tiles
    if target.core == "wgmma":
        at = 16 * int(re.search(r"w = factors_at \+ (\d+) \+ ", part)[1])
        chunk = int(re.search(r"_hi\[m\]\[s\], w \+ 0 \+ s \* (\d+)", part)[1]) // 16
    else:
        at = int(re.search(r"\(factors \+ (\d+)\) \+ ", part)[1])
    if scaled:
        affine = re.search(r"const float4 c = .*\(f \+ (\d+) \+ 16 \* j", part)
    else:
        affine = re.search(r"const float2 c = .*\(f \+ (\d+) \+ 8 \* j", part)
    count = 2 if both else 1
    raw = factors[at : at + 256 * tiles * steps * count].view(np.uint16)
    kind = np.float16 if scaled else None
    if target.core == "wgmma":
        pieces = raw.reshape(tiles // chunk, -1)
        each = [_wgmma(piece, chunk, steps, count) for piece in pieces]
        decoded = [np.concatenate(p) for p in zip(*each, strict=True)]
    else:
        decoded = _mma(raw, tiles, steps, count)
    found = [_numbers(bits, kind) for bits in decoded]
    scale, bias = None, np.zeros(8 * tiles)
    if affine and scaled:  # four numbers per lane: two scales, two biases
        four = numbers[int(affine[1]) :][: 16 * tiles].reshape(tiles, 4, 4).astype(float)
        scale, bias = four[:, :, :2].reshape(-1), four[:, :, 2:].reshape(-1)
    elif affine:
        bias = numbers[int(affine[1]) :][: 8 * tiles].astype(float)
    inputs = None
    if "scaled[j][e] =" in part:
        width = 8 * int(re.search(r"float scaled\[(\d+)\]\[4\]", part)[1])
        inputs = np.zeros(16 * steps)
        own = int(re.search(r"scaled\[j\]\[e\] = .* f\[(\d+) \+ 8 \* \(?j", part)[1])
        inputs[:width] = numbers[own:][:width]
    return Product(name, found[0], found[1] if both else None, scale, bias, inputs)


def _numbers(bits: np.ndarray, kind) -> np.ndarray:
    if kind is not None:
        return bits.view(kind).astype(float)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(float)  # bfloat16


def _wgmma(raw: np.ndarray, tiles: int, steps: int, parts: int) -> list[np.ndarray]:
    """Core matrices of 8 rows of 16 bytes (K-major, no swizzle).

    As the descriptor says, 128 bytes apart along K and 256 bytes apart along N; one
    instruction takes 16 terms of all features.
    """
    found = []
    for part in range(parts):
        w = np.zeros((8 * tiles, 16 * steps), np.uint16)
        for n in range(8 * tiles):
            for k in range(16 * steps):
                step, term = divmod(k, 16)
                at = step * tiles * 256 + n // 8 * 256 + term // 8 * 128 + n % 8 * 16 + term % 8 * 2
                w[n, k] = raw[part * tiles * steps * 128 + at // 2]
        found.append(w)
    return found


def _mma(raw: np.ndarray, tiles: int, steps: int, parts: int) -> list[np.ndarray]:
    """Fragments B of ``mma.m16n8k16``, as the PTX manual draws them.

    Lane ``4 g + t`` has column g (a feature), of rows (terms) 2 t, 2 t + 1 in its first register
    and 2 t + 8, 2 t + 9 in its second; a lane's registers lie together, those of `hi` first.
    """
    found = [np.zeros((8 * tiles, 16 * steps), np.uint16) for _ in range(parts)]
    at = 0
    for tile in range(tiles):
        for step in range(steps):
            for lane in range(32):
                g, t = divmod(lane, 4)
                for part in range(parts):
                    for register in range(2):
                        for c in range(2):
                            k = 16 * step + 8 * register + 2 * t + c
                            found[part][8 * tile + g, k] = raw[at]
                            at += 1
    return found


# --- what the kernel computes with them -----------------------------------------------


def run(text, consts, net, x: np.ndarray) -> np.ndarray:
    """The results of an `MLP` of ReLU or tanh layers for slices ``x``, step by step."""
    with np.errstate(all="ignore"):
        watch = re.search(r"\(const u32\*\)f\)\[(\d+)\] == 0", text.source)
        if watch is None or text.pack(consts).view(np.uint32)[int(watch[1])]:
            return _run(text, consts, net, x, True)
        out = _run(text, consts, net, x, False)  # trusts that numbers stay in range
        return np.where(np.isfinite(out), out, _run(text, consts, net, x, True))


def _run(text, consts, net, x: np.ndarray, careful: bool) -> np.ndarray:
    done, source = products(text, consts), _loop(text, careful)
    value = x.astype(np.float32)
    for number, (w, b) in enumerate(zip(net.weights, net.biases, strict=True)):
        first, last = number == 0, number == len(net.weights) - 1
        if (first and w.shape[1] <= 4) or len(w) <= 2:  # plain multiply-adds
            value = _plain(w, b, value)
            if len(w) > 2:
                name = re.search(r"float (v\d+)\[\d+\]\[\d+\]\[4\];", source)[1]
                value[:, _masked(source, name)] = 0
        else:
            p = done.pop(0)
            if first:
                slots = features(text, w.shape[1])
                placed = np.zeros((len(value), len(slots)), np.float32)
                placed[:, slots >= 0] = value[:, slots[slots >= 0]]
                value = placed
            value = _affine(p, _pad(value, p.hi.shape[1]), text.target, careful)
            value[:, _masked(source, p.name)] = 0
        if not last or net.activations[-1] != "identity":
            name = net.activations[number]
            if name == "relu":
                value = np.maximum(value, np.float32(0))  # like max.NaN
            elif name == "tanh":
                value = np.tanh(value.astype(float)).astype(np.float32)
            elif name != "identity":
                raise NotImplementedError(name)
    assert not done
    return value[:, : len(net.weights[-1])]


def _plain(w: np.ndarray, b: np.ndarray | None, value: np.ndarray) -> np.ndarray:
    """Places without a feature have weights of 0."""
    rows = len(w) if len(w) <= 2 else -(-len(w) // 8) * 8
    weights = np.zeros((rows, value.shape[1]))
    weights[: len(w), : w.shape[1]] = w
    bias = np.zeros(rows)
    bias[: len(w)] = 0 if b is None else b
    return (value.astype(float) @ weights.T + bias).astype(np.float32)


def _pad(value: np.ndarray, width: int) -> np.ndarray:
    return np.pad(value, ((0, 0), (0, width - value.shape[1])))


def _affine(p: Product, value: np.ndarray, target, careful: bool) -> np.ndarray:
    """Products of float16 factors; with care, slices out of range get their own scale."""
    f, both = np.float32, target.precision == "highest"
    if p.inputs is not None:
        value = value * p.inputs.astype(f)
    top = np.abs(np.where(np.isnan(value), 0, value)).max(1)
    infinite, exponent = np.zeros(len(top), bool), np.zeros(len(top), int)
    if careful:  # like xp_into_range
        off = _with_their_tile(~((top == 0) | ((top >= ptx.LEAST) & (top <= 65504))))
        infinite = off & np.isinf(top)
        scaled = off & (top > 0) & ~infinite
        exponent = np.where(scaled, np.maximum(np.frexp(top)[1] - 1 - 12, -126), 0)
    value = value * np.ldexp(f(1), -exponent)[:, None]
    value[infinite] = np.where(np.isfinite(value[infinite]), 0, value[infinite])
    hi = value.astype(np.float16)
    lo = (value - hi.astype(f)).astype(np.float16)
    if both:
        lo[infinite], hi[infinite] = hi[infinite], 0
    hi, lo = hi.astype(float), lo.astype(float)
    assert p.hi.shape[1] <= 128  # longer sums are added up in two halves
    if not both:
        total = _summed(0, hi, p.hi)
    elif target.core == "wgmma":
        total = _summed(_summed(_summed(0, lo, p.hi), hi, p.lo), hi, p.hi)
    else:
        small = 0
        for k in _steps(hi, 16):
            small = _summed(_summed(small, lo[:, k], p.hi[:, k]), hi[:, k], p.lo[:, k])
        total = _summed(0, hi, p.hi) + small
    total = total.astype(f)
    if not careful:
        return (total.astype(float) * p.scale + p.bias).astype(f)
    unscaled = (total * p.scale.astype(f)).astype(float)  # rounded to float32 before the way back
    return (unscaled * np.ldexp(1.0, exponent)[:, None] + p.bias).astype(f)


def _steps(a: np.ndarray, width: int) -> list[slice]:
    return [slice(k, k + width) for k in range(0, a.shape[1], width)]


def _summed(total, a: np.ndarray, w: np.ndarray):
    """A sum on tensor cores: a step of 16 terms at a time, rounded to float32."""
    for k in _steps(a, 16):
        total = np.asarray(total + a[:, k] @ w[:, k].T, np.float32).astype(float)
    return total


def _with_their_tile(off: np.ndarray) -> np.ndarray:
    """All slices of a tile of 16 are scaled where one has to be."""
    tiles = np.pad(off, (0, -len(off) % 16)).reshape(-1, 16)
    return np.repeat(tiles.any(1), 16)[: len(off)]
