"""Corpora beyond memory and beyond one machine."""
