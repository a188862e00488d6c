"""``import xpapply.xarray``: the accessor ``.xpapply`` of DataArrays and Datasets.

xpapply's functions take labelled arrays without it. The accessor is for chains of methods.

>>> import numpy as np, xarray as xr, xpapply.xarray
>>> scene = xr.DataArray(np.arange(6.0).reshape(2, 3), {"y": [10, 20]}, ("y", "band"))
>>> scene.xpapply.apply(np.ptp, "band")
<xarray.DataArray (y: 2)> Size: 16B
array([2., 2.])
Coordinates:
  * y        (y) int64 16B 10 20
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import xarray as xr

from .apply import apply_along_axis, explain
from .config import options
from .planning.plan import Plan

__all__ = ["Accessor"]

Dim = Hashable | tuple[Hashable, ...]


@xr.register_dataset_accessor("xpapply")
@xr.register_dataarray_accessor("xpapply")
class Accessor:
    """The accessor ``.xpapply`` of a DataArray or a Dataset, after ``import xpapply.xarray``."""

    def __init__(self, container: Any) -> None:
        self._container = container

    def apply(
        self,
        f: Callable[..., Any],
        dim: Dim,
        *,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        output_dims: Any = None,
    ) -> Any:
        """Apply a function to the slices along a dim, or along several.

        Parameters
        ----------
        f : callable (M,) -> (Nj...)
            As of `xpapply.apply_along_axis`. It gets arrays without labels.
        dim : hashable or tuple of hashable
            The name of the dim that slices run along. With several, `f` gets slices with as
            many dims, in this order.
        args, kwargs
            Passed on to `f`.
        output_dims : str or tuple of str, optional
            Names of the dims of `f`'s result, as of `xpapply.options`.

        Returns
        -------
        DataArray or Dataset
            With the coordinates of the dims that are left, and attrs as the option
            ``keep_attrs`` of xarray says. Of a Dataset, variables without `dim` stay as they are.

        Raises
        ------
        InputError
            If there is no such dim, with those that there are, or `output_dims` are not as many
            as the dims of the result.
        Exception
            What `f` raises.

        Examples
        --------
        >>> import numpy as np, xarray as xr, xpapply.xarray
        >>> scene = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=("y", "band"))
        >>> extremes = lambda v: [v.min(), v.max()]
        >>> scene.xpapply.apply(extremes, "band", output_dims="extreme").dims
        ('y', 'extreme')
        """
        kwargs = kwargs or {}
        if output_dims is None:
            return apply_along_axis(f, dim, self._container, *args, **kwargs)  # type: ignore[arg-type]
        with options(output_dims=output_dims):
            return apply_along_axis(f, dim, self._container, *args, **kwargs)  # type: ignore[arg-type]

    def explain(self, f: Callable[..., Any], dim: Dim) -> Plan:
        """The plan of ``apply(f, dim)`` of a DataArray: see `xpapply.explain`."""
        return explain(f, dim, self._container)  # type: ignore[arg-type]
