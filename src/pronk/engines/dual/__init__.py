"""Kernel terms and one vector of random features."""
