#ifndef LIBRA_CHECKSUM_P4
#define LIBRA_CHECKSUM_P4

#define IPV4_CHECKSUM_FIELDS \
    { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.diffserv, hdr.ipv4.total_len, \
      hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.ttl, \
      hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst }

control LibraVerifyChecksum(inout headers_t hdr, inout metadata_t md) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_CHECKSUM_FIELDS,
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control LibraUpdateChecksum(inout headers_t hdr, inout metadata_t md) {
    apply {
        update_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5, IPV4_CHECKSUM_FIELDS,
                        hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

#endif
