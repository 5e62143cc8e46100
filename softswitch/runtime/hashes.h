/* Hash algorithms of v1model over a byte string. */
#ifndef SS_HASHES_H
#define SS_HASHES_H

#include "bits.h"

/* One's complement sums (RFC 1071): the words of v, or v shifted by one byte, and the result. They
 * are kept in 64 bits and folded once, at the end: only their remainder by 65535 counts. */
static inline uint64_t ss_csum_add(uint64_t sum, uint64_t v)
{
    return sum + (v >> 32) + (uint32_t)v;
}

static inline uint64_t ss_csum_add_odd(uint64_t sum, uint64_t v)
{
    return ss_csum_add(ss_csum_add(sum, v << 8), v >> 56);
}

/* The sum, of less than 56 bits, of words that start at an odd byte of the whole, where `odd`: their
 * bytes change places, which is a multiplication by 256. */
static inline uint64_t ss_csum_turn(uint64_t sum, uint32_t odd)
{
    return sum << 8 * (odd & 1);
}

/* The sum of both halves, in the upper half, with its carry added. */
static inline uint64_t ss_csum_fold(uint64_t sum)
{
    sum += sum << 32 | sum >> 32;
    uint32_t half = (uint32_t)(sum >> 32);
    half += half << 16 | half >> 16;
    return ~half >> 16;
}

typedef uint64_t ss_csum_words __attribute__((vector_size(64)));

/* Adds bytes of a packet. They are summed in the processor's order: swapping the bytes of a one's
 * complement sum is swapping those of its terms. */
static inline uint64_t ss_csum_add_bytes(uint64_t sum, const uint8_t *d, uint32_t n)
{
    ss_csum_words many = {0}, words;
    uint64_t part = 0, word;
    uint32_t i = 0;
    for (; i + sizeof words <= n; i += sizeof words) {
        memcpy(&words, d + i, sizeof words);
        many += (words & UINT32_MAX) + (words >> 32);
    }
    if (n >= sizeof words)
        for (unsigned e = 0; e < sizeof words / 8; e++)
            part += many[e];
    for (; i + 8 <= n; i += 8) {
        memcpy(&word, d + i, 8);
        part += (uint32_t)word + (word >> 32);
    }
    if (i < n) {
        word = 0;
        memcpy(&word, d + i, n - i);
        part += (uint32_t)word + (word >> 32);
    }
    part = (uint32_t)part + (part >> 32);
    return sum + ss_csum_turn(part, 1);
}

/* Internet checksum, as a number in host order. */
static inline uint64_t ss_hash_csum16(const uint8_t *d, uint32_t n)
{
    uint64_t sum = 0;
    for (; n >= 4; d += 4, n -= 4)
        sum += ss_ld32(d);
    if (n >= 2) {
        sum += ss_ld16(d);
        d += 2;
        n -= 2;
    }
    if (n)
        sum += (uint64_t)d[0] << 8;
    return ss_csum_fold(sum);
}

static uint8_t ss_crc8_table[256];
static uint64_t ss_crc64_table[256];
static uint16_t ss_crc16_table[256];
static uint16_t ss_crcccitt_table[256];
static uint32_t ss_crc32_table[256];

/* Fills the tables of the reflected CRC-16 (0x8005), CRC-32 and CRC-64 (0x1b), and of CRC-CCITT
 * (0x1021) and CRC-8 (0x07). */
static void ss_hash_init(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t a = i, b = i, c = i << 8, e = i;
        uint64_t f = i;
        for (int k = 0; k < 8; k++) {
            a = a & 1 ? (a >> 1) ^ 0xa001 : a >> 1;
            b = b & 1 ? (b >> 1) ^ 0xedb88320 : b >> 1;
            c = c & 0x8000 ? (c << 1) ^ 0x1021 : c << 1;
            e = e & 0x80 ? (e << 1) ^ 0x07 : e << 1;
            f = f & 1 ? (f >> 1) ^ 0xd800000000000000u : f >> 1;
        }
        ss_crc16_table[i] = (uint16_t)a;
        ss_crc32_table[i] = b;
        ss_crcccitt_table[i] = (uint16_t)c;
        ss_crc8_table[i] = (uint8_t)e;
        ss_crc64_table[i] = f;
    }
}

static inline uint64_t ss_hash_crc16(const uint8_t *d, uint32_t n)
{
    uint16_t r = 0;
    for (; n; n--)
        r = ss_crc16_table[(r ^ *d++) & 0xff] ^ (r >> 8);
    return r;
}

static inline uint64_t ss_hash_crc32(const uint8_t *d, uint32_t n)
{
    uint32_t r = 0xffffffff;
    for (; n; n--)
        r = ss_crc32_table[(r ^ *d++) & 0xff] ^ (r >> 8);
    return r ^ 0xffffffff;
}

static inline uint64_t ss_hash_crcccitt(const uint8_t *d, uint32_t n)
{
    uint16_t r = 0xffff;
    for (; n; n--)
        r = (uint16_t)(ss_crcccitt_table[((r >> 8) ^ *d++) & 0xff] ^ (r << 8));
    return r;
}

static inline uint64_t ss_hash_crc8(const uint8_t *d, uint32_t n)
{
    uint8_t r = 0;
    for (; n; n--)
        r = ss_crc8_table[r ^ *d++];
    return r;
}

static inline uint64_t ss_hash_crc64(const uint8_t *d, uint32_t n)
{
    uint64_t r = 0;
    for (; n; n--)
        r = ss_crc64_table[(r ^ *d++) & 0xff] ^ (r >> 8);
    return r;
}

static inline uint64_t ss_hash_xor16(const uint8_t *d, uint32_t n)
{
    uint64_t r = 0;
    for (; n >= 2; d += 2, n -= 2)
        r ^= ss_ld16(d);
    return n ? r ^ (uint64_t)d[0] << 8 : r;
}

static inline uint64_t ss_hash_xor32(const uint8_t *d, uint32_t n)
{
    uint64_t r = 0;
    for (; n >= 4; d += 4, n -= 4)
        r ^= ss_ld32(d);
    for (uint32_t shift = 24; n; n--, shift -= 8)
        r ^= (uint64_t)*d++ << shift;
    return r;
}

/* XXH64 (xxHash specification 0.1.1) with seed 0. It reads its input in little-endian order. */
#define SS_XXH_P1 UINT64_C(0x9e3779b185ebca87)
#define SS_XXH_P2 UINT64_C(0xc2b2ae3d27d4eb4f)
#define SS_XXH_P3 UINT64_C(0x165667b19e3779f9)
#define SS_XXH_P4 UINT64_C(0x85ebca77c2b2ae63)
#define SS_XXH_P5 UINT64_C(0x27d4eb2f165667c5)

static inline uint64_t ss_rotl64(uint64_t v, unsigned n) { return v << n | v >> (64 - n); }

static inline uint64_t ss_xxh_round(uint64_t lane, uint64_t input)
{
    return ss_rotl64(lane + input * SS_XXH_P2, 31) * SS_XXH_P1;
}

static inline uint64_t ss_hash_xxh64(const uint8_t *d, uint32_t n)
{
    uint64_t lanes[4] = {SS_XXH_P1 + SS_XXH_P2, SS_XXH_P2, 0, -SS_XXH_P1};
    uint64_t r = SS_XXH_P5 + n, total = n;
    if (n >= 32) {
        for (; n >= 32; n -= 32)
            for (int i = 0; i < 4; i++, d += 8)
                lanes[i] = ss_xxh_round(lanes[i], __builtin_bswap64(ss_ld64(d)));
        r = ss_rotl64(lanes[0], 1) + ss_rotl64(lanes[1], 7) + ss_rotl64(lanes[2], 12)
            + ss_rotl64(lanes[3], 18);
        for (int i = 0; i < 4; i++)
            r = (r ^ ss_xxh_round(0, lanes[i])) * SS_XXH_P1 + SS_XXH_P4;
        r += total;
    }
    for (; n >= 8; n -= 8, d += 8)
        r = ss_rotl64(r ^ ss_xxh_round(0, __builtin_bswap64(ss_ld64(d))), 27) * SS_XXH_P1
            + SS_XXH_P4;
    if (n >= 4) {
        uint64_t word = __builtin_bswap32((uint32_t)ss_ld32(d));
        r = ss_rotl64(r ^ word * SS_XXH_P1, 23) * SS_XXH_P2 + SS_XXH_P3;
        d += 4;
        n -= 4;
    }
    for (; n; n--)
        r = ss_rotl64(r ^ *d++ * SS_XXH_P5, 11) * SS_XXH_P1;
    r = (r ^ r >> 33) * SS_XXH_P2;
    r = (r ^ r >> 29) * SS_XXH_P3;
    return r ^ r >> 32;
}

/* The first eight bytes as a number (fewer: the whole string). */
static inline uint64_t ss_hash_identity(const uint8_t *d, uint32_t n)
{
    uint64_t r = 0;
    for (uint32_t i = 0; i < n && i < 8; i++)
        r = (r << 8) | d[i];
    return r;
}

#endif
