"""Substitutes for everything that ``f`` can reach while it is traced.

- `sandbox.py`: the substitutes of one run, by what they stand for; `stage.py`: what they ask it
- `proxies.py`, `lookups.py`, `distinct` in `data_dependent/`: objects, containers, sets
- `library_calls.py`, `instances.py`, `polynomials.py`, `indexers.py`, `array_api_compat.py`: NumPy,
  SciPy and what they make
- `torch_objects.py`, `torch_models.py`, `autocast.py`, `estimators.py`: torch and scikit-learn
- `ambient.py`: settings of libraries that ``f`` depends on; `scratch.py`: attributes that it sets
- `operations.py`: all that tracers do, as the recorder gets it
- `tracing.py`: one run of ``f`` on a slice
"""
