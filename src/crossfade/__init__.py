"""Choose, fit and trust a probabilistic classifier: generative, discriminative, and between."""

from __future__ import annotations

__version__ = "0.1.0"
