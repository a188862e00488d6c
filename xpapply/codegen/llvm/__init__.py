"""Kernels for CPUs as text in LLVM's intermediate language, which `xpapply.backends.cpu` runs."""
