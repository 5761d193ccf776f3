"""Room 3, inference: how parts combine into labellings."""
