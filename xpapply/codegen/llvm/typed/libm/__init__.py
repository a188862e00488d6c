"""Functions of the C library in text of LLVM, with its bits."""
