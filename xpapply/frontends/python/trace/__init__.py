"""Recording one run of ``f``: the tracer of the slice, and the path that it leaves.

- `tracer.py`, `recorder.py`: the stand-in, and the calls and decisions that are written down;
  `stand_ins.py`: all kinds of them in arguments
- `tree.py`: all paths that were seen; `decisions.py`: calls whose last bit may decide something
- `ufuncs.py`, `functions.py`, `indexing.py`, `attributes.py`, `elements.py`, `writes.py`: what
  functions do with arrays, as calls
- `python_builtins.py`, `python_numbers.py`, `scalars.py`, `choices.py`, `complex_numbers.py`:
  Python's numbers
- `arrays.py`, `native.py`, `tensors.py`: lists as arrays, calls on a device, tensors of torch
"""
