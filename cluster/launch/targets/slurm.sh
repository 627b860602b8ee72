#!/bin/bash
# One Ray cluster for this job: a token and ports of its own, a head on the batch host, a node on every other.
set -euo pipefail
umask 077
mkdir -p "$storage"
cd "$storage"

# A token that the user chose opens Ray's dashboard too; nobody knows the other one.
RAY_AUTH_TOKEN=${RAY_AUTH_TOKEN:-$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')}
export RAY_AUTH_TOKEN RAY_AUTH_MODE=token CSE_RAY_LOGS=$storage/ray-logs/$SLURM_JOB_ID
unset RAY_ADDRESS RAY_AUTH_TOKEN_PATH

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
# Ports that are free here, the head's host, and folders whose names nobody can have guessed.
free_ports='import socket
open_ones = [socket.create_server(("", 0)) for _ in range(3)]
print(*(each.getsockname()[1] for each in open_ones))'
# With pyxis only srun enters the container.
here=("${inside[@]}")
if ((${#step[@]})); then
    here=(srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" "${step[@]}")
fi
read -r port dashboard_port client_port < <("${here[@]}" "$python" -c "$free_ports")
scratch=/tmp/ray-$SLURM_JOB_ID-$(od -An -N6 -tx1 /dev/urandom | tr -d ' \n')
ip=$(srun --overlap --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | awk '{print $1}')
pids=()
driver=
ended=
again=

# shellcheck disable=SC2317 # the trap calls it
clean_up() {
    local code=$?
    trap - EXIT TERM INT
    trap '' USR1
    if ((${#pids[@]})); then
        kill "${pids[@]}" 2>/dev/null || true
        # srun waits for half a minute in a job that is cancelled, which gets no more steps either.
        [[ $ended == cancelled ]] || wait "${pids[@]}" 2>/dev/null || true
    fi
    if ((code != 0 && code != 2 && code != 130)) && mkdir -p "$CSE_RAY_LOGS"; then
        cp -rL "$scratch-0"/session_latest/logs/. "$CSE_RAY_LOGS" && echo "cse: Ray's logs: $CSE_RAY_LOGS"
    fi
    rm -rf "$scratch-0"
    # shellcheck disable=SC2016 # each node expands its own
    srun --overlap --ntasks-per-node=1 bash -c 'rm -rf "$1-$SLURM_PROCID"' clean "$scratch" || true
    if [[ -n $again ]]; then
        echo "cse: the time is over and the state is saved; job $SLURM_JOB_ID goes back into the queue"
        scontrol requeue "$SLURM_JOB_ID"
    fi
    exit "$code"
}
# shellcheck disable=SC2317 # the traps call it
end_driver() { # why; USR1 is also what srun passes on, where TERM would kill its step at once
    if [[ -z $ended ]]; then
        ended=$1
        [[ -z $driver ]] || kill -USR1 "$driver" 2>/dev/null || true
    fi
}
trap clean_up EXIT
trap 'end_driver limit' USR1
trap 'end_driver cancelled' TERM INT

ray_node() { # index, node, what makes it a head or a worker
    local index=$1 node=$2
    shift 2
    srun --overlap --nodes=1 --ntasks=1 --cpus-per-task="$cpus" --nodelist="$node" \
        "${step[@]}" "${inside[@]}" "$python" -m ray.scripts.scripts start "$@" --block --disable-usage-stats \
        --num-cpus="$cpus" --num-gpus="$gpus" --resources="$resources" --object-store-memory=268435456 \
        --temp-dir="$scratch-$index" --min-worker-port=0 --max-worker-port=0 --dashboard-agent-listen-port=0 \
        >>"ray-$SLURM_JOB_ID-$node.log" 2>&1 &
    pids+=($!)
}

ray_node 0 "$head" --head --node-ip-address="$ip" --port="$port" \
    --dashboard-port="$dashboard_port" --ray-client-server-port="$client_port"
"${here[@]}" "$python" -m cluster.launch.wait_for_nodes "$ip:$port" 1
index=0
for node in "${nodes[@]:1}"; do
    index=$((index + 1))
    ray_node "$index" "$node" --address="$ip:$port"
done
"${here[@]}" "$python" -m cluster.launch.wait_for_nodes "$ip:$port" "${#nodes[@]}"

# The driver stays on this host, the head. A signal, two minutes before the limit, lets it save its state.
code=130
if [[ -z $ended ]]; then
    "${here[@]}" "${sweep[@]}" --address "$ip:$port" &
    driver=$!
    code=0
    wait "$driver" || code=$?
    while kill -0 "$driver" 2>/dev/null; do
        # scancel and preemption end Ray too, and a driver would wait for it until Slurm kills this script.
        if [[ $ended == cancelled ]]; then
            for _ in {1..10}; do kill -0 "$driver" 2>/dev/null && sleep 1; done
            (exec 3<>"/dev/tcp/$ip/$port") 2>/dev/null || kill -KILL "$driver" 2>/dev/null || true
        fi
        code=0
        wait "$driver" || code=$?
    done
fi
# 130 says that the sweep was ended in order, and more than 128 that its driver was, before it knew of signals.
if [[ -n $requeue && $ended == limit ]] && ((code > 128)); then
    again=yes
fi
exit "$code"
