/* IPv4 forwarding: whatever is not aggregated is an ordinary packet. */
#ifndef LIBRA_FORWARD_P4
#define LIBRA_FORWARD_P4

control Forward(inout headers_t hdr, inout metadata_t md,
                inout standard_metadata_t standard_metadata) {
    action refuse(reason_t reason) {
        mark_to_drop(standard_metadata);
        /* The first reason stands. */
        md.reason = (md.reason == REASON_NONE) ? reason : md.reason;
    }
    action no_route() {
        refuse(REASON_NO_ROUTE);
    }
    action forward(port_t port, mac_addr_t next_hop, mac_addr_t own) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.dst = next_hop;
        hdr.ethernet.src = own;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; no_route; }
        size = 16384;
        default_action = no_route();
    }

    action replicate(bit<16> group) {
        standard_metadata.mcast_grp = group;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    /* Only the source that a group belongs to may send to it. */
    table groups {
        key = {
            hdr.ipv4.dst: exact;
            hdr.ipv4.src: exact;
            standard_metadata.ingress_port: exact;
        }
        actions = { replicate; no_route; }
        size = 1024;
        default_action = no_route();
    }

    apply {
        if (hdr.ipv4.ttl <= 1) {
            refuse(REASON_TTL_EXPIRED);
        } else if (hdr.ipv4.dst[31:28] == 0xe) {
            groups.apply();
        } else {
            routes.apply();
        }
    }
}

#endif
