/* Who may take part: the tables of include/membership.p4, within what an action of this chip can do.
 * A recirculated packet was checked on its first pass and has no port of its own. */
#ifndef LIBRA_TNA_MEMBERSHIP_P4
#define LIBRA_TNA_MEMBERSHIP_P4

control Sources(in ingress_headers_t hdr, inout ingress_metadata_t md,
                in ingress_intrinsic_metadata_t standard_metadata) {
    action attached(port_t port) {
        md.strange = port ^ standard_metadata.ingress_port;
    }
    table sources {
        key = { hdr.ipv4.src: exact; }
        actions = { attached; NoAction; }
        size = 16384;
        default_action = NoAction();
    }

    apply {
        sources.apply();
    }
}

control Membership(inout ingress_headers_t hdr, inout ingress_metadata_t md,
                   in ingress_intrinsic_metadata_t standard_metadata) {
    /* What float32 drains need is not used here: this chip answers digits. */
    action job(job_slot_t slot, epoch_t epoch, row_t row_base, row_t row_mask,
               bit<8> float_bias, ipv4_addr_t server) {
        md.job_slot = slot;
        md.first_tag[31:20] = epoch;
        hdr.bridge.epoch = (bit<16>)epoch;
        md.lower_base = (bit<16>)row_base;
#if ROW_PARTS == 3
        md.middle_base = (bit<16>)row_base;
#endif
        md.upper_base = (bit<16>)row_base;
        md.row_mask = (bit<16>)row_mask;
        md.server = server;
    }
    table jobs {
        key = { hdr.libra.job: exact; }
        actions = { job; NoAction; }
        size = JOBS;
        default_action = NoAction();
    }

    action worker(rank_t rank) {
        md.role = ROLE_WORKER;
        md.rank = rank;
    }
    action server() {
        md.role = ROLE_SERVER;
    }
    table members {
        key = {
            hdr.libra.job: exact;
            hdr.libra.worker: exact;
            standard_metadata.ingress_port: exact @name("standard_metadata.ingress_port");
            hdr.ipv4.src: exact;
        }
        actions = { worker; server; NoAction; }
        size = MEMBERS;
        default_action = NoAction();
    }

    apply {
        if (hdr.libra.isValid()) {
            jobs.apply();
        }
        if (md.recirculated == 1) {
            server();
        } else if (hdr.libra.isValid()) {
            members.apply();
        }
    }
}

#endif
