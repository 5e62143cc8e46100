/* Who may take part: hosts behind their ports, the jobs of this switch and, of each, its workers
 * and its server. */
#ifndef LIBRA_MEMBERSHIP_P4
#define LIBRA_MEMBERSHIP_P4

/* An address of an attached host, or of this switch, is not taken from any other port: whoever
 * forges one could add for another worker, or answer for the switch or the server. */
control Sources(in headers_t hdr, inout metadata_t md,
                inout standard_metadata_t standard_metadata) {
    action attached(port_t port) {
        md.forged = (port == standard_metadata.ingress_port) ? 1w0 : 1w1;
    }

    table sources {
        key = { hdr.ipv4.src: exact; }
        actions = { attached; NoAction; }
        size = 16384;
        default_action = NoAction();
    }

    apply {
        /* A packet that passes again was checked on its first pass and has no port of its own. */
        if (standard_metadata.instance_type == INSTANCE_NORMAL) {
            sources.apply();
        }
    }
}

control Membership(in headers_t hdr, inout metadata_t md,
                   inout standard_metadata_t standard_metadata) {
    action job(job_slot_t slot, epoch_t epoch, row_t row_base, row_t row_mask,
               bit<8> float_bias, ipv4_addr_t server) {
        md.job_slot = slot;
        md.epoch = epoch;
        md.row_base = row_base;
        md.row_mask = row_mask;
        md.float_bias = float_bias;
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

    /* The switch before this one on the way of a DRAIN. */
    action relay() {
        md.role = ROLE_SWITCH;
    }

    /* A worker in another rack: its packets pass here when its own switch has not added them. */
    action elsewhere() {
        md.elsewhere = 1;
    }

    /* What came from each member, whatever became of it. */
    direct_counter(CounterType.packets) from_members;

    /* A member is known by its rank, its port and its address together. */
    table members {
        key = {
            hdr.libra.job: exact;
            hdr.libra.worker: exact;
            standard_metadata.ingress_port: exact;
            hdr.ipv4.src: exact;
        }
        actions = { worker; server; relay; elsewhere; NoAction; }
        size = MEMBERS;
        counters = from_members;
        default_action = NoAction();
    }

    apply {
        if (jobs.apply().hit) {
            /* What passes again was checked on its first pass and has no port of its own. */
            if (standard_metadata.instance_type == INSTANCE_NORMAL) {
                members.apply();
            } else if (hdr.libra.op == OP_PARTIAL) {
                md.role = ROLE_SWITCH;
            } else {
                md.role = ROLE_SERVER;
            }
        }
    }
}

#endif
