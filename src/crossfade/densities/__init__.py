"""Crossfade."""
