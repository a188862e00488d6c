"""Parity with the plain loop, and strategies that draw arrays, networks and signatures.

For the tests of xpapply itself, of backends and frontends that others write,
and for anyone who wants to know that their own network gives what the loop
gives. Every tolerance of the project is here.
"""

from .by_definition import definition
from .error_analysis import FUNCTION_ULPS, PLAIN_ULPS, SAFETY, rounding_errors
from .parity import assert_parity
from .signatures import operands, signatures
from .strategies import (
    ACTIVATIONS,
    DTYPES,
    MLP_ACTIVATIONS,
    ORDERS,
    activation,
    arrays,
    axes,
    mlps,
    networks,
)

__all__ = [
    "ACTIVATIONS",
    "DTYPES",
    "FUNCTION_ULPS",
    "MLP_ACTIVATIONS",
    "ORDERS",
    "PLAIN_ULPS",
    "SAFETY",
    "activation",
    "arrays",
    "assert_parity",
    "axes",
    "definition",
    "mlps",
    "networks",
    "operands",
    "rounding_errors",
    "signatures",
]
