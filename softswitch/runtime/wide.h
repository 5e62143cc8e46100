/* Numbers of more than 128 bits: n limbs of 64 bits, the lowest first, in two's complement.
 *
 * Functions write their result to d, which they return, and may read operands from it. Sums,
 * differences, products, left shifts and bit operations are modulo 2^(64 n); the others need
 * operands whose sign is right, which generated code sees to by choosing n. */
#ifndef SS_WIDE_H
#define SS_WIDE_H

#include "bits.h"

/* A place for a result, as long as the enclosing block lives. */
#define SS_LIMBS(n) ((uint64_t[n]){0})

static inline uint64_t ss_w_sign(const uint64_t *a, uint32_t n)
{
    return (uint64_t)((int64_t)a[n - 1] >> 63);
}

static inline uint64_t *ss_w_u128(uint64_t *d, uint32_t n, u128 v)
{
    d[0] = (uint64_t)v;
    for (uint32_t i = 1; i < n; i++)
        d[i] = i == 1 ? (uint64_t)(v >> 64) : 0;
    return d;
}

static inline uint64_t *ss_w_i128(uint64_t *d, uint32_t n, i128 v)
{
    uint64_t sign = v < 0 ? UINT64_MAX : 0;
    d[0] = (uint64_t)(u128)v;
    for (uint32_t i = 1; i < n; i++)
        d[i] = i == 1 ? (uint64_t)((u128)v >> 64) : sign;
    return d;
}

static inline u128 ss_w_low(const uint64_t *a, uint32_t n)
{
    return n > 1 ? SS_U128(a[1], a[0]) : a[0];
}

/* m limbs, zero-extended or cut. */
static inline uint64_t *ss_w_copy(uint64_t *d, uint32_t n, const uint64_t *a, uint32_t m)
{
    for (uint32_t i = 0; i < n; i++)
        d[i] = i < m ? a[i] : 0;
    return d;
}

/* A big-endian number of `count` bytes. */
static inline uint64_t *ss_w_load(uint64_t *d, uint32_t n, const uint8_t *from, uint32_t count)
{
    memset(d, 0, n * sizeof *d);
    for (uint32_t i = 0; i < count && i / 8 < n; i++)
        d[i / 8] |= (uint64_t)from[count - 1 - i] << i % 8 * 8;
    return d;
}

/* Stores the low `width` bits as a big-endian number of `count` bytes. */
static inline void ss_w_store(uint8_t *to, uint32_t count, uint32_t width, const uint64_t *a,
                              uint32_t n)
{
    for (uint32_t i = 0; i < count; i++)
        to[count - 1 - i] = i / 8 < n ? (uint8_t)(a[i / 8] >> i % 8 * 8) : 0;
    if (count && width < count * 8)
        to[0] &= (uint8_t)(0xff >> (count * 8 - width));
}

/* Bits [offset, offset + width) of a packet as `count` bytes with leading zeroes. */
static inline void ss_get_bits(uint8_t *to, uint32_t count, const uint8_t *d, uint32_t offset,
                               uint32_t width)
{
    for (uint32_t i = count; i--;) {
        uint32_t part = width < 8 ? width : 8;
        width -= part;
        to[i] = part ? (uint8_t)ss_peek_bits(d, offset + width, part) : 0;
    }
}

static inline uint64_t *ss_w_bits(uint64_t *d, uint32_t n, const uint8_t *from, uint32_t offset,
                                  uint32_t width)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t part = width < 64 ? width : 64;
        width -= part;
        d[i] = part ? (uint64_t)ss_peek_bits(from, offset + width, part) : 0;
    }
    return d;
}

/* The signed number in the low `width` (up to 64 n) bits. */
static inline uint64_t *ss_w_sext(uint64_t *d, const uint64_t *a, uint32_t n, uint32_t width)
{
    uint64_t sign = a[(width - 1) / 64] >> (width - 1) % 64 & 1 ? UINT64_MAX : 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t keep = width >= 64 * (i + 1) ? UINT64_MAX
                        : width <= 64 * i     ? 0
                                              : (UINT64_C(1) << width % 64) - 1;
        d[i] = (a[i] & keep) | (sign & ~keep);
    }
    return d;
}

/* The unsigned number in the low `width` (up to 64 n) bits. */
static inline uint64_t *ss_w_cut(uint64_t *d, const uint64_t *a, uint32_t n, uint32_t width)
{
    for (uint32_t i = 0; i < n; i++)
        d[i] = a[i];
    if (width % 64)
        d[n - 1] &= (UINT64_C(1) << width % 64) - 1;
    return d;
}

static inline uint64_t *ss_w_add(uint64_t *d, const uint64_t *a, const uint64_t *b, uint32_t n)
{
    uint64_t carry = 0;
    for (uint32_t i = 0; i < n; i++) {
        u128 sum = (u128)a[i] + b[i] + carry;
        d[i] = (uint64_t)sum;
        carry = (uint64_t)(sum >> 64);
    }
    return d;
}

static inline uint64_t *ss_w_sub(uint64_t *d, const uint64_t *a, const uint64_t *b, uint32_t n)
{
    uint64_t borrow = 0;
    for (uint32_t i = 0; i < n; i++) {
        u128 difference = (u128)a[i] - b[i] - borrow;
        d[i] = (uint64_t)difference;
        borrow = (uint64_t)(difference >> 64) & 1;
    }
    return d;
}

static inline uint64_t *ss_w_neg(uint64_t *d, const uint64_t *a, uint32_t n)
{
    uint64_t carry = 1;
    for (uint32_t i = 0; i < n; i++) {
        d[i] = ~a[i] + carry;
        carry = carry && !d[i];
    }
    return d;
}

#define SS_W_BITWISE(name, value)                                                               \
    static inline uint64_t *name(uint64_t *d, const uint64_t *a, const uint64_t *b, uint32_t n) \
    {                                                                                           \
        for (uint32_t i = 0; i < n; i++)                                                        \
            d[i] = value;                                                                       \
        return d;                                                                               \
    }
SS_W_BITWISE(ss_w_and, a[i] & b[i])
SS_W_BITWISE(ss_w_or, a[i] | b[i])
SS_W_BITWISE(ss_w_xor, a[i] ^ b[i])
#undef SS_W_BITWISE

static inline uint64_t *ss_w_not(uint64_t *d, const uint64_t *a, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        d[i] = ~a[i];
    return d;
}

static inline uint64_t *ss_w_mul(uint64_t *d, const uint64_t *a, const uint64_t *b, uint32_t n)
{
    uint64_t product[n];
    memset(product, 0, sizeof product);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t carry = 0;
        for (uint32_t k = 0; i + k < n; k++) {
            u128 sum = (u128)a[i] * b[k] + product[i + k] + carry;
            product[i + k] = (uint64_t)sum;
            carry = (uint64_t)(sum >> 64);
        }
    }
    memcpy(d, product, sizeof product);
    return d;
}

static inline uint64_t *ss_w_shl(uint64_t *d, const uint64_t *a, uint32_t n, uint64_t amount)
{
    uint64_t whole = amount / 64, part = amount % 64;
    for (uint32_t i = n; i--;) {
        uint64_t high = i >= whole ? a[i - whole] : 0;
        uint64_t low = i > whole ? a[i - whole - 1] : 0;
        d[i] = part ? high << part | low >> (64 - part) : high;
    }
    return d;
}

/* Shifts right, with copies of the sign. */
static inline uint64_t *ss_w_shr(uint64_t *d, const uint64_t *a, uint32_t n, uint64_t amount)
{
    uint64_t whole = amount / 64, part = amount % 64, sign = ss_w_sign(a, n);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t low = whole < n - i ? a[i + whole] : sign;
        uint64_t high = whole < n - i && n - i - whole > 1 ? a[i + whole + 1] : sign;
        d[i] = part ? low >> part | high << (64 - part) : low;
    }
    return d;
}

static inline bool ss_w_nonzero(const uint64_t *a, uint32_t n)
{
    uint64_t any = 0;
    for (uint32_t i = 0; i < n; i++)
        any |= a[i];
    return any != 0;
}

static inline int ss_w_cmp_unsigned(const uint64_t *a, const uint64_t *b, uint32_t n)
{
    for (uint32_t i = n; i--;)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return 0;
}

/* Below, at or above zero as a is below, equal to or above b. */
static inline int ss_w_cmp(const uint64_t *a, const uint64_t *b, uint32_t n)
{
    if ((a[n - 1] ^ b[n - 1]) >> 63)
        return a[n - 1] >> 63 ? -1 : 1;
    return ss_w_cmp_unsigned(a, b, n);
}

static inline uint64_t *ss_w_clamp(uint64_t *d, const uint64_t *a, const uint64_t *low,
                                   const uint64_t *high, uint32_t n)
{
    const uint64_t *from = ss_w_cmp(a, low, n) < 0 ? low : ss_w_cmp(a, high, n) > 0 ? high : a;
    return memmove(d, from, n * sizeof *d);
}

/* Quotient or remainder, cut towards zero; zero when the divisor is. */
static inline uint64_t *ss_w_divide(uint64_t *d, const uint64_t *a, const uint64_t *b, uint32_t n,
                                    bool remainder)
{
    uint64_t x[n], y[n], q[n], r[n];
    bool negative_a = a[n - 1] >> 63, negative_b = b[n - 1] >> 63;
    if (!ss_w_nonzero(b, n))
        return memset(d, 0, n * sizeof *d);
    if (negative_a)
        ss_w_neg(x, a, n);
    else
        memcpy(x, a, sizeof x);
    if (negative_b)
        ss_w_neg(y, b, n);
    else
        memcpy(y, b, sizeof y);
    memset(q, 0, sizeof q);
    memset(r, 0, sizeof r);
    for (uint32_t bit = 64 * n; bit--;) {
        ss_w_shl(r, r, n, 1);
        r[0] |= x[bit / 64] >> bit % 64 & 1;
        if (ss_w_cmp_unsigned(r, y, n) >= 0) {
            ss_w_sub(r, r, y, n);
            q[bit / 64] |= UINT64_C(1) << bit % 64;
        }
    }
    if (remainder)
        return negative_a ? ss_w_neg(d, r, n) : memcpy(d, r, sizeof r);
    return negative_a != negative_b ? ss_w_neg(d, q, n) : memcpy(d, q, sizeof q);
}

static inline uint64_t *ss_w_quotient(uint64_t *d, const uint64_t *a, const uint64_t *b, uint32_t n)
{
    return ss_w_divide(d, a, b, n, false);
}

static inline uint64_t *ss_w_remainder(uint64_t *d, const uint64_t *a, const uint64_t *b,
                                       uint32_t n)
{
    return ss_w_divide(d, a, b, n, true);
}

/* A length or an amount to shift by: what does not fit 32 bits is 2^32 - 1. */
static inline uint64_t ss_w_amount(const uint64_t *a, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (a[i])
            return UINT32_MAX;
    return a[0] < UINT32_MAX ? a[0] : UINT32_MAX;
}

#endif
