"""Packages that an extra of Crossfade installs: imported in one place, missed in one sentence."""

from __future__ import annotations

import platform
from importlib import import_module
from importlib.metadata import version
from typing import Any, Final

#: The extra that brings each optional package, by the name that is imported.
EXTRAS: Final = {
    "typer": "cli",
    "rich": "cli",
    "polars": "cli",
    "formulaic": "formula",
    "pandas": "formula",
    "altair": "report",
    "vl_convert": "report",
    "jinja2": "report",
    "starlette": "explore",
    "uvicorn": "explore",
    "dask": "dask",
    "cloudpickle": "dask",
    "distributed": "dask",
    "pyarrow": "interchange",
    "skops": "models",
    "skl2onnx": "onnx",
}


def import_optional(module: str, purpose: str) -> Any:
    """Return a module; where it is not installed, say for what it is needed and how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        from crossfade.errors import MissingExtraError  # brings scikit-learn, which takes a while

        raise MissingExtraError(missing_extra(module, purpose)) from error


def missing_extra(module: str, purpose: str) -> str:
    """Return the sentence about a package that is not installed."""
    package = module.partition(".")[0]
    return (
        f"the package {package} is needed for {purpose} and is not installed; install it with: "
        f"pip install 'crossfade[{EXTRAS[package]}]'"
    )


def versions() -> dict[str, str]:
    """Return the versions of what numbers depend on."""
    packages = ("crossfade", "numpy", "scipy", "scikit-learn")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
