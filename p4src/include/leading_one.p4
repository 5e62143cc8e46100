/* Entries of the leading-one look-up table: the highest set bit n of a 56-bit magnitude,
 * as (left shift that moves it to bit 55, n). */
#ifndef LIBRA_LEADING_ONE_P4
#define LIBRA_LEADING_ONE_P4

#define LEADING_ONE_ENTRIES \
            56w0x80000000000000 &&& 56w0x80000000000000 : position(0, 55); \
            56w0x40000000000000 &&& 56w0xc0000000000000 : position(1, 54); \
            56w0x20000000000000 &&& 56w0xe0000000000000 : position(2, 53); \
            56w0x10000000000000 &&& 56w0xf0000000000000 : position(3, 52); \
            56w0x08000000000000 &&& 56w0xf8000000000000 : position(4, 51); \
            56w0x04000000000000 &&& 56w0xfc000000000000 : position(5, 50); \
            56w0x02000000000000 &&& 56w0xfe000000000000 : position(6, 49); \
            56w0x01000000000000 &&& 56w0xff000000000000 : position(7, 48); \
            56w0x00800000000000 &&& 56w0xff800000000000 : position(8, 47); \
            56w0x00400000000000 &&& 56w0xffc00000000000 : position(9, 46); \
            56w0x00200000000000 &&& 56w0xffe00000000000 : position(10, 45); \
            56w0x00100000000000 &&& 56w0xfff00000000000 : position(11, 44); \
            56w0x00080000000000 &&& 56w0xfff80000000000 : position(12, 43); \
            56w0x00040000000000 &&& 56w0xfffc0000000000 : position(13, 42); \
            56w0x00020000000000 &&& 56w0xfffe0000000000 : position(14, 41); \
            56w0x00010000000000 &&& 56w0xffff0000000000 : position(15, 40); \
            56w0x00008000000000 &&& 56w0xffff8000000000 : position(16, 39); \
            56w0x00004000000000 &&& 56w0xffffc000000000 : position(17, 38); \
            56w0x00002000000000 &&& 56w0xffffe000000000 : position(18, 37); \
            56w0x00001000000000 &&& 56w0xfffff000000000 : position(19, 36); \
            56w0x00000800000000 &&& 56w0xfffff800000000 : position(20, 35); \
            56w0x00000400000000 &&& 56w0xfffffc00000000 : position(21, 34); \
            56w0x00000200000000 &&& 56w0xfffffe00000000 : position(22, 33); \
            56w0x00000100000000 &&& 56w0xffffff00000000 : position(23, 32); \
            56w0x00000080000000 &&& 56w0xffffff80000000 : position(24, 31); \
            56w0x00000040000000 &&& 56w0xffffffc0000000 : position(25, 30); \
            56w0x00000020000000 &&& 56w0xffffffe0000000 : position(26, 29); \
            56w0x00000010000000 &&& 56w0xfffffff0000000 : position(27, 28); \
            56w0x00000008000000 &&& 56w0xfffffff8000000 : position(28, 27); \
            56w0x00000004000000 &&& 56w0xfffffffc000000 : position(29, 26); \
            56w0x00000002000000 &&& 56w0xfffffffe000000 : position(30, 25); \
            56w0x00000001000000 &&& 56w0xffffffff000000 : position(31, 24); \
            56w0x00000000800000 &&& 56w0xffffffff800000 : position(32, 23); \
            56w0x00000000400000 &&& 56w0xffffffffc00000 : position(33, 22); \
            56w0x00000000200000 &&& 56w0xffffffffe00000 : position(34, 21); \
            56w0x00000000100000 &&& 56w0xfffffffff00000 : position(35, 20); \
            56w0x00000000080000 &&& 56w0xfffffffff80000 : position(36, 19); \
            56w0x00000000040000 &&& 56w0xfffffffffc0000 : position(37, 18); \
            56w0x00000000020000 &&& 56w0xfffffffffe0000 : position(38, 17); \
            56w0x00000000010000 &&& 56w0xffffffffff0000 : position(39, 16); \
            56w0x00000000008000 &&& 56w0xffffffffff8000 : position(40, 15); \
            56w0x00000000004000 &&& 56w0xffffffffffc000 : position(41, 14); \
            56w0x00000000002000 &&& 56w0xffffffffffe000 : position(42, 13); \
            56w0x00000000001000 &&& 56w0xfffffffffff000 : position(43, 12); \
            56w0x00000000000800 &&& 56w0xfffffffffff800 : position(44, 11); \
            56w0x00000000000400 &&& 56w0xfffffffffffc00 : position(45, 10); \
            56w0x00000000000200 &&& 56w0xfffffffffffe00 : position(46, 9); \
            56w0x00000000000100 &&& 56w0xffffffffffff00 : position(47, 8); \
            56w0x00000000000080 &&& 56w0xffffffffffff80 : position(48, 7); \
            56w0x00000000000040 &&& 56w0xffffffffffffc0 : position(49, 6); \
            56w0x00000000000020 &&& 56w0xffffffffffffe0 : position(50, 5); \
            56w0x00000000000010 &&& 56w0xfffffffffffff0 : position(51, 4); \
            56w0x00000000000008 &&& 56w0xfffffffffffff8 : position(52, 3); \
            56w0x00000000000004 &&& 56w0xfffffffffffffc : position(53, 2); \
            56w0x00000000000002 &&& 56w0xfffffffffffffe : position(54, 1); \
            56w0x00000000000001 &&& 56w0xffffffffffffff : position(55, 0);

#endif
