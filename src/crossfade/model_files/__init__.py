"""The model a person takes home: in a file, for another runtime, as plain coefficients."""

from __future__ import annotations

from crossfade.model_files.saved import SavedModel, load_model, save_model

__all__ = ["SavedModel", "load_model", "save_model"]
