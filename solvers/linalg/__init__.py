"""Kernels for arrays, independent of problems and methods: products, Gram matrices, factorisations, random numbers,
prefetching."""
