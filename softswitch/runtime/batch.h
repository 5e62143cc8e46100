/* Batches of control calls. The data plane sees all calls of a batch or none, between two packets:
 * everything slow (validation, translation) is over when the batch takes the lock. */
#ifndef SS_BATCH_H
#define SS_BATCH_H

#include "api.h"

struct ss_call {
    uint64_t function; /* its place in SS_BATCH_CALLS */
    uint64_t args[6];  /* integers and pointers, without the context */
};

/* The calls that may be in a batch, by name, and how to make them. */
#define SS_BATCH_CALLS(X) \
    X(ss_table_add, ss_table_add(c, U32(0), U32(1), PTR(2), U32(3), PTR(4))) \
    X(ss_table_modify, (ss_table_modify(c, U32(0), U32(1), U32(2), PTR(3)), 0)) \
    X(ss_table_delete, (ss_table_delete(c, U32(0), U32(1), PTR(2)), 0)) \
    X(ss_table_default, (ss_table_default(c, U32(0), U32(1), PTR(2)), 0)) \
    X(ss_member_set, ss_member_set(c, U32(0), U32(1), U32(2), PTR(3))) \
    X(ss_selection_set, ss_selection_set(c, U32(0), U32(1), INT(2), PTR(3), U32(4))) \
    X(ss_value_set_write, ss_value_set_write(c, U32(0), PTR(1), U32(2), U32(3))) \
    X(ss_meters_set, ss_meters_set(c, INT(0), U32(1), U64(2), U64(3), PTR(4))) \
    X(ss_meters_clear, ss_meters_clear(c, INT(0), U32(1), U64(2), U64(3))) \
    X(ss_digest_enable, (ss_digest_enable(c, U32(0), INT(1)), 0)) \
    X(ss_counter_write, ss_counter_write(c, INT(0), U32(1), U64(2), U64(3), U64(4))) \
    X(ss_registers_write, (ss_registers_write(c, U32(0), U64(1), U64(2), PTR(3)), 0)) \
    X(ss_group_set, ss_group_set(c, U32(0), INT(1), PTR(2), U32(3))) \
    X(ss_session_set, ss_session_set(c, U32(0), INT(1), PTR(2), U32(3), U32(4)))

#define SS_CALL_NAME(name, call) #name " "
const char *ss_batch_calls(void) { return SS_BATCH_CALLS(SS_CALL_NAME); }
#undef SS_CALL_NAME

#define SS_CALL_NUMBER(name, call) name##_call,
enum ss_batch_call { SS_BATCH_CALLS(SS_CALL_NUMBER) SS_NUM_BATCH_CALLS };
#undef SS_CALL_NUMBER

#define U32(i) (uint32_t) call->args[i]
#define U64(i) call->args[i]
#define INT(i) (int)call->args[i]
#define PTR(i) (const void *)(uintptr_t)call->args[i]
#define SS_CALL_CASE(name, expression) \
    case name##_call: \
        return expression;
static int ss_batch_one(struct ss_ctx *c, const struct ss_call *call)
{
    switch ((enum ss_batch_call)call->function) {
        SS_BATCH_CALLS(SS_CALL_CASE)
    default:
        return -EINVAL;
    }
}
#undef SS_CALL_CASE
#undef U32
#undef U64
#undef INT
#undef PTR

/* Makes calls until one fails; returns how many succeeded. Unless that is all of them, the lock
 * stays with the caller, who undoes them and calls ss_batch_end. */
uint64_t ss_batch(struct ss_ctx *c, const struct ss_call *calls, uint64_t count)
{
    uint64_t done = 0;
    ss_lock(c);
    while (done < count && !ss_batch_one(c, calls + done))
        done++;
    if (done == count)
        ss_unlock(c);
    return done;
}

void ss_batch_end(struct ss_ctx *c) { ss_unlock(c); }

#endif
