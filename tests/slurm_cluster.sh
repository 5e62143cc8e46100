#!/usr/bin/env bash
# slurm_cluster.sh FOLDER COMMAND…: run a command on a Slurm cluster, all nodes of which are here.
#
# The nodes n1 to n4 are at 127.60.0.1 to 4. It needs root and namespaces of its own, so that
# nothing is left behind:
#
#   unshare --mount --net --pid --fork --kill-child --mount-proc tests/slurm_cluster.sh FOLDER …
set -euo pipefail
folder=$(realpath "$1")
shift
nodes=4
host=$(hostname -s)
export SLURM_CONF=$folder/slurm.conf

until_holds() {
    for _ in $(seq 600); do
        ! "$@" >"$folder/waiting.log" 2>&1 || return 0
        sleep 0.2
    done
    echo "slurm_cluster.sh: $* does not hold" >&2
    tail -n 5 "$folder"/*.log >&2
    exit 3
}

idle() {
    [ "$(sinfo --noheader --states=idle --format=%D)" = "$nodes" ]
}

# Slurm resolves names only where an interface besides lo has an address.
ip link set lo up
ip link add outer type veth peer name inner
ip address add 192.0.2.1/24 dev outer
ip link set outer up
{
    cat /etc/hosts
    echo "127.0.0.1 $host"
    for node in $(seq $nodes); do echo "127.60.0.$node n$node"; done
} >"$folder/hosts"
mount --bind "$folder/hosts" /etc/hosts

mkdir "$folder/state" "$folder/spool"
head -c 1024 /dev/urandom >"$folder/munge.key"
chmod 600 "$folder/munge.key"
cat >"$SLURM_CONF" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/linear
SlurmdParameters=config_overrides
MpiDefault=none
$(for node in $(seq $nodes); do
    echo "NodeName=n$node NodeHostname=$host NodeAddr=127.60.0.$node Port=$((17000 + node)) CPUs=2"
done)
PartitionName=all Nodes=ALL Default=YES State=UP
END

munged --force --foreground --socket="$folder/munge.socket" --key-file="$folder/munge.key" \
    --pid-file="$folder/munge.pid" --log-file="$folder/munge.log" \
    --seed-file="$folder/munge.seed" &
until_holds munge --no-input --socket="$folder/munge.socket"
slurmctld -D &
until_holds scontrol ping
for node in $(seq $nodes); do
    slurmd -D -N "n$node" &
done
until_holds idle
"$@"
