"""CuPy's functions of short arrays, for the compiler, beside those of `xpapply.library.of_cupy`.

What CuPy computes in an order that it does not say, these compute in the plainest one: results are
equal to rounding.
"""
