"""Methods of Series that NumPy has no function for, in plain Python.

They are compiled with what calls them. Each gets arrays of numbers, and does what pandas does,
operation by operation.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def shift(v: Any, periods: Any) -> Any:
    """``x.shift(periods)`` of floats."""
    out = np.full(len(v), np.nan)
    for k in range(len(v)):
        if 0 <= k - periods < len(v):
            out[k] = v[k - periods]
    return out


def ffill(v: Any) -> Any:
    """``x.ffill()`` of floats."""
    out = v.copy()
    for k in range(1, len(v)):
        if out[k] != out[k]:
            out[k] = out[k - 1]
    return out


def bfill(v: Any) -> Any:
    """``x.bfill()`` of floats."""
    out = v.copy()
    for k in range(len(v) - 2, -1, -1):
        if out[k] != out[k]:
            out[k] = out[k + 1]
    return out


def rank(v: Any, share: Any) -> Any:
    """``x.rank(pct=share)``: equal numbers share the mean of their places, and NaN has none."""
    n = 0
    for k in range(len(v)):
        n += v[k] == v[k]
    order = np.argsort(v)  # NaN comes last
    out = np.full(len(v), np.nan)
    k = 0
    while k < n:
        end = k
        while end + 1 < n and v[order[end + 1]] == v[order[k]]:
            end += 1
        for place in range(k, end + 1):
            out[order[place]] = (k + end + 2) / 2 / n if share else (k + end + 2) / 2
        k = end + 1
    return out


def clip(v: Any, lower: Any, upper: Any) -> Any:
    """``x.clip(lower, upper)`` of floats: bounds in the wrong order change places."""
    low, high = lower, upper
    if low > high:
        low, high = high, low
    out = v.copy()
    for k in range(len(v)):
        if out[k] < low:
            out[k] = low
        if out[k] > high:
            out[k] = high
    return out


def commonest(v: Any) -> Any:
    """``x.mode()[0]``: the smallest of the values that are there most often."""
    ordered = np.sort(v)
    best, most, count = ordered[0], 0, 0
    for k in range(len(ordered)):
        count = count + 1 if k > 0 and ordered[k] == ordered[k - 1] else 1
        if count > most:
            best, most = ordered[k], count
    return best


def nunique(v: Any) -> Any:
    """``x.nunique()``, where NaN does not count."""
    ordered = np.sort(v)
    found = 0
    for k in range(len(ordered)):
        if ordered[k] == ordered[k] and (k == 0 or ordered[k] != ordered[k - 1]):
            found += 1
    return found


def largest(v: Any) -> Any:
    """``x.max()`` of floats, of which there may be none."""
    return np.nan if len(v) == 0 else v.max()


def smallest(v: Any) -> Any:
    """``x.min()`` of floats, of which there may be none."""
    return np.nan if len(v) == 0 else v.min()


def mean(v: Any) -> Any:
    """``x.mean()`` of floats, of which there may be none."""
    return np.nan if len(v) == 0 else v.mean()


def median(v: Any) -> Any:
    """``x.median()`` of floats, of which there may be none."""
    return np.nan if len(v) == 0 else np.median(v)


def std(v: Any, ddof: Any) -> Any:
    """``x.std(ddof=ddof)`` of numbers that are all there, of which there may be few."""
    return np.nan if len(v) <= ddof else np.std(v, ddof=ddof)


def var(v: Any, ddof: Any) -> Any:
    """``x.var(ddof=ddof)`` of numbers that are all there, of which there may be few."""
    return np.nan if len(v) <= ddof else np.var(v, ddof=ddof)


def std_of_those(v: Any, ddof: Any) -> Any:
    """``x.std(ddof=ddof)`` of those that are there."""
    return np.nan if (~np.isnan(v)).sum() <= ddof else np.nanstd(v, ddof=ddof)


def var_of_those(v: Any, ddof: Any) -> Any:
    """``x.var(ddof=ddof)`` of those that are there."""
    return np.nan if (~np.isnan(v)).sum() <= ddof else np.nanvar(v, ddof=ddof)


def runs(v: Any, missing: Any) -> Any:
    """``np.sum(v, where=~missing)``: NumPy adds the sums of what lies between missing elements."""
    total = np.sum(v[:0])
    k = 0
    while k < len(v):
        end = k
        while end < len(v) and not missing[end]:
            end += 1
        if end > k:
            total = total + np.sum(v[k:end])
        k = end + 1
    return total


def sum_in_runs(v: Any) -> Any:
    """``x.sum()`` of a nullable dtype."""
    return runs(v, np.isnan(v))


def mean_in_runs(v: Any) -> Any:
    """``x.mean()`` of a nullable dtype; of none NumPy warns."""
    missing = np.isnan(v)
    count = (~missing).sum()
    return np.nanmean(v) if count == 0 else runs(v, missing) / count


def var_in_runs(v: Any, ddof: Any) -> Any:
    """``x.var(ddof=ddof)`` of a nullable dtype; of too few NumPy warns."""
    missing = np.isnan(v)
    count = (~missing).sum()
    if count <= ddof:
        return np.nanvar(v, ddof=ddof)
    apart = v - runs(v, missing) / count
    return runs(apart * apart, missing) / (count - ddof)


def std_in_runs(v: Any, ddof: Any) -> Any:
    """``x.std(ddof=ddof)`` of a nullable dtype."""
    return np.sqrt(var_in_runs(v, ddof))


def percentile(v: Any, q: Any) -> Any:
    """``x.quantile(q / 100)`` of numbers, of which there may be none."""
    return np.nan if len(v) == 0 else np.percentile(v, q)


def corr(a: Any, b: Any) -> Any:
    """``x.corr(y)`` of numbers that are all there."""
    if len(a) < 2:
        return np.nan
    a, b = a - a.mean(), b - b.mean()
    a_scale, b_scale = np.max(np.abs(a)), np.max(np.abs(b))
    if a_scale == 0 or b_scale == 0:
        return np.nan
    a, b = a / a_scale, b / b_scale
    divisor = np.sqrt(np.dot(a, a) / (len(a) - 1))
    if divisor == 0:
        return np.nan
    result = np.dot(a, b) / (len(a) - 1) / divisor
    divisor = np.sqrt(np.dot(b, b) / (len(a) - 1))
    if divisor == 0:
        return np.nan
    result = result / divisor
    if result > 1.0:
        return 1.0
    return -1.0 if result < -1.0 else result


def corr_of_both(a: Any, b: Any) -> Any:
    """``x.corr(y)`` of those that both have."""
    there = ~(np.isnan(a) | np.isnan(b))
    return corr(a[there], b[there])


def cov(a: Any, b: Any) -> Any:
    """``x.cov(y)`` of numbers that are all there."""
    if len(a) == 0:
        return np.nan
    return np.dot(a - a.mean(), b - b.mean()) * (1.0 / (len(a) - 1))


def cov_of_both(a: Any, b: Any) -> Any:
    """``x.cov(y)`` of those that both have."""
    there = ~(np.isnan(a) | np.isnan(b))
    return cov(a[there], b[there])


def corrcoef(a: Any, b: Any) -> Any:
    """``np.corrcoef(a, b)[0, 1]``."""
    a, b = a - a.mean(), b - b.mean()
    fact = 1.0 / (len(a) - 1)
    found = np.dot(a, b) * fact / np.sqrt(np.dot(a, a) * fact) / np.sqrt(np.dot(b, b) * fact)
    if found > 1.0:
        return 1.0
    return -1.0 if found < -1.0 else found


def average(a: Any, weights: Any) -> Any:
    """``np.average(a, weights=weights)``."""
    scale = weights.sum()
    if scale == 0:
        raise ZeroDivisionError("Weights sum to zero, can't be normalized")
    return (a * weights).sum() / scale


class Columns(dict[Any, Any]):
    """What a Series that is a result for a row would be made of, by its labels."""


class Elements(Columns):
    """The same, of a list without labels."""


class Indexed(Columns):
    """The same, of a list and its labels."""


def columns(found: dict[Any, Any]) -> Columns:
    """``pd.Series({"a": ...})``, to be made with those of all rows."""
    return Columns(found)


def elements(found: dict[Any, Any]) -> Elements:
    """``pd.Series([...])``, to be made with those of all rows."""
    return Elements(found)


def indexed(found: dict[Any, Any]) -> Indexed:
    """``pd.Series([...], index=[...])``, to be made with those of all rows."""
    return Indexed(found)
