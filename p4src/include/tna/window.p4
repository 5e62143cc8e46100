/* What a GRAD has to pass before its first cell is touched: the controls of include/window.p4, each
 * a register that is accessed once. */
#ifndef LIBRA_TNA_WINDOW_P4
#define LIBRA_TNA_WINDOW_P4

struct open_t {
    tag_t epoch;                       /* its first tag */
    tag_t tag;
}

/* The lowest open round of a job's epoch, as a tag; 0 if any round is open. */
control Open(inout ingress_metadata_t md) {
    Register<open_t, job_slot_t>(JOBS) open;

    RegisterAction<open_t, job_slot_t, bit<32>>(open) first_of_epoch = {
        void apply(inout open_t value, out bit<32> tag) {
            tag = 0;
            if (value.epoch == md.first_tag) {
                tag = value.tag;
            }
        }
    };
    RegisterAction<open_t, job_slot_t, bit<32>>(open) close_round = {
        void apply(inout open_t value) {
            if (value.epoch != md.first_tag || md.next_tag > value.tag) {
                value.tag = md.next_tag;
            }
            value.epoch = md.first_tag;
        }
    };

    action look() {
        md.open_tag = first_of_epoch.execute(md.job_slot);
    }
    action close() {
        close_round.execute(md.job_slot);
    }
    table rounds {
        key = {
            md.kind: ternary;
            md.role: ternary;
            md.wrong_epoch: ternary;
        }
        actions = { look; close; NoAction; }
        size = 2;
        const default_action = NoAction();
        const entries = {
            (KIND_GRAD, _, _): look();
            (KIND_UPDATE, ROLE_SERVER, 0): close();
        }
    }

    apply {
        rounds.apply();
    }
}

/* Signed, for a difference of sequence numbers is compared to 0. */
struct seen_t {
    int<32> epoch;
    int<32> seq;
}

/* seen[worker][seq mod W] holds (epoch, seq): a packet counts if it is newer. */
#define SEE { \
        void apply(inout seen_t value, out bit<1> fresh) { \
            fresh = 0; \
            if (value.epoch != (int<32>)md.first_tag || (int<32>)seq - value.seq > 0) { \
                value.seq = (int<32>)seq; \
                fresh = 1; \
            } \
            value.epoch = (int<32>)md.first_tag; \
        } \
    }

#if __TARGET_TOFINO__ == 2
/* In two arrays: one of all workers is more than a stateful ALU reaches on this chip. */
control Window(in seq_t seq, inout ingress_metadata_t md) {
    Register<seen_t, bit<16>>(MEMBERS * WINDOW / 2) seen;
    Register<seen_t, bit<16>>(MEMBERS * WINDOW / 2) seen_upper;

    RegisterAction<seen_t, bit<16>, bit<1>>(seen) see = SEE;
    RegisterAction<seen_t, bit<16>, bit<1>>(seen_upper) see_upper = SEE;

    action look() {
        md.fresh = see.execute(
            1w0 ++ md.job_slot ++ md.rank[RANK_BITS - 2:0] ++ seq[WINDOW_BITS - 1:0]);
    }
    action look_upper() {
        md.fresh = see_upper.execute(
            1w0 ++ md.job_slot ++ md.rank[RANK_BITS - 2:0] ++ seq[WINDOW_BITS - 1:0]);
    }

    apply {
        if (md.rank[RANK_BITS - 1:RANK_BITS - 1] == 0) {
            look();
        } else {
            look_upper();
        }
    }
}
#else
control Window(in seq_t seq, inout ingress_metadata_t md) {
    Register<seen_t, bit<16>>(MEMBERS * WINDOW) seen;

    RegisterAction<seen_t, bit<16>, bit<1>>(seen) see = SEE;

    action look() {
        md.fresh = see.execute(md.job_slot ++ md.rank ++ seq[WINDOW_BITS - 1:0]);
    }

    apply {
        look();
    }
}
#endif

#endif
