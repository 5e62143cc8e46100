/* Sizes of the program. The control plane and the hosts learn them from the artifacts
 * (p4src/build/libra.build.json) and, at run time, from the answer to a PROBE. */
#ifndef LIBRA_CONFIG_P4
#define LIBRA_CONFIG_P4

#ifndef LANES
#define LANES 32
#endif

/* Rows of a lane in each of its two banks. */
#define ROW_BITS 13
/* Jobs and, per job, workers that the switch can tell apart. */
#define JOB_SLOT_BITS 4
#define RANK_BITS 7
/* W, the packets that a worker may have in flight. */
#define WINDOW_BITS 8
/* Switches that a DRAIN may visit behind the first one. */
#define MAX_HOPS 15

/* Places for each job in the counter of reasons. */
#define REASON_BITS 5

#define CELLS (1 << (ROW_BITS + 1))
#define JOBS (1 << JOB_SLOT_BITS)
#define MEMBERS (1 << (JOB_SLOT_BITS + RANK_BITS))
#define WINDOW (1 << WINDOW_BITS)
#define PORTS 512
#define REASONS (1 << (JOB_SLOT_BITS + REASON_BITS))

#define PROGRAM_VERSION 4

#endif
