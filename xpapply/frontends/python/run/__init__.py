"""Blocks of slices on the paths that are known.

- `runner.py`: a traced function, and all that can run it; `record.py`: what came of its runs
- `in_blocks.py`, `executor.py`: call after call on blocks
- `rows.py`: the slices of arrays
- `kernel_of_paths.py`: all paths as one kernel
- `account.py`: what a run may cost; `comparison.py`: whether it gives what ``f`` gives
"""
