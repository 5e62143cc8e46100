/* Loads and stores of big-endian numbers in packets, and 128-bit helpers.
 *
 * Loads may read up to 15 bytes past the end of a packet: every buffer ends in SS_SLACK bytes.
 * Stores write exactly the bytes that they name. */
#ifndef SS_BITS_H
#define SS_BITS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef unsigned __int128 u128;
typedef __int128 i128;

#define SS_SLACK 64
#define SS_U128(hi, lo) (((u128)(uint64_t)(hi) << 64) | (uint64_t)(lo))

static inline uint64_t ss_ld8(const uint8_t *d) { return d[0]; }

static inline uint64_t ss_ld16(const uint8_t *d)
{
    uint16_t v;
    memcpy(&v, d, 2);
    return __builtin_bswap16(v);
}

static inline uint64_t ss_ld32(const uint8_t *d)
{
    uint32_t v;
    memcpy(&v, d, 4);
    return __builtin_bswap32(v);
}

static inline uint64_t ss_ld64(const uint8_t *d)
{
    uint64_t v;
    memcpy(&v, d, 8);
    return __builtin_bswap64(v);
}

static inline void ss_st8(uint8_t *d, uint64_t v) { d[0] = (uint8_t)v; }

static inline void ss_st16(uint8_t *d, uint64_t v)
{
    uint16_t w = __builtin_bswap16((uint16_t)v);
    memcpy(d, &w, 2);
}

static inline void ss_st32(uint8_t *d, uint64_t v)
{
    uint32_t w = __builtin_bswap32((uint32_t)v);
    memcpy(d, &w, 4);
}

static inline void ss_st64(uint8_t *d, uint64_t v)
{
    uint64_t w = __builtin_bswap64(v);
    memcpy(d, &w, 8);
}

/* Whether any of n bytes is not zero. */
static inline bool ss_any(const uint8_t *d, uint32_t n)
{
    uint64_t all = 0, word;
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(&word, d + i, 8);
        all |= word;
    }
    if (i < n && n >= 8) { /* the last eight, some of them again */
        memcpy(&word, d + n - 8, 8);
        return (all | word) != 0;
    }
    for (; i < n; i++)
        all |= d[i];
    return all != 0;
}

/* Bits [offset, offset + width) of a packet whose `avail` bytes are valid; width up to 128. */
static inline u128 ss_peek_bits(const uint8_t *d, uint32_t offset, uint32_t width)
{
    u128 v = 0;
    uint32_t first = offset / 8, last = (offset + width - 1) / 8;
    uint32_t tail = (last + 1) * 8 - (offset + width);
    for (uint32_t i = first; i < last; i++)
        v = (v << 8) | d[i];
    v = (v << (8 - tail)) | (u128)(d[last] >> tail);
    return width == 128 ? v : v & (((u128)1 << width) - 1);
}

/* Shifts by amounts known only at run time: everything is shifted out beyond the width. */
static inline uint64_t ss_shl64(uint64_t v, uint64_t n) { return n < 64 ? v << n : 0; }
static inline uint64_t ss_shr64(uint64_t v, uint64_t n) { return n < 64 ? v >> n : 0; }
static inline int64_t ss_sar64(int64_t v, uint64_t n) { return v >> (n < 64 ? n : 63); }
static inline u128 ss_shl128(u128 v, uint64_t n) { return n < 128 ? v << n : 0; }
static inline u128 ss_shr128(u128 v, uint64_t n) { return n < 128 ? v >> n : 0; }
static inline i128 ss_sar128(i128 v, uint64_t n) { return v >> (n < 128 ? n : 127); }

/* An index into a stack of `depth` headers: out of range it is `depth`, a spare header. */
#define SS_SLOT(i, depth) ((uint64_t)(i) < (depth) ? (uint64_t)(i) : (depth))

/* A 128-bit shift amount as one that fits. */
#define SS_AMOUNT(n) ((n) > 255 ? 255 : (uint64_t)(n))

#define SS_CLAMP(type, value, low, high)                             \
    __extension__({                                                  \
        type v_ = (value), low_ = (type)(low), high_ = (type)(high); \
        v_ < low_ ? low_ : v_ > high_ ? high_ : v_;                  \
    })

/* The signed number whose two's complement in `width` bits is v. */
static inline int64_t ss_sext64(uint64_t v, unsigned width)
{
    return (int64_t)(v << (64 - width)) >> (64 - width);
}

static inline i128 ss_sext128(u128 v, unsigned width)
{
    return (i128)(v << (128 - width)) >> (128 - width);
}

/* Appends `width` low bits of v to a bit string of *bits bits; the buffer is zeroed before. */
static inline void ss_put_bits(uint8_t *buf, uint32_t *bits, u128 v, uint32_t width)
{
    while (width) {
        uint32_t room = 8 - *bits % 8, n = width < room ? width : room;
        uint8_t part = (uint8_t)(v >> (width - n)) & (uint8_t)((1u << n) - 1);
        buf[*bits / 8] |= (uint8_t)(part << (room - n));
        *bits += n;
        width -= n;
    }
}

#endif
