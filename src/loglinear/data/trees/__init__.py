"""Constituency trees: ``tree`` has the trees and their bracketed text, ``cleaning`` reads treebanks, ``heads`` finds
heads and dependencies, ``transforms`` and ``annotation`` make the binary trees that grammars are read off, and
``drawing`` draws trees.
"""
