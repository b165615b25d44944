"""Kernels that know arrays only: products, Gram matrices, factorisations, random numbers, prefetching."""
