#!/usr/bin/env bash
# role.sh ROLE: one process of a job on this host; the launchers of this folder call it.
#
# ROLE is scheduler, server or worker, or job, which writes the job's description. From the
# environment:
#   LIBRA        folder of the installation, with its .venv
#   SHARED       folder with job.json, and for servers parameters.npz
#   SERVER       names or addresses of the servers, one or several
#   SHARD        of a scheduler and a server: the place of its server there, from 0
#   SERVER_HOST  of a scheduler: the address of its server
#   WORKERS      number of workers
#   RANK         of a worker; MASTER is the host of rank 0, MASTER_PORT a port there (29500)
#   CONTROLLER   HOST:PORT or unix:PATH of the job's controller, where there is one
#   LIBRA_TLS    folder with ca.pem and what the controller knows the server by, where it has TLS
#   PROGRAM      the training program, started by torchrun (docs/pytorch.md)
#   HOSTS, KEYS  of a job: names or addresses of the workers, by rank; parameters in all tables.
#                What a controller has is refused if it differs in these or in SERVER
#   WAIT_S       seconds until all names must be known (0)
#   JOB          number of the job at the controller (1)
#   OPTIMIZER, LEARNING_RATE, CHECKPOINT_EVERY  of servers (adagrad, 0.1, 0 for never)
set -euo pipefail

python=${LIBRA:?}/.venv/bin/python
cd "$LIBRA"

case ${1:?job, scheduler, server or worker} in
    job)
        read -r -a servers <<<"${SERVER:?}"
        read -r -a hosts <<<"${HOSTS:?}"
        about=("${SHARED:?}/job.json" --keys "${KEYS:?}" --server "${servers[@]}"
            --workers "${hosts[@]}" --wait-s "${WAIT_S:-0}")
        if [ -n "${CONTROLLER-}" ]; then
            .venv/bin/libra job describe -j "${JOB:-1}" --servers "${#servers[@]}" \
                --job-file "$SHARED/job.json" --controller "$CONTROLLER"
            exec "$python" -m workloads.check_job "${about[@]}"
        fi
        exec "$python" -m workloads.make_job "${about[@]}"
        ;;
    scheduler)
        exec "$python" -m host_stack.kv.scheduler --host "${SERVER_HOST:?}" --port 9700 \
            --workers "${WORKERS:?}" --servers 1 --start-timeout-s 600
        ;;
    server)
        options=()
        placement=${SHARED:?}/placement.npz
        if [ -n "${CONTROLLER-}" ]; then
            options=(--controller "$CONTROLLER" ${LIBRA_TLS:+--tls "$LIBRA_TLS"})
            [ ! -e "$placement" ] ||
                echo "role.sh: $placement is not read: the hot keys are those that the" \
                    "controller at $CONTROLLER has (libra push gives it others)" >&2
        elif [ -e "$placement" ]; then
            options=(--placement "$placement")
        fi
        exec "$python" -m workloads.tables_server "$SHARED/job.json" "$SHARED/parameters.npz" \
            --shard "${SHARD:?}" --optimizer "${OPTIMIZER:-adagrad}" \
            --learning-rate "${LEARNING_RATE:-0.1}" \
            --checkpoint-every "${CHECKPOINT_EVERY:-0}" "${options[@]}"
        ;;
    worker)
        exec "$python" -m torch.distributed.run --nnodes "${WORKERS:?}" --node-rank "${RANK:?}" \
            --nproc-per-node 1 --master-addr "${MASTER:?}" --master-port "${MASTER_PORT:-29500}" \
            "${PROGRAM:?}" "${SHARED:?}/job.json"
        ;;
    *)
        echo "role.sh: $1 is not job, scheduler, server or worker" >&2
        exit 2
        ;;
esac
