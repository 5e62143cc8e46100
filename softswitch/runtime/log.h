/* Messages of log_msg, kept for the control plane: the newest SS_LOG_LINES. */
#ifndef SS_LOG_H
#define SS_LOG_H

#include <stdio.h>

#include "core.h"

enum { SS_LOG_LINES = 256, SS_LOG_WIDTH = 512 };

struct ss_log {
    uint64_t written, read;
    char lines[SS_LOG_LINES][SS_LOG_WIDTH];
};

struct ss_number {
    const uint64_t *limbs;
    uint32_t count;
};

/* Writes at most `room` decimal digits, the lowest ones, and a sign; returns how many. */
static size_t ss_log_number(char *out, size_t room, struct ss_number number)
{
    uint64_t rest[number.count];
    char digits[SS_LOG_WIDTH];
    size_t n = 0, len = 0;
    bool negative = ss_w_sign(number.limbs, number.count);
    if (negative)
        ss_w_neg(rest, number.limbs, number.count);
    else
        memcpy(rest, number.limbs, sizeof rest);
    do {
        uint64_t digit = 0;
        for (uint32_t i = number.count; i--;) {
            u128 part = SS_U128(digit, rest[i]);
            rest[i] = (uint64_t)(part / 10);
            digit = (uint64_t)(part % 10);
        }
        digits[n++] = (char)('0' + digit);
    } while (ss_w_nonzero(rest, number.count) && n + 1 < room);
    if (negative)
        out[len++] = '-';
    while (n)
        out[len++] = digits[--n];
    return len;
}

/* Writes `format` with each {} replaced by the next value. */
static void ss_log_message(struct ss_ctx *c, const char *format, const struct ss_number *values,
                           unsigned count)
{
    if (!c->log && !(c->log = calloc(1, sizeof *c->log)))
        return;
    char *line = c->log->lines[c->log->written++ % SS_LOG_LINES];
    size_t len = 0;
    unsigned used = 0;
    for (const char *s = format; *s && len + 64 < SS_LOG_WIDTH; s++) {
        if (*s == '{' && used < count) {
            while (s[1] && *s != '}')
                s++;
            len += ss_log_number(line + len, SS_LOG_WIDTH - len - 1, values[used++]);
        } else {
            line[len++] = *s;
        }
    }
    line[len] = 0;
}

#endif
