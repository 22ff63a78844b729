"""Kernels, losses, dictionaries, embeddings and linear algebra: what the engines are made of."""
