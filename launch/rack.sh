#!/usr/bin/env bash
# rack.sh: a job on the hosts of a rack, over ssh. All processes end when one of them fails.
#
#   SERVER=10.0.0.1 HOSTS="10.0.0.2 10.0.0.3" KEYS=77896 LIBRA=/opt/libra SHARED=/shared/job \
#       PROGRAM=/shared/train.py launch/rack.sh
#
# ssh must need no password; LIBRA and SHARED are the same folders on every host. With CONTROLLER,
# the address of the switch's controller, the job is the one with the number JOB there (1 unless
# given), of the same server, workers and keys. With DRY=1 commands are printed and not run.
set -euo pipefail

read -r -a hosts <<<"${HOSTS:?addresses of the workers, by rank}"
: "${SERVER:?address of scheduler and server}" "${KEYS:?parameters in all tables}"
: "${LIBRA:?}" "${SHARED:?}" "${PROGRAM:?}"

on() {
    local host=$1 words
    shift
    printf -v words '%q ' env "$@"
    if [ -n "${DRY-}" ]; then
        echo "ssh $host $words"
    else
        ssh -o BatchMode=yes -tt "$host" "$words" </dev/null &
    fi
}

common=("LIBRA=$LIBRA" "SHARED=$SHARED" "SERVER_HOST=$SERVER" "WORKERS=${#hosts[@]}"
    "PROGRAM=$PROGRAM" "MASTER=${hosts[0]}" "CONTROLLER=${CONTROLLER-}")
role=$LIBRA/launch/role.sh

if [ -z "${DRY-}" ]; then
    trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
    cd "$LIBRA"
    if [ -n "${CONTROLLER-}" ]; then
        .venv/bin/libra job describe -j "${JOB:-1}" --job-file "$SHARED/job.json" \
            --controller "$CONTROLLER"
    else
        .venv/bin/python -m workloads.make_job "$SHARED/job.json" --keys "$KEYS" \
            --server "$SERVER" --workers "${hosts[@]}"
    fi
fi
on "$SERVER" "${common[@]}" "$role" scheduler
on "$SERVER" "${common[@]}" "$role" server
for rank in "${!hosts[@]}"; do
    on "${hosts[$rank]}" "${common[@]}" "RANK=$rank" "$role" worker
done
for _ in $(jobs -p); do
    wait -n
done
