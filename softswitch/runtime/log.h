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

static size_t ss_log_number(char *out, i128 value)
{
    char digits[48];
    size_t n = 0, len = 0;
    bool negative = value < 0;
    u128 rest = negative ? -(u128)value : (u128)value;
    do
        digits[n++] = (char)('0' + (int)(rest % 10));
    while (rest /= 10);
    if (negative)
        out[len++] = '-';
    while (n)
        out[len++] = digits[--n];
    return len;
}

/* Writes `format` with each {} replaced by the next value. */
static void ss_log_message(struct ss_ctx *c, const char *format, const i128 *values, unsigned count)
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
            len += ss_log_number(line + len, values[used++]);
        } else {
            line[len++] = *s;
        }
    }
    line[len] = 0;
}

#endif
