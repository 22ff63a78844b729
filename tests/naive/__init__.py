"""Brute-force twins of pronk's fast code, written from the definitions only.

Nothing here imports pronk. Every function follows a section of the project's
ALGORITHMS.md, named in its docstring, and prefers ``solve``, ``eigh`` and
``lstsq`` on freshly built matrices to any recursion.
"""
