#!/usr/bin/env bash
# The embedded API server against the real kube-apiserver with etcd (which does not sync to disk here), in one run:
# applies per CPU second over HTTPS, lists of 10,000 objects, start, memory, and the cost of a write in process.
# Needs the real peers: real/peers.sh build etcd kube-apiserver.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
cargo build -q --profile dist -p everflow
cargo build -q --profile dist -p everflow-cluster --example bench
work=$(mktemp -d)
program=$work/everflow
bench=$work/bench
cp "$target/dist/everflow" "$program"
cp "$target/dist/examples/bench" "$bench"
server=
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  real/peers.sh stop --dir "$work/real" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

# serve: starts ours, sets $server
serve() {
  "$program" cluster start --listen 127.0.0.1:0 --kubeconfig "$work/ours" --controllers none >/dev/null &
  server=$!
  for _ in $(seq 100); do [ -s "$work/ours" ] && break; sleep 0.05; done
  sleep 0.2
}

"$bench" in-process
"$bench" start "$program"
serve
"$bench" memory "$work/ours" "$server"
kill "$server"; wait "$server" 2>/dev/null || true
rm "$work/ours"
serve
"$bench" remote "$work/ours" "$server" | tee "$work/ours.txt" | sed 's/^/ours  /'
kill "$server"; wait "$server" 2>/dev/null || true
server=
[ "${1:-}" = --ours ] && exit
real/peers.sh start --dir "$work/real" >/dev/null
"$bench" remote "$work/real/kubeconfig" "$(cat "$work/real/kube-apiserver.pid")" "$(cat "$work/real/etcd.pid")" | tee "$work/real.txt" | sed 's/^/real  /'
join "$work/ours.txt" "$work/real.txt" | awk '
  $1 ~ /per_/ { printf "ratio %s %.1f times the real one\n", $1, $2 / $3 }
  $1 ~ /_ms$/ { printf "ratio %s %.1f times as fast\n", $1, $3 / $2 }'
