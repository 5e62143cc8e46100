/* Vectors of 64-bit numbers: what a program does in many alike copies, done for SS_WIDTH copies at
 * once.
 *
 * The compiler's own vector types work on any processor; what is written for one kind of processor
 * here is what compilers do not find themselves. */
#ifndef SS_VECTORS_H
#define SS_VECTORS_H

#include "bits.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#ifdef __AVX512DQ__
#define SS_WIDTH 8
#define SS_EACH(X) X(0), X(1), X(2), X(3), X(4), X(5), X(6), X(7)
#else
#define SS_WIDTH 4
#define SS_EACH(X) X(0), X(1), X(2), X(3)
#endif

typedef uint64_t ss_v __attribute__((vector_size(8 * SS_WIDTH)));
typedef int64_t ss_sv __attribute__((vector_size(8 * SS_WIDTH)));

/* A constant that compilers leave in memory, instead of making it anew wherever it is used. */
#define SS_USED __attribute__((used))

#define SS_INLINE static inline __attribute__((always_inline))

SS_INLINE ss_v ss_v_all(uint64_t x) { return x + (ss_v){0}; }
SS_INLINE ss_v ss_v_if(bool truth) { return ss_v_all(-(uint64_t)truth); } /* all bits or none */

/* 0, 1, 2, … */
SS_INLINE ss_v ss_v_numbers(void)
{
#define SS_NUMBER(i) i
    return (ss_v){SS_EACH(SS_NUMBER)};
#undef SS_NUMBER
}

SS_INLINE ss_v ss_v_load(const uint64_t *p)
{
    ss_v v;
    memcpy(&v, p, sizeof v);
    return v;
}

SS_INLINE void ss_v_store(uint64_t *p, ss_v v) { memcpy(p, &v, sizeof v); }

/* Masks: a bit per element where processors have registers for them, else a vector whose elements
 * have all bits set or none. Both know & | ~. */
#if SS_WIDTH == 8
typedef uint8_t ss_m;

SS_INLINE ss_m ss_m_if(bool truth) { return (ss_m) - (int)truth; }
SS_INLINE ss_m ss_m_of(unsigned bits) { return (ss_m)bits; }
SS_INLINE unsigned ss_m_bits(ss_m m) { return m; }
SS_INLINE bool ss_m_any(ss_m m) { return m != 0; }
SS_INLINE ss_v ss_m_number(ss_m m) { return (ss_v)_mm512_maskz_set1_epi64(m, 1); }
SS_INLINE ss_v ss_v_pick(ss_m m, ss_v a, ss_v b)
{
    return (ss_v)_mm512_mask_blend_epi64(m, (__m512i)b, (__m512i)a);
}
#define SS_COMPARE(name, op, code)                                              \
    SS_INLINE ss_m ss_m_##name(ss_v a, ss_v b)                                  \
    {                                                                           \
        return _mm512_cmp_epu64_mask((__m512i)a, (__m512i)b, _MM_CMPINT_##code); \
    }                                                                           \
    SS_INLINE ss_m ss_m_s##name(ss_v a, ss_v b)                                 \
    {                                                                           \
        return _mm512_cmp_epi64_mask((__m512i)a, (__m512i)b, _MM_CMPINT_##code); \
    }
#else
typedef ss_v ss_m;

SS_INLINE ss_m ss_m_if(bool truth) { return ss_v_all(-(uint64_t)truth); }
SS_INLINE ss_m ss_m_of(unsigned bits)
{
    return (ss_m)((ss_v_all(bits) >> ss_v_numbers() & 1) != 0);
}
SS_INLINE unsigned ss_m_bits(ss_m m)
{
#ifdef __AVX2__
    return (unsigned)_mm256_movemask_pd((__m256d)m);
#else
    return (unsigned)((m[0] & 1) | (m[1] & 2) | (m[2] & 4) | (m[3] & 8));
#endif
}
SS_INLINE bool ss_m_any(ss_m m) { return ss_m_bits(m) != 0; }
SS_INLINE ss_v ss_m_number(ss_m m) { return m & 1; }
SS_INLINE ss_v ss_v_pick(ss_m m, ss_v a, ss_v b)
{
#ifdef __AVX2__
    ss_v picked; /* as an intrinsic, GCC makes it a comparison and more */
    __asm__("vpblendvb %3, %2, %1, %0" : "=x"(picked) : "x"(b), "xm"(a), "x"(m));
    return picked;
#else
    return b ^ ((a ^ b) & m);
#endif
}
#define SS_COMPARE(name, op, code)                                              \
    SS_INLINE ss_m ss_m_##name(ss_v a, ss_v b) { return (ss_m)(a op b); }       \
    SS_INLINE ss_m ss_m_s##name(ss_v a, ss_v b) { return (ss_m)((ss_sv)a op(ss_sv) b); }
#endif

SS_COMPARE(eq, ==, EQ)
SS_COMPARE(ne, !=, NE)
SS_COMPARE(lt, <, LT)
SS_COMPARE(le, <=, LE)
SS_COMPARE(gt, >, NLE)
SS_COMPARE(ge, >=, NLT)
#undef SS_COMPARE

/* Elements that have any of the bits of b. */
SS_INLINE ss_m ss_m_test(ss_v a, ss_v b)
{
#if SS_WIDTH == 8
    return _mm512_test_epi64_mask((__m512i)a, (__m512i)b);
#else
    return (ss_m)((a & b) != 0);
#endif
}

/* Runs what follows for the number e of each element of a mask that is set. */
#define SS_V_EACH(e, mask)                                            \
    for (unsigned bits_ = ss_m_bits(mask), e; bits_; bits_ &= bits_ - 1) \
        if ((e = (unsigned)__builtin_ctz(bits_)), 1)

/* Shifts; everything is shifted out beyond the width. */
SS_INLINE ss_v ss_v_shl(ss_v v, ss_v n)
{
#if SS_WIDTH == 8
    return (ss_v)_mm512_sllv_epi64((__m512i)v, (__m512i)n);
#elif defined(__AVX2__)
    return (ss_v)_mm256_sllv_epi64((__m256i)v, (__m256i)n);
#else
    return (v << (n & 63)) & (ss_v)(n < 64);
#endif
}

SS_INLINE ss_v ss_v_shr(ss_v v, ss_v n)
{
#if SS_WIDTH == 8
    return (ss_v)_mm512_srlv_epi64((__m512i)v, (__m512i)n);
#elif defined(__AVX2__)
    return (ss_v)_mm256_srlv_epi64((__m256i)v, (__m256i)n);
#else
    return (v >> (n & 63)) & (ss_v)(n < 64);
#endif
}

SS_INLINE ss_v ss_v_sar(ss_v v, ss_v n)
{
#if SS_WIDTH == 8
    return (ss_v)_mm512_srav_epi64((__m512i)v, (__m512i)n);
#else
    const ss_v amount = ss_v_pick(ss_m_lt(n, ss_v_all(64)), n, ss_v_all(63));
    return (ss_v)((ss_sv)v >> (ss_sv)amount);
#endif
}

/* The signed numbers whose two's complement in `width` bits the elements are. */
SS_INLINE ss_v ss_v_sext(ss_v v, unsigned width)
{
    return (ss_v)((ss_sv)(v << (64 - width)) >> (64 - width));
}

/* Sapphire Rapids and what came after it. Its gathers are faster than loads one by one, and what
 * lies in the upper half of a store of 64 bytes is slow to come if it is loaded at once: addresses
 * are better taken out of a vector than stored. On Zen 4 it is the other way round. */
#if SS_WIDTH == 8 && defined(__AVX512FP16__)
#define SS_GATHERS
#define SS_PART(at, i) _mm512_extracti64x2_epi64((__m512i)(at), i)
#define SS_BOTH(part) (uint64_t)_mm_cvtsi128_si64(part), (uint64_t)_mm_extract_epi64(part, 1)
#define SS_V_ADDRESSES(a, at)                                                      \
    const uint64_t a[] = {SS_BOTH(SS_PART(at, 0)), SS_BOTH(SS_PART(at, 1)),         \
                          SS_BOTH(SS_PART(at, 2)), SS_BOTH(SS_PART(at, 3))}
#else
#define SS_V_ADDRESSES(a, at)                                    \
    uint64_t a[SS_WIDTH] __attribute__((aligned(sizeof(ss_v)))); \
    ss_v_store(a, at);                                           \
    __asm__("" : "+m"(a))
#endif

/* Numbers of `bytes` bytes at the addresses in a vector. */
SS_INLINE ss_v ss_v_read(ss_v at, unsigned bytes)
{
#ifdef SS_GATHERS
    if (bytes == 4)
        return (ss_v)_mm512_cvtepu32_epi64(_mm512_i64gather_epi32((__m512i)at, NULL, 1));
    if (bytes == 8)
        return (ss_v)_mm512_i64gather_epi64((__m512i)at, NULL, 1);
#endif
    SS_V_ADDRESSES(a, at);
#define SS_AT(type, i) (*(const type *)(uintptr_t)a[i])
#define SS_AT8(i) SS_AT(uint8_t, i)
#define SS_AT16(i) SS_AT(uint16_t, i)
#define SS_AT32(i) SS_AT(uint32_t, i)
#define SS_AT64(i) SS_AT(uint64_t, i)
    switch (bytes) {
    case 1: return (ss_v){SS_EACH(SS_AT8)};
    case 2: return (ss_v){SS_EACH(SS_AT16)};
    case 4: return (ss_v){SS_EACH(SS_AT32)};
    default: return (ss_v){SS_EACH(SS_AT64)};
    }
}

SS_INLINE void ss_v_write(ss_v at, ss_v v, unsigned bytes)
{
    SS_V_ADDRESSES(a, at);
#pragma GCC unroll 8
    for (unsigned i = 0; i < SS_WIDTH; i++) {
        void *to = (void *)(uintptr_t)a[i];
        switch (bytes) {
        case 1: *(uint8_t *)to = (uint8_t)v[i]; break;
        case 2: *(uint16_t *)to = (uint16_t)v[i]; break;
        case 4: *(uint32_t *)to = (uint32_t)v[i]; break;
        default: *(uint64_t *)to = v[i];
        }
    }
}

/* Asks memory for what is at the addresses in a vector, to be written; any address will do. */
SS_INLINE void ss_v_prefetch(ss_v at)
{
    SS_V_ADDRESSES(a, at);
#pragma GCC unroll 8
    for (unsigned i = 0; i < SS_WIDTH; i++)
        __builtin_prefetch((const void *)(uintptr_t)a[i], 1);
    __asm__ volatile(""); /* else a function that does nothing else would be left out */
}

typedef uint64_t ss_v2 __attribute__((vector_size(16)));

/* Numbers of 128 bits as their halves. */
SS_INLINE void ss_v_read128(ss_v at, ss_v *high, ss_v *low)
{
    SS_V_ADDRESSES(a, at);
#define SS_CELL(i) (*(const ss_v2 *)(uintptr_t)a[i])
#if SS_WIDTH == 8
#define SS_FOUR(i)                                                                             \
    _mm512_inserti64x4(                                                                        \
        _mm512_castsi256_si512(_mm256_inserti128_si256(                                        \
            _mm256_castsi128_si256((__m128i)SS_CELL(i)), (__m128i)SS_CELL((i) + 1), 1)),       \
        _mm256_inserti128_si256(_mm256_castsi128_si256((__m128i)SS_CELL((i) + 2)),             \
                                (__m128i)SS_CELL((i) + 3), 1),                                 \
        1)
    const __m512i x = SS_FOUR(0), y = SS_FOUR(4);
    const __m512i even = (__m512i)(ss_v){0, 2, 4, 6, 8, 10, 12, 14};
    const __m512i odd = (__m512i)(ss_v){1, 3, 5, 7, 9, 11, 13, 15};
    *low = (ss_v)_mm512_permutex2var_epi64(x, even, y);
    *high = (ss_v)_mm512_permutex2var_epi64(x, odd, y);
#elif defined(__AVX2__)
#define SS_TWO(i)                                                                   \
    _mm256_inserti128_si256(_mm256_castsi128_si256((__m128i)SS_CELL(i)),            \
                            (__m128i)SS_CELL((i) + 2), 1)
    const __m256i x = SS_TWO(0), y = SS_TWO(1);
    *low = (ss_v)_mm256_unpacklo_epi64(x, y);
    *high = (ss_v)_mm256_unpackhi_epi64(x, y);
#undef SS_TWO
#else
    const ss_v2 c[] = {SS_EACH(SS_CELL)};
#define SS_LOW(i) c[i][0]
#define SS_HIGH(i) c[i][1]
    *low = (ss_v){SS_EACH(SS_LOW)};
    *high = (ss_v){SS_EACH(SS_HIGH)};
#endif
}

SS_INLINE void ss_v_write128(ss_v at, ss_v high, ss_v low)
{
    SS_V_ADDRESSES(a, at);
#if SS_WIDTH == 8
    const __m512i x = _mm512_unpacklo_epi64((__m512i)low, (__m512i)high);
    const __m512i y = _mm512_unpackhi_epi64((__m512i)low, (__m512i)high);
#define SS_PUT(i, v, part) *(ss_v2 *)(uintptr_t)a[i] = (ss_v2)_mm512_extracti64x2_epi64(v, part)
    SS_PUT(0, x, 0);
    SS_PUT(1, y, 0);
    SS_PUT(2, x, 1);
    SS_PUT(3, y, 1);
    SS_PUT(4, x, 2);
    SS_PUT(5, y, 2);
    SS_PUT(6, x, 3);
    SS_PUT(7, y, 3);
#undef SS_PUT
#elif defined(__AVX2__)
    const __m256i x = _mm256_unpacklo_epi64((__m256i)low, (__m256i)high);
    const __m256i y = _mm256_unpackhi_epi64((__m256i)low, (__m256i)high);
#define SS_PUT(i, v, part) *(ss_v2 *)(uintptr_t)a[i] = (ss_v2)_mm256_extracti128_si256(v, part)
    SS_PUT(0, x, 0);
    SS_PUT(1, y, 0);
    SS_PUT(2, x, 1);
    SS_PUT(3, y, 1);
#undef SS_PUT
#else
#pragma GCC unroll 8
    for (unsigned i = 0; i < SS_WIDTH; i++)
        *(ss_v2 *)(uintptr_t)a[i] = (ss_v2){low[i], high[i]};
#endif
}

/* A member of entries of `size` bytes, whose first bytes are `entry` if they have up to eight. */
SS_INLINE ss_v ss_v_member(ss_v entry, ss_v at, size_t size, size_t offset, unsigned bytes)
{
    if (size > 8 || (size & (size - 1)))
        return ss_v_read(at + offset, bytes);
    return entry >> (8 * offset) & (bytes < 8 ? (UINT64_C(1) << 8 * (bytes & 7)) - 1 : -UINT64_C(1));
}

/* Entries of which such a member is not zero. */
SS_INLINE ss_m ss_m_member(ss_v entry, ss_v at, size_t size, size_t offset, unsigned bytes)
{
    if (bytes < 8 && size <= 8 && !(size & (size - 1)))
        return ss_m_test(entry, ss_v_all(((UINT64_C(1) << 8 * bytes) - 1) << 8 * offset));
    return ss_m_ne(ss_v_member(entry, at, size, offset, bytes), ss_v_all(0));
}

SS_INLINE ss_v ss_v_entry(ss_v at, size_t size)
{
    return size > 8 || (size & (size - 1)) ? at : ss_v_read(at, (unsigned)size);
}

/* The eight bytes at d, d + stride, d + 2 stride, …, as numbers; stride is at most 8. SS_SLACK
 * bytes after d are read. */
SS_INLINE ss_v ss_v_windows(const uint8_t *d, unsigned stride)
{
#define SS_BYTE(i, b) (uint8_t)((i) * stride + 7 - (b))
#define SS_BYTES(i)                                                                   \
    SS_BYTE(i, 0), SS_BYTE(i, 1), SS_BYTE(i, 2), SS_BYTE(i, 3), SS_BYTE(i, 4), SS_BYTE(i, 5), \
        SS_BYTE(i, 6), SS_BYTE(i, 7)
#if SS_WIDTH == 8 && defined(__AVX512VBMI__)
    typedef uint8_t bytes __attribute__((vector_size(64)));
    const bytes order = {SS_EACH(SS_BYTES)};
    return (ss_v)_mm512_permutexvar_epi8((__m512i)order, _mm512_loadu_si512(d));
#elif SS_WIDTH == 4 && defined(__AVX2__)
    typedef uint8_t bytes __attribute__((vector_size(32)));
    const bytes order = {SS_BYTES(0), SS_BYTES(1), SS_BYTES(0), SS_BYTES(1)};
    const __m256i pairs = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)d)),
        _mm_loadu_si128((const __m128i *)(d + 2 * stride)), 1);
    return (ss_v)_mm256_shuffle_epi8(pairs, (__m256i)order);
#else
#define SS_WINDOW(i) ss_ld64(d + (i) * stride)
    return (ss_v){SS_EACH(SS_WINDOW)};
#endif
}

#endif
