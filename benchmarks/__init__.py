"""Comparisons with the peers, each side measured in the same run."""
