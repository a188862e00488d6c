"""Functions for the suite `loops`: dynamic programming, sorting and searching by hand."""

from __future__ import annotations

import numpy as np

from .loop_rows import codes, normal, row, two

TABLES, SORTS = "dynamic programming", "sorting by hand"


@row(TABLES, 400, two(codes(30, 4)), "(n),(m)->()")
def edit_distance(a, b):
    before = list(range(len(b) + 1))
    for i in range(len(a)):
        now = [i + 1]
        for j in range(len(b)):
            change = before[j] + (a[i] != b[j])
            now.append(min(before[j + 1] + 1, now[j] + 1, change))
        before = now
    return before[-1]


@row(TABLES, 300, two(codes(40, 4)), "(n),(m)->()")
def common_subsequence(a, b):
    n, m = len(a), len(b)
    table = np.zeros((n + 1, m + 1), dtype=int)
    for i in range(n):
        for j in range(m):
            if a[i] == b[j]:
                table[i + 1, j + 1] = table[i, j] + 1
            else:
                table[i + 1, j + 1] = max(table[i, j + 1], table[i + 1, j])
    return table[n, m]


@row(TABLES, 2000, normal(100))
def increasing_subsequence(v):
    tails = []
    for x in v:
        low, high = 0, len(tails)
        while low < high:
            middle = (low + high) // 2
            if tails[middle] < x:
                low = middle + 1
            else:
                high = middle
        if low == len(tails):
            tails.append(x)
        else:
            tails[low] = x
    return len(tails)


WEIGHTS = (12, 7, 11, 8, 9, 6, 5, 14, 3, 10)


@row(TABLES, 500, lambda rng, n: (rng.integers(1, 50, (n, len(WEIGHTS))),))
def knapsack(values, capacity=50):
    best = [0] * (capacity + 1)
    for i in range(len(values)):
        for c in range(capacity, WEIGHTS[i] - 1, -1):
            best[c] = max(best[c], best[c - WEIGHTS[i]] + values[i])
    return best[capacity]


@row(TABLES, 150, two(codes(40, 4)), "(n),(m)->()")
def smith_waterman(a, b, match=2, mismatch=-1, gap=-1):
    n, m = len(a), len(b)
    score = np.zeros((n + 1, m + 1))
    best = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            s = match if a[i - 1] == b[j - 1] else mismatch
            score[i, j] = max(
                0, score[i - 1, j - 1] + s, score[i - 1, j] + gap, score[i, j - 1] + gap
            )
            if score[i, j] > best:
                best = score[i, j]
    return best


# --- sorting --------------------------------------------------------------------------


@row(SORTS, 1000, normal(40))
def insertion_sort(v):
    a = v.copy()
    for i in range(1, len(a)):
        x = a[i]
        j = i - 1
        while j >= 0 and a[j] > x:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = x
    return a


@row(SORTS, 1500, normal(101))
def quickselect(v):
    a = v.copy()
    k = len(a) // 2
    low, high = 0, len(a) - 1
    while low < high:
        pivot = a[k]
        i, j = low, high
        while i <= j:
            while a[i] < pivot:
                i += 1
            while pivot < a[j]:
                j -= 1
            if i <= j:
                a[i], a[j] = a[j], a[i]
                i += 1
                j -= 1
        if j < k:
            low = i
        if k < i:
            high = j
    return a[k]
