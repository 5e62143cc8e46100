#!/usr/bin/env bash
# role.sh ROLE: run one process of a job on this host; the launchers of this folder call it.
#
# ROLE is scheduler, server or worker. From the environment:
#   LIBRA        folder of the installation, with its .venv
#   SHARED       folder with job.json, and for the server parameters.npz
#   SERVER_HOST  address of scheduler and server
#   WORKERS      number of workers
#   RANK         of a worker; MASTER is the host of rank 0
#   CONTROLLER   HOST:PORT or unix:PATH of the job's controller, where there is one
#   PROGRAM      the training program, started by torchrun (docs/pytorch.md)
set -euo pipefail

python=${LIBRA:?}/.venv/bin/python
cd "$LIBRA"
# Messages of megabytes are in huge pages (docs/pslite.md).
export GLIBC_TUNABLES=${GLIBC_TUNABLES:-glibc.malloc.hugetlb=1}

case ${1:?scheduler, server or worker} in
    scheduler)
        exec "$python" -m host_stack.kv.scheduler --host "${SERVER_HOST:?}" --port 9700 \
            --workers "${WORKERS:?}" --servers 1 --start-timeout-s 600
        ;;
    server)
        options=()
        [ ! -e "${SHARED:?}/placement.npz" ] || options=(--placement "$SHARED/placement.npz")
        [ -z "${CONTROLLER-}" ] || options=(--controller "$CONTROLLER")
        exec "$python" -m workloads.tables_server "$SHARED/job.json" "$SHARED/parameters.npz" \
            --optimizer "${OPTIMIZER:-adagrad}" --learning-rate "${LEARNING_RATE:-0.1}" \
            --checkpoint-every "${CHECKPOINT_EVERY:-0}" "${options[@]}"
        ;;
    worker)
        exec "$python" -m torch.distributed.run --nnodes "${WORKERS:?}" --node-rank "${RANK:?}" \
            --nproc-per-node 1 --master-addr "${MASTER:?}" --master-port 29500 \
            "${PROGRAM:?}" "${SHARED:?}/job.json"
        ;;
    *)
        echo "role.sh: $1 is not scheduler, server or worker" >&2
        exit 2
        ;;
esac
