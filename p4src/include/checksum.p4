#ifndef LIBRA_CHECKSUM_P4
#define LIBRA_CHECKSUM_P4

#define IPV4_CHECKSUM_FIELDS \
    { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_len, \
      hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.ttl, \
      hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst }

#define LANE_CHECKSUM_FIELDS(i) \
      hdr.grad.row##i, hdr.grad.sign##i, hdr.grad.exponent##i, hdr.grad.fraction##i,

/* The pseudo header, then the datagram without its checksum. */
#define GRAD_CHECKSUM_FIELDS \
    { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, hdr.udp.length, \
      hdr.udp.src_port, hdr.udp.dst_port, hdr.libra.version, hdr.libra.op, hdr.libra.flags, \
      hdr.libra.job, hdr.libra.worker, hdr.libra.reserved, hdr.libra.tag, hdr.libra.seq, \
      hdr.grad.used, EACH_LANE(LANE_CHECKSUM_FIELDS) hdr.udp.length }

control LibraVerifyChecksum(inout headers_t hdr, inout metadata_t md) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_CHECKSUM_FIELDS,
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
        /* The server's kernel checks what is forwarded; what is added here is checked here. A sum
         * of zero is sent as 0xffff, which csum16 does not know: such a packet goes unchecked, as
         * one without a checksum does. */
        verify_checksum(hdr.grad.isValid() && hdr.udp.checksum != 0
                            && hdr.udp.checksum != 0xffff,
                        GRAD_CHECKSUM_FIELDS, hdr.udp.checksum, HashAlgorithm.csum16);
    }
}

control LibraUpdateChecksum(inout headers_t hdr, inout metadata_t md) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_CHECKSUM_FIELDS,
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

#endif
