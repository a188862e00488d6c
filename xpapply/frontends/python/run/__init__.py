"""Blocks of slices on the paths that are known.

- `in_blocks.py`, `executor.py`: call after call on blocks; `record.py`: what came of runs
- `rows.py`: the slices of arrays
- `account.py`: what a run may cost; `comparison.py`: whether it gives what ``f`` gives
"""
