"""Inference: how parts combine into labellings."""
