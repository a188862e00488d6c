"""Blocks of slices on the paths that are known.

- `runner.py`: a traced function, and its calls in blocks; `record.py`: what came of its runs
- `in_blocks.py`, `executor.py`: call after call on blocks
- `rows.py`: the slices of arrays
- `account.py`: what a run may cost; `comparison.py`: whether it gives what ``f`` gives
"""
