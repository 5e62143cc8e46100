/* Zeroed arrays that live as long as the switch, one behind the other in huge pages.
 *
 * Arrays of equal size would otherwise start at the same offset of their pages, and the same index
 * of all of them fall into the same few lines of every cache: a program that touches a cell in each
 * of many arrays would miss nearly always. The gap between arrays spreads them. */
#ifndef SS_ARENA_H
#define SS_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

enum {
    SS_CACHE_LINE = 64,
    SS_ARENA_GAP = 5 * SS_CACHE_LINE, /* an odd number of lines reaches every set of a cache */
    SS_HUGE_PAGE = 2 << 20,
};

struct ss_arena {
    void *map;
    size_t mapped;
    uint8_t *next;
};

/* Bytes that an array takes. */
#define SS_ARENA_ROOM(bytes) \
    (((uint64_t)(bytes) + SS_CACHE_LINE - 1) / SS_CACHE_LINE * SS_CACHE_LINE + SS_ARENA_GAP)

/* Reserves memory for arrays that take `room` bytes together; false when there is not enough. */
static bool ss_arena_open(struct ss_arena *a, uint64_t room)
{
    a->mapped = room + SS_HUGE_PAGE;
    a->map = mmap(NULL, a->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (a->map == MAP_FAILED) {
        a->map = NULL;
        return false;
    }
    uintptr_t start = ((uintptr_t)a->map + SS_HUGE_PAGE - 1) & -(uintptr_t)SS_HUGE_PAGE;
    a->next = (uint8_t *)start;
    madvise(a->next, room, MADV_HUGEPAGE); /* kernels without huge pages refuse: nothing is lost */
    return true;
}

static void *ss_arena_take(struct ss_arena *a, uint64_t bytes)
{
    void *array = a->next;
    a->next += SS_ARENA_ROOM(bytes);
    return array;
}

static void ss_arena_close(struct ss_arena *a)
{
    if (a->map)
        munmap(a->map, a->mapped);
}

#endif
