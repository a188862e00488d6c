"""``engine=xpapply`` on nullable dtypes, of which elements may be missing, and on float32."""

import numpy as np
import pytest
from test_pandas_engine import (
    GAPS,
    INTEGERS,
    MIXED,
    NUMBERS,
    TABLES,
    N,
    always,
    check,
    mapped,
    texts,
    two,
    whole_numbers,
)

import xpapply

pd = pytest.importorskip("pandas", "3")
__all__ = ["always"]  # a fixture

HOLES = INTEGERS.a.astype("Int64").where(NUMBERS.a > -1)
NULLABLES = {
    "Int64": INTEGERS.astype("Int64"),
    "Float64": NUMBERS.astype("Float64"),
    "boolean": (NUMBERS > 0).astype("boolean"),
    "both": NUMBERS.astype({"b": "Float64"}).assign(a=INTEGERS.a.astype("Int64"), c=INTEGERS.c),
    "among others": MIXED.assign(a=INTEGERS.a.astype("Int64"), b=(NUMBERS.b > 0).astype("boolean")),
    "Int8": INTEGERS.astype("Int8"),
    "Float32": NUMBERS.astype("Float32"),
    "missing": INTEGERS.astype("Int64").assign(a=HOLES),
    "missing among others": MIXED.assign(a=HOLES),
    "NaN": GAPS.astype("Float64"),
}


@pytest.mark.parametrize("name", NULLABLES)
def test_nullable_dtypes(name):
    table = NULLABLES[name]
    for f in (
        two, whole_numbers, texts, lambda r: r["a"] > r.b, lambda r: r.a**-1, lambda r: r.a // r.b,
        lambda r: r.a + 0.5, lambda r: pd.Series({"p": r.a, "q": 2}), lambda r: r.sum(),
        lambda r: r[["a", "b"]].max(), lambda r: r * 2, lambda r: pd.isna(r.a), lambda r: 1 - r.b,
    ):  # fmt: skip
        check(table, f)
    for column in ("a", "b"):
        for f in (
            lambda x: x + 1, lambda x: x / 2 if x is not pd.NA else 0, lambda x: "a" if x else "b",
            lambda x: None, lambda x: 2.5, lambda x: 1 // x, lambda x: x > 0,
        ):  # fmt: skip
            for action in (None, "ignore"):
                mapped(table[column], f, na_action=action)


def test_nullable_dtypes_run_at_once():
    many = {name: pd.concat([table] * 50) for name, table in NULLABLES.items()}
    many["unread"] = many["missing"].assign(c=pd.NA).astype({"c": "Int64"})
    many["float32"] = pd.concat([TABLES["float32"]] * 50)
    for name in {*NULLABLES, "unread", "float32"} - {"boolean", "Int8", "Float32"}:
        check(many[name], two, at_once=True)
    check(many["float32"], lambda r: r.a * 2 if r.b > 0 else 1, at_once=True)
    mapped(many["missing"].a, lambda x: x * 2 + 1, at_once=True)
    mapped(many["missing"].a, lambda x: x * 2 + 1, na_action="ignore", at_once=True)
    mapped(many["Int8"].a, lambda x: pd.NA if x > 2 else x / 2, at_once=True)
    for name, why, f in (
        ("missing", "it returns Series, and something", lambda r: pd.Series([r.a, 1])),
        ("Int8", "Int8: astype", lambda r: r.a + r.b),
        ("Float32", "Float32: astype", lambda r: r.a + r.b),
        ("unread", "is missing in each row", lambda r: r.c + 1),
        ("float32", "whole rows are float32", lambda r: r.std()),
    ):
        with pytest.warns(xpapply.FallbackWarning, match=why):
            many[name].apply(f, axis=1, engine=xpapply)
    with pytest.warns(xpapply.FallbackWarning, match="its elements are str"):
        many["among others"].kind.map(lambda x: len(x), engine=xpapply)


def test_rows_that_lack_a_number_are_pandas_own_calls():
    """Of all others nothing is called again; what is raised first is raised."""
    table, seen = NULLABLES["missing among others"].reset_index(drop=True), []

    def f(row):
        seen.append(row.name)
        return row.a * 2

    check(table, f)
    assert seen == [*range(N)] * 3
    for late in (table.index[table.a.isna()][-1], N - 1):
        table["b"] = np.where(table.index == late, 0.0, 1.0)
        check(table, lambda r: r.a // int(r.b))
        check(table, lambda r: r.a / r.n if r.b else {}[0])
    texts = table.assign(kind=table.kind.where(table.index % 4 > 0, None).astype(object))
    check(texts, lambda r: r.c if r.kind == "x" else r.d)
    check(texts.astype({"kind": "string"}), lambda r: r.c if r.kind is pd.NA else r.d)
    check(NUMBERS.assign(a=GAPS.a, b=INTEGERS.b.astype("Int64")), lambda r: r.a + 1 if r.b else 0)


def test_draws_come_in_the_order_of_rows():
    """Also where rows run in parts: by their texts, or by what they lack."""
    kinds = MIXED.assign(kind=np.where(np.arange(N) % 2, "x", "y"))
    for table in (kinds, NULLABLES["missing among others"], NULLABLES["missing"]):
        for _ in range(2):
            found, after = [], []
            for how in ({}, {"engine": xpapply}):
                rng = np.random.default_rng(3)

                def f(row, rng=rng):
                    more = rng.random() if row.b > 0 else rng.normal()
                    return row.a + more if row.get("kind") != "y" else more

                found.append(table.apply(f, axis=1, **how))
                after.append(rng.random())
            pd.testing.assert_series_equal(*found)
            assert after[0] == after[1]


def test_no_element_is_none():
    many = pd.concat([NULLABLES["missing"]] * 50, ignore_index=True)
    check(many, lambda r: r.b if r["a"] is pd.NA or r.b is None else r.a, at_once=True)
    mapped(many.a, lambda x: x + 1 if x is not pd.NA else -1, at_once=True)
    mapped(NUMBERS.a, lambda x: x + 1 if x is not None else -1, at_once=True)

    def f(x):
        x = None if x > 0 else x
        return 1 if x is None else 2

    mapped(NUMBERS.a, f)


def test_warnings_of_rows_that_pandas_does_not_come_to():
    table = NUMBERS.assign(a=GAPS.a.where(NUMBERS.index > 3), b=1.0).astype("Float64")
    table.loc[N - 1, "b"] = 0.0
    check(table, lambda r: 1 if r.b**-1 > 0 and r.a > 0 else 2)


def test_dtypes_of_pyarrow():
    pytest.importorskip("pyarrow")
    arrow = {"a": "int64[pyarrow]", "b": "double[pyarrow]", "c": "int8[pyarrow]"}
    missing = INTEGERS.astype("Int64").assign(a=HOLES)
    for table in (
        INTEGERS.astype(arrow),
        missing.astype(arrow),
        MIXED.assign(a=INTEGERS.a, c=1).astype(arrow),
    ):
        for f in (two, whole_numbers, texts, lambda r: r.a // r.c, lambda r: r.a + 0.5):
            check(table, f)
        for name in "abc":
            mapped(table[name], lambda x: x + 1)
            mapped(table[name], lambda x: "a" if x > 0 else pd.NA, na_action="ignore")
    check(pd.concat([missing.astype("int64[pyarrow]")] * 50), two, at_once=True)


WHOLE = [
    lambda r: r.sum(),
    lambda r: r.mean(),
    lambda r: r.max() - r.min(),
    lambda r: r.std(),
    lambda r: r.median(),
    lambda r: r.count(),
    lambda r: r.isna().sum(),
    lambda r: r.fillna(0).sum(),
    lambda r: (r > 0).sum(),
    lambda r: (r > r.mean()).mean(),
    lambda r: (r - r.mean()).abs().max(),
    lambda r: r[["a", "b"]].sum(),
    lambda r: r[["a", "b"]].std(),
    lambda r: r / r.sum(),
    lambda r: r - r.mean(),
    lambda r: r * 2,
    lambda r: -r,
    lambda r: r / r,
    lambda r: r > 0,
    lambda r: r[["a", "b"]] * 2,
    lambda r: r.fillna(r.mean()),
    lambda r: r.a / r.sum(),
    lambda r: r.iloc[0] + r.max(),
    lambda r: pd.Series({"s": r.sum(), "m": r.max()}),
    lambda r: "high" if r.mean() > 0 else "low",
    lambda r: r.quantile(0.5),
    lambda r: r.rank(),
    lambda r: np.percentile(r, 50),
    lambda r: r.cumsum(),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("k", range(len(WHOLE)))
@pytest.mark.parametrize("name", NULLABLES)
def test_whole_rows(k, name):
    table = NULLABLES[name]
    check(table, WHOLE[k])
    check(table.select_dtypes("number"), WHOLE[k])


def test_whole_rows_run_at_once():
    many = {name: pd.concat([table] * 50) for name, table in NULLABLES.items()}
    for k in (0, 1, 2, 3, 8, 10, 13, 14, 21, 23):
        check(many["Float64"], WHOLE[k], at_once=True)
    for k in (0, 1, 8, 13):
        check(many["Int64"], WHOLE[k], at_once=True)
    for k in (0, 1, 3, 14):
        check(many["NaN"], WHOLE[k], at_once=True)
    check(many["missing"], WHOLE[0], at_once=True)
