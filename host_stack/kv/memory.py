"""Keeping the memory of large messages.

ZeroMQ allocates the memory of each message anew. What glibc gets for blocks of megabytes are pages
that the kernel has to clear, and gives back as soon as they are freed; for arrays of millions of
keys that takes as long as copying them.
"""

import ctypes

LARGE_BYTES = 1 << 20
"""From this size on a message is worth the question whether the heap has grown."""

# <malloc.h>
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_M_ARENA_MAX = -8
_NEVER = -1

# <sys/mman.h>
_MADV_HUGEPAGE = 14
_MADV_COLLAPSE = 25
_HUGE_PAGE_BYTES = 2 << 20


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


class KeptHeap:
    """What malloc gets from the system after `keep_memory`, in huge pages where there are some.

    Copying megabytes between a socket and pages of 4 KiB takes much longer than with huge pages.
    The kernel gives these to who asks (transparent huge pages, `madvise`), for memory that malloc
    has got.
    """

    def __init__(self) -> None:
        """Of a heap that grows from here on."""
        libc = ctypes.CDLL(None)
        self._sbrk = libc.sbrk
        self._sbrk.argtypes, self._sbrk.restype = (ctypes.c_ssize_t,), ctypes.c_size_t
        self._madvise = libc.madvise
        self._madvise.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
        self._end = self._huge(self._sbrk(0))

    def use_huge_pages(self) -> None:
        """Ask for huge pages where the heap has grown: for those to come, and those that are there.

        A kernel that has none refuses, and nothing is lost.
        """
        end = self._huge(self._sbrk(0))
        if end <= self._end:
            return
        for advice in (_MADV_HUGEPAGE, _MADV_COLLAPSE):
            self._madvise(self._end, end - self._end, advice)
        self._end = end

    @staticmethod
    def _huge(address: int) -> int:
        """The beginning of the huge page of an address."""
        return address - address % _HUGE_PAGE_BYTES
