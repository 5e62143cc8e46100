"""Keeping the memory of large messages.

ZeroMQ allocates the memory of each message anew. What glibc gets for blocks of megabytes are pages
that the kernel has to clear, and gives back as soon as they are freed; for arrays of millions of
keys that takes as long as copying them.
"""

import ctypes

# <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_M_ARENA_MAX = -8
_NEVER = -1


def keep_memory() -> bool:
    """Let the whole process keep freed memory for later blocks; False where malloc cannot.

    One arena, which never shrinks, serves blocks of all sizes and threads that start from now on.
    So a process stays as large as it once was, and blocks of very unlike sizes may leave gaps.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # not glibc
        return False
    options = ((_M_ARENA_MAX, 1), (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, _NEVER))
    return all([mallopt(option, value) for option, value in options])
