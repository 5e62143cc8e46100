#!/usr/bin/env bash
# rack.sh: a job on the hosts of a rack, over ssh. All processes end when one of them fails.
#
#   SERVER=10.0.0.1 HOSTS="10.0.0.2 10.0.0.3" KEYS=77896 LIBRA=/opt/libra SHARED=/shared/job \
#       PROGRAM=/shared/train.py launch/rack.sh
#
# ssh must need no password; LIBRA and SHARED are the same folders on every host. SERVER may be
# several addresses: the keys are cut into as many ranges. With CONTROLLER, the address of the
# switch's controller, the job is the one with the number JOB there (1 unless given): one of other
# servers, workers or keys is refused. With DRY=1 commands are printed and not run. Variables that
# role.sh has more are handed on.
set -euo pipefail

read -r -a servers <<<"${SERVER:?addresses of the servers, each with its scheduler}"
read -r -a hosts <<<"${HOSTS:?addresses of the workers, by rank}"
: "${KEYS:?parameters in all tables}" "${LIBRA:?}" "${SHARED:?}" "${PROGRAM:?}"

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

common=("LIBRA=$LIBRA" "SHARED=$SHARED" "WORKERS=${#hosts[@]}" "PROGRAM=$PROGRAM"
    "MASTER=${hosts[0]}" "CONTROLLER=${CONTROLLER-}")
for name in OPTIMIZER LEARNING_RATE CHECKPOINT_EVERY MASTER_PORT LIBRA_TLS; do
    [ -z "${!name-}" ] || common+=("$name=${!name}")
done
role=$LIBRA/launch/role.sh

if [ -z "${DRY-}" ]; then
    trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
    export SERVER HOSTS KEYS LIBRA SHARED
    "$role" job
fi
for shard in "${!servers[@]}"; do
    own=("${common[@]}" "SERVER_HOST=${servers[$shard]}" "SHARD=$shard")
    on "${servers[$shard]}" "${own[@]}" "$role" scheduler
    on "${servers[$shard]}" "${own[@]}" "$role" server
done
for rank in "${!hosts[@]}"; do
    on "${hosts[$rank]}" "${common[@]}" "RANK=$rank" "$role" worker
done
for _ in $(jobs -p); do
    wait -n
done
