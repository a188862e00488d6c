"""What instructions read: registers and numbers, which are never taken for one another."""

from xpapply.ir.typed import Literal, Register


def test_registers_are_no_numbers():
    assert Register(4, "int64") != Literal(4, "int64")
    assert Literal(True, "bool") not in {Register(1, "bool")}
    assert Register(4, "int64") == Register(4, "int64")


def test_zeros_have_signs():
    assert Literal(0.0, "float64") != Literal(-0.0, "float64")
    assert Literal(0.0, "float64") == Literal(0.0, "float64") != Literal(0.0, "float32")
    assert {Literal(1, "int64"), Literal(1, "int64")} == {Literal(1, "int64")}
