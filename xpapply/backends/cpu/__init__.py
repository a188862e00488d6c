"""CPUs: kernels that are generated as LLVM IR and compiled by llvmlite."""
