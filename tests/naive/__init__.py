"""Brute-force twins of pronk's fast code, written from the definitions only.

Nothing here imports pronk. Every function states its definition in its docstring and prefers
``solve``, ``eigh`` and ``lstsq`` on freshly built matrices to any recursion. The definitions are
numbered: 1.1 KORS, 1.2 online Newton step, 1.3 KONS, 1.4 Sketched-KONS, 1.5 PROS-N-KONS and B-KONS,
1.6 CON-KONS, 1.7 AWV and ridge forecasters, 1.8 DualSGD, 1.9 DualSVRG, 1.10 the baselines; letters
with a number (N3, P9, D4, ...) name the readings of the papers that docs/errata.md explains.
"""
