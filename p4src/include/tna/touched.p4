/* Of a row whose cells are marked: the bitmap of those that were touched, and their bytes, four
 * lanes at a time; the first four begin anew. */
#ifndef LIBRA_TNA_TOUCHED_P4
#define LIBRA_TNA_TOUCHED_P4

#define BEGIN(four) \
    action add_##four(bitmap_t used, bit<16> bytes) { \
        hdr.lap.used = used; \
        hdr.lap.bytes = bytes; \
    }
#define GO_ON(four) \
    action add_##four(bitmap_t used, bit<16> bytes) { \
        hdr.lap.used = hdr.lap.used | used; \
        hdr.lap.bytes = hdr.lap.bytes + bytes; \
    }
#define TOUCHED(four, first, a, b, c, d) \
    table four { \
        key = { \
            hdr.mark##a.touched[0:0]: exact @name("mark_a"); \
            hdr.mark##b.touched[0:0]: exact @name("mark_b"); \
            hdr.mark##c.touched[0:0]: exact @name("mark_c"); \
            hdr.mark##d.touched[0:0]: exact @name("mark_d"); \
        } \
        actions = { add_##four; } \
        size = 16; \
        const default_action = add_##four(0, 0); \
        const entries = { \
            (1, 0, 0, 0): add_##four(1 << first, 8); \
            (0, 1, 0, 0): add_##four(2 << first, 8); \
            (1, 1, 0, 0): add_##four(3 << first, 16); \
            (0, 0, 1, 0): add_##four(4 << first, 8); \
            (1, 0, 1, 0): add_##four(5 << first, 16); \
            (0, 1, 1, 0): add_##four(6 << first, 16); \
            (1, 1, 1, 0): add_##four(7 << first, 24); \
            (0, 0, 0, 1): add_##four(8 << first, 8); \
            (1, 0, 0, 1): add_##four(9 << first, 16); \
            (0, 1, 0, 1): add_##four(10 << first, 16); \
            (1, 1, 0, 1): add_##four(11 << first, 24); \
            (0, 0, 1, 1): add_##four(12 << first, 16); \
            (1, 0, 1, 1): add_##four(13 << first, 24); \
            (0, 1, 1, 1): add_##four(14 << first, 24); \
            (1, 1, 1, 1): add_##four(15 << first, 32); \
        } \
    }

control Touched(in lap_t lap, inout ingress_headers_t hdr) {
    BEGIN(touched0)
    GO_ON(touched1)
    TOUCHED(touched0, 0, 0, 1, 2, 3)
    TOUCHED(touched1, 4, 4, 5, 6, 7)
#if LANES == 16
    GO_ON(touched2)
    GO_ON(touched3)
    TOUCHED(touched2, 8, 8, 9, 10, 11)
    TOUCHED(touched3, 12, 12, 13, 14, 15)
#endif

    apply {
        if (lap == LAP_LOW) {
            touched0.apply();
        }
        if (lap == LAP_LOW) {
            touched1.apply();
        }
#if LANES == 16
        if (lap == LAP_LOW) {
            touched2.apply();
        }
        if (lap == LAP_LOW) {
            touched3.apply();
        }
#endif
    }
}

#endif
