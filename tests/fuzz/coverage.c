/* Coverage of a switch that is compiled with -fsanitize-coverage=trace-pc: a map of the places that
 * were reached, and whether an input reached one for the first time. */
#include <stdint.h>

enum { FUZZ_PLACES = 1 << 16 };

static uint8_t fuzz_seen[FUZZ_PLACES];
static uint32_t fuzz_new;

__attribute__((no_sanitize_coverage, no_sanitize("address", "undefined")))
void __sanitizer_cov_trace_pc(void)
{
    uintptr_t pc = (uintptr_t)__builtin_return_address(0);
    uint8_t *seen = &fuzz_seen[(pc * 0x9e3779b97f4a7c15u) >> 48];
    fuzz_new += !*seen;
    *seen = 1;
}

/* Returns how many places were reached for the first time since the last call. */
__attribute__((no_sanitize_coverage, no_sanitize("address", "undefined")))
uint32_t fuzz_take_new(void)
{
    uint32_t found = fuzz_new;
    fuzz_new = 0;
    return found;
}
