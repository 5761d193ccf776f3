"""Dual coordinate ascent: ``chain`` for chains, ``flat`` for flat labels, ``general`` what both share."""
