"""Dual coordinate ascent: ``chain`` for chains, ``flat`` for flat labels, ``general`` is how both go on by L-BFGS at
the end.
"""
