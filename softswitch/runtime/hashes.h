/* Hash algorithms of v1model over a byte string. */
#ifndef SS_HASHES_H
#define SS_HASHES_H

#include "bits.h"

/* One's complement sums (RFC 1071): the words of v, or v shifted by one byte, and the result. */
static inline uint64_t ss_csum_add(uint64_t sum, uint64_t v)
{
    return sum + (v >> 32) + (uint32_t)v;
}

static inline uint64_t ss_csum_add_odd(uint64_t sum, uint64_t v)
{
    return ss_csum_add(ss_csum_add(sum, v << 8), v >> 56);
}

static inline uint64_t ss_csum_fold(uint64_t sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
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

static uint16_t ss_crc16_table[256];
static uint16_t ss_crcccitt_table[256];
static uint32_t ss_crc32_table[256];

/* Fills the tables of the reflected CRC-16 (0x8005) and CRC-32 and of CRC-CCITT (0x1021). */
static void ss_hash_init(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t a = i, b = i, c = i << 8;
        for (int k = 0; k < 8; k++) {
            a = a & 1 ? (a >> 1) ^ 0xa001 : a >> 1;
            b = b & 1 ? (b >> 1) ^ 0xedb88320 : b >> 1;
            c = c & 0x8000 ? (c << 1) ^ 0x1021 : c << 1;
        }
        ss_crc16_table[i] = (uint16_t)a;
        ss_crc32_table[i] = b;
        ss_crcccitt_table[i] = (uint16_t)c;
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

static inline uint64_t ss_hash_xor16(const uint8_t *d, uint32_t n)
{
    uint64_t r = 0;
    for (; n >= 2; d += 2, n -= 2)
        r ^= ss_ld16(d);
    return n ? r ^ (uint64_t)d[0] << 8 : r;
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
