"""The order in which pairs of numbers are compared to sort them, whatever they are."""

from __future__ import annotations

from collections.abc import Iterator


def pairs(n: int) -> Iterator[tuple[int, int]]:
    """The comparisons of a sorting network for `n` numbers, in order.

    Batcher's odd-even merging, for any number: Knuth, The Art of Computer Programming, volume 3,
    algorithm 5.2.2 M.
    """
    top = 1 << max(0, (n - 1).bit_length() - 1)
    p = top if n > 1 else 0
    while p:
        q, r, d = top, 0, p
        while True:
            for i in range(n - d):
                if i & p == r:
                    yield i, i + d
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2
