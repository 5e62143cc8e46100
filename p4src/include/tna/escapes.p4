/* Whether a lane in use escapes: the bit above the shifts says so. */
#ifndef LIBRA_TNA_ESCAPES_P4
#define LIBRA_TNA_ESCAPES_P4

#define ESCAPE_KEY(i) PLACE##i.lane##i[ESCAPE_BIT:ESCAPE_BIT]: ternary;

control Escapes(in ingress_headers_t hdr, inout ingress_metadata_t md) {
    action escapes() {
        md.escape = 1;
    }
    table any {
        key = {
            hdr.grad.used: ternary @name("used");
            EACH_LANE(ESCAPE_KEY)
        }
        actions = { escapes; NoAction; }
        size = LANES;
        const default_action = NoAction();
        const entries = {
#if LANES == 16
            (0x0001 &&& 0x0001, 1, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _): escapes();
            (0x0002 &&& 0x0002, _, 1, _, _, _, _, _, _, _, _, _, _, _, _, _, _): escapes();
            (0x0004 &&& 0x0004, _, _, 1, _, _, _, _, _, _, _, _, _, _, _, _, _): escapes();
            (0x0008 &&& 0x0008, _, _, _, 1, _, _, _, _, _, _, _, _, _, _, _, _): escapes();
            (0x0010 &&& 0x0010, _, _, _, _, 1, _, _, _, _, _, _, _, _, _, _, _): escapes();
            (0x0020 &&& 0x0020, _, _, _, _, _, 1, _, _, _, _, _, _, _, _, _, _): escapes();
            (0x0040 &&& 0x0040, _, _, _, _, _, _, 1, _, _, _, _, _, _, _, _, _): escapes();
            (0x0080 &&& 0x0080, _, _, _, _, _, _, _, 1, _, _, _, _, _, _, _, _): escapes();
            (0x0100 &&& 0x0100, _, _, _, _, _, _, _, _, 1, _, _, _, _, _, _, _): escapes();
            (0x0200 &&& 0x0200, _, _, _, _, _, _, _, _, _, 1, _, _, _, _, _, _): escapes();
            (0x0400 &&& 0x0400, _, _, _, _, _, _, _, _, _, _, 1, _, _, _, _, _): escapes();
            (0x0800 &&& 0x0800, _, _, _, _, _, _, _, _, _, _, _, 1, _, _, _, _): escapes();
            (0x1000 &&& 0x1000, _, _, _, _, _, _, _, _, _, _, _, _, 1, _, _, _): escapes();
            (0x2000 &&& 0x2000, _, _, _, _, _, _, _, _, _, _, _, _, _, 1, _, _): escapes();
            (0x4000 &&& 0x4000, _, _, _, _, _, _, _, _, _, _, _, _, _, _, 1, _): escapes();
            (0x8000 &&& 0x8000, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, 1): escapes();
#else
            (0x01 &&& 0x01, 1, _, _, _, _, _, _, _): escapes();
            (0x02 &&& 0x02, _, 1, _, _, _, _, _, _): escapes();
            (0x04 &&& 0x04, _, _, 1, _, _, _, _, _): escapes();
            (0x08 &&& 0x08, _, _, _, 1, _, _, _, _): escapes();
            (0x10 &&& 0x10, _, _, _, _, 1, _, _, _): escapes();
            (0x20 &&& 0x20, _, _, _, _, _, 1, _, _): escapes();
            (0x40 &&& 0x40, _, _, _, _, _, _, 1, _): escapes();
            (0x80 &&& 0x80, _, _, _, _, _, _, _, 1): escapes();
#endif
        }
    }

    apply {
        any.apply();
    }
}

#endif
