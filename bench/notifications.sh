#!/usr/bin/env bash
# What events cost: posted to `everflow run` and to the real notification-controller in one run, each with the same 200
# Alerts on the same kube-apiserver (etcd does not sync to disk here), and each held to one core. Ten Alerts look at each
# event, one event in a thousand is sent on. Printed are CPU time for each event, peak and idle memory, and the ratios;
# and how much memory everflow takes at rest with and without notifications.
#
#   bench/notifications.sh [EVENTS [RATE]]       default: 100000 5000
#
# Needs the real peers: real/peers.sh build etcd kube-apiserver. OURS=PROGRAM and HELPER=PROGRAM measure programs built
# before. The real one is NOTIFICATION_CONTROLLER, or on PATH, or among the peers; NOTIFICATION_CONTROLLER=none leaves it
# out.
set -euo pipefail
cd "$(dirname "$0")/.."

events=${1:-100000} rate=${2:-5000}
target=${CARGO_TARGET_DIR:-target}
[ -n "${OURS:-}" ] || cargo build -q --profile dist -p everflow
[ -n "${HELPER:-}" ] || cargo build -q --profile dist -p everflow-dispatch --example notifications
work=$(mktemp -d)
cp "${OURS:-$target/dist/everflow}" "$work/everflow"
cp "${HELPER:-$target/dist/examples/notifications}" "$work/helper"
real=${NOTIFICATION_CONTROLLER:-$(command -v notification-controller || real/peers.sh path notification-controller 2>/dev/null || true)}
engine= sink=
cleanup() {
  [ -z "$engine" ] || kill "$engine" 2>/dev/null || true
  [ -z "$sink" ] || kill "$sink" 2>/dev/null || true
  real/peers.sh stop --dir "$work/real" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

free_port() {
  local port
  while port=$((20000 + RANDOM % 12000)); do
    (exec 7<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
}

stop() {
  kill "$engine"
  wait "$engine" 2>/dev/null || true
  engine=
}

kubeconfig=$(real/peers.sh start --dir "$work/real")
"$work/helper" install "$kubeconfig"
# A kind is served a moment after it was defined.
sleep 10

# at_rest FLAGS...: what everflow takes with nothing to do
at_rest() {
  "$work/everflow" run --kubeconfig "$kubeconfig" --storage-path "$work/rest" --log-level error "$@" 2>>"$work/ours.log" &
  engine=$!
  sleep 15
  "$work/helper" idle "$engine" | cut -d' ' -f2
  stop
}

"$work/helper" sink >"$work/sink" &
sink=$!
until [ -s "$work/sink" ]; do sleep 0.1; done
without=$(at_rest --events-addr http://127.0.0.1:9/)
with=$(at_rest --event-server-addr "127.0.0.1:$(free_port)" --receiver-addr "127.0.0.1:$(free_port)")
echo "at rest: $with kB with notifications, $without kB without: $((with - without)) kB more"
"$work/helper" prepare "$kubeconfig" "$(cat "$work/sink")"

# measure NAME PORT: the engine that runs as $engine, and stops it
measure() {
  until (exec 7<>"/dev/tcp/127.0.0.1/$2") 2>/dev/null; do sleep 0.2; done
  sleep 10
  { "$work/helper" idle "$engine"
    "$work/helper" post "127.0.0.1:$2" "$engine" "$events" "$rate"; } | tee "$work/$1.txt" | sed -u "s/^/$1  /"
  stop
}

port=$(free_port)
taskset -c 0 "$work/everflow" run --kubeconfig "$kubeconfig" --storage-path "$work/ours" --log-level error \
  --event-server-addr "127.0.0.1:$port" 2>>"$work/ours.log" &
engine=$!
measure ours "$port" || { tail -5 "$work/ours.log" >&2; exit 1; }

[ -n "$real" ] && [ "$real" != none ] || { echo "the real notification-controller is not at hand: no ratios" >&2; exit; }
port=$(free_port)
KUBECONFIG=$kubeconfig RUNTIME_NAMESPACE=default taskset -c 0 "$real" --events-addr "127.0.0.1:$port" \
  --receiverAddr "127.0.0.1:$(free_port)" --metrics-addr 0 --health-addr "127.0.0.1:$(free_port)" --log-level error \
  2>"$work/theirs.log" &
engine=$!
measure real "$port" || { tail -5 "$work/theirs.log" >&2; exit 1; }
join <(sort "$work/ours.txt") <(sort "$work/real.txt") |
  awk '$2 > 0 { printf "ratio %s: the real one has %.1f times as much\n", $1, $3 / $2 }'
