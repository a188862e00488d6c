"""Installed versions and engines, for bug reports.

Nothing but xpapply, and with it NumPy, is imported.
"""

from __future__ import annotations

import os
import platform
from dataclasses import fields
from importlib import metadata
from importlib.util import find_spec

from .. import __version__, config
from ..backends.cpu import disk_cache
from ..errors import InputError
from ..runtime import registry

_LIBRARIES = (
    *("numpy", "array_api_compat", "cupy", "torch", "llvmlite"),
    *("jax", "dask", "scipy", "sklearn"),
)
"""Import names, of which a bug report wants the versions."""
_NEEDS = {"cpu": "llvmlite"}
"""Packages of engines with other names."""


def versions() -> dict[str, str]:
    """Versions of the array libraries that are installed, without importing them.

    Returns
    -------
    dict of str to str
        By import name; where the distribution is called otherwise, its name
        follows the version in brackets.
    """
    installed = metadata.packages_distributions()
    found = {}
    for name in _LIBRARIES:
        for distribution in dict.fromkeys(installed.get(name, ())):
            version = metadata.version(distribution)
            same = distribution.replace("-", "_").lower() == name
            found[name] = version if same else f"{version} ({distribution})"
    return found


def engines() -> dict[str, str]:
    """Engines, and whether their libraries are installed.

    Returns
    -------
    dict of str to str
        By the name that `Plan.engine` shows.
    """
    found = {"loop": "always", "array_api": "any array of the array API standard"}
    for name in registry.names("backends"):
        if name not in found:
            here = find_spec(_NEEDS.get(name, name)) is not None
            found[name] = "library installed" if here else "library not installed"
    return found


def report() -> str:
    """The text that ``python -m xpapply`` prints."""
    system = f"{platform.python_implementation()} {platform.python_version()}"
    lines = [
        ("xpapply", __version__),
        ("python", f"{system}, {platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"),
        *versions().items(),
    ]
    lines += [(f"engine {name}", text) for name, text in engines().items()]
    lines.append(("kernels on disk", disk_cache.folder() or "none"))
    lines.append(("frontends", ", ".join(registry.names("frontends"))))
    try:
        current = config.current()
    except InputError as error:  # of the environment, which a report should show
        lines.append(("options", str(error)))
    else:
        chosen = (f"{f.name}={getattr(current, f.name)!r}" for f in fields(current))
        lines.append(("options", ", ".join(chosen)))
    return "\n".join(f"{name:18}{text}" for name, text in lines)
