"""Sums over rows and over equal indices, and products, in an order that never varies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]


def row_sums(indptr: NDArray[np.int64], terms: FloatArray) -> FloatArray:
    """Sum the terms of each row: [nnz, …] to [n, …], in the dtype of `terms`; empty rows give 0."""
    sums = np.zeros((len(indptr) - 1, *terms.shape[1:]), dtype=terms.dtype)
    filled = indptr[1:] > indptr[:-1]
    if filled.any():
        sums[filled] = np.add.reduceat(terms, indptr[:-1][filled], axis=0)
    return sums


def sums_by_index(index: NDArray[np.int64], terms: FloatArray, length: int) -> FloatArray:
    """Sum the terms of each index: [nnz, …] to [length, …], in the dtype of `terms`.

    Terms are added in float64 in the order of the input and rounded once.
    """
    width = int(np.prod(terms.shape[1:], dtype=np.int64))
    flat = (index[:, np.newaxis] * width + np.arange(width, dtype=np.int64)).ravel()
    sums = np.bincount(flat, weights=terms.ravel(), minlength=length * width)
    return sums.reshape(length, *terms.shape[1:]).astype(terms.dtype)


def product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the matrix product of [n, k] and [k, m], [n, m], in their dtype.

    A BLAS would be faster, but the order of its sums depends on its threads.
    """
    result: FloatArray = np.einsum("ij,jk->ik", left, right, order="C")
    return result
