/* What becomes of a packet. All of it is known before a register of the window or a cell is
 * touched; the order of the entries is that of the conditions in libra.p4. */
#ifndef LIBRA_TNA_VERDICT_P4
#define LIBRA_TNA_VERDICT_P4

const bit<16> GRAD_PACKET = IPV4_BYTES + UDP_BYTES + LIBRA_BYTES + GRAD_BYTES;
const bit<16> DRAIN_PACKET = IPV4_BYTES + UDP_BYTES + LIBRA_BYTES + DRAIN_BYTES;
const bit<16> PROBE_PACKET = IPV4_BYTES + UDP_BYTES + LIBRA_BYTES + PROBE_BYTES;

control Verdict(in ingress_headers_t hdr, inout ingress_metadata_t md) {
    action because(reason_t reason) {
        md.reason = reason;
    }
    action admit() {
        md.admitted = 1;
    }
    table verdicts {
        key = {
            md.kind: ternary;
            hdr.ipv4.total_len: ternary;
            md.job_slot: ternary;
            md.wrong_epoch: ternary;
            md.role: ternary;
            md.wrong_server: ternary;
            md.local: ternary;
            md.unknown_row: ternary;
            md.escape: ternary;
            md.bad_drain: ternary;
            md.open_tag[31:20]: ternary @name("open");
            md.ahead: ternary;
            md.strange: ternary;
        }
        actions = { because; admit; NoAction; }
        size = 64;
        const default_action = NoAction();
        const entries = {
            (KIND_GRAD, GRAD_PACKET, 0, _, _, _, _, _, _, _, _, _, _): because(REASON_NO_JOB);
            (KIND_GRAD, GRAD_PACKET, _, 1, _, _, _, _, _, _, _, _, _): because(REASON_WRONG_EPOCH);
            (KIND_GRAD, GRAD_PACKET, _, _, ROLE_NONE, _, _, _, _, _, _, _, _): because(REASON_FOREIGN);
            (KIND_GRAD, GRAD_PACKET, _, _, ROLE_SERVER, _, _, _, _, _, _, _, _): because(REASON_FOREIGN);
            (KIND_GRAD, GRAD_PACKET, _, _, _, 1, _, _, _, _, _, _, _): because(REASON_FOREIGN);
            (KIND_GRAD, GRAD_PACKET, _, _, _, _, _, 1, _, _, _, _, _): because(REASON_UNKNOWN_ROW);
            (KIND_GRAD, GRAD_PACKET, _, _, _, _, _, _, 1, _, _, _, _): because(REASON_ESCAPED);
            /* No round of this epoch is closed; or this one, or the next, is open. A packet with a
             * strange source is dropped, whatever else is found. */
            (KIND_GRAD, GRAD_PACKET, _, _, _, _, _, _, _, _, 0, _, 0): admit();
            (KIND_GRAD, GRAD_PACKET, _, _, _, _, _, _, _, _, _, 0 &&& 0xfffffffe, 0): admit();
            (KIND_GRAD, GRAD_PACKET, _, _, _, _, _, _, _, _, _, 0x80000000 &&& 0x80000000, _): because(REASON_STALE);
            (KIND_GRAD, GRAD_PACKET, _, _, _, _, _, _, _, _, _, _, _): because(REASON_EARLY);
            (KIND_GRAD, _, _, _, _, _, _, _, _, _, _, _, _): because(REASON_MALFORMED);
            (KIND_BAD_GRAD, _, _, _, _, _, _, _, _, _, _, _, _): because(REASON_MALFORMED);

            (KIND_DRAIN, DRAIN_PACKET, _, _, ROLE_NONE, _, 1, _, _, _, _, _, _): because(REASON_DRAIN_REFUSED);
            (KIND_DRAIN, DRAIN_PACKET, _, _, ROLE_WORKER, _, 1, _, _, _, _, _, _): because(REASON_DRAIN_REFUSED);
            (KIND_DRAIN, DRAIN_PACKET, _, 1, _, _, 1, _, _, _, _, _, _): because(REASON_DRAIN_REFUSED);
            (KIND_DRAIN, DRAIN_PACKET, _, _, _, _, 1, 1, _, _, _, _, _): because(REASON_UNKNOWN_ROW);
            (KIND_DRAIN, DRAIN_PACKET, _, _, _, _, 1, _, _, 1, _, _, _): because(REASON_MALFORMED);
            (KIND_DRAIN, DRAIN_PACKET, _, _, _, _, 1, _, _, _, _, _, _): because(REASON_DRAINED);

            (KIND_PROBE, PROBE_PACKET, _, _, ROLE_WORKER, _, _, _, _, _, _, _, _): because(REASON_PROBED);
            (KIND_PROBE, PROBE_PACKET, _, _, ROLE_SERVER, _, _, _, _, _, _, _, _): because(REASON_PROBED);
            (KIND_PROBE, PROBE_PACKET, 0, _, _, _, 1, _, _, _, _, _, _): because(REASON_NO_JOB);
            (KIND_PROBE, PROBE_PACKET, _, _, _, _, 1, _, _, _, _, _, _): because(REASON_FOREIGN);

            (KIND_OTHER, _, _, _, _, _, _, _, _, _, _, _, _): NoAction();
            (KIND_LAP, _, _, _, _, _, _, _, _, _, _, _, _): NoAction();
            (_, _, _, _, _, _, 1, _, _, _, _, _, _): because(REASON_MALFORMED);
        }
    }

    apply {
        verdicts.apply();
    }
}

#endif
