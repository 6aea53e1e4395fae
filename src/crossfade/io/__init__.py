"""The model a person takes home: in a file, for another runtime, as plain coefficients."""

from __future__ import annotations

from crossfade.io.coefficients import coefficients
from crossfade.io.file_source import FileSource, scan
from crossfade.io.onnx import register_converters, to_onnx
from crossfade.io.saved import SavedModel, load_model, save_model

__all__ = [
    "FileSource",
    "SavedModel",
    "coefficients",
    "load_model",
    "register_converters",
    "save_model",
    "scan",
    "to_onnx",
]
