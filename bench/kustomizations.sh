#!/usr/bin/env bash
# Kustomizations with four objects each from one GitRepository, delivered by `everflow run` to a real
# kube-apiserver with etcd (which does not sync to disk here), against the same objects applied raw with 20
# requests at once, in one run: time, CPU, requests, memory; then a revision that changes one object of each,
# one that changes nothing, and an interval at which nothing happens.
#
#   bench/kustomizations.sh [COUNT...]       default: 1000 5000
#
# DEPLOYMENTS=1 has a Deployment among the objects (and runs the controllers of Kubernetes for it).
# With source-controller and kustomize-controller on PATH (or FLUX=DIR) Flux does the same afterwards.
# Needs the real peers: real/peers.sh build etcd kube-apiserver (and kube-controller-manager).
# OURS=PROGRAM and BENCH=PROGRAM measure programs built before.
set -euo pipefail
cd "$(dirname "$0")/.."
counts=("$@")
[ ${#counts[@]} -gt 0 ] || counts=(1000 5000)
target=${CARGO_TARGET_DIR:-target}
[ -n "${OURS:-}" ] || cargo build -q --release -p everflow
[ -n "${BENCH:-}" ] || cargo build -q --release -p everflow --example kustomizations
work=$(mktemp -d)
real=
cleanup() {
  [ -z "$real" ] || real/peers.sh stop --dir "$real" 2>/dev/null || true
  [ -n "${KEEP:-}" ] || rm -rf "$work"
}
trap cleanup EXIT
cp "${OURS:-$target/release/everflow}" "$work/everflow"
cp "${BENCH:-$target/release/examples/kustomizations}" "$work/bench"

# measure NAME COUNT PROGRAM ARGUMENTS...: on a new API server
measure() {
  local name=$1 count=$2 manager=()
  shift 2
  real=$work/$name-$count
  [ -z "${DEPLOYMENTS:-}" ] || manager=(--controller-manager)
  real/peers.sh start --dir "$real" "${manager[@]}" >/dev/null
  echo "== $name, $count Kustomizations"
  "$work/bench" "$real/kubeconfig" "$real/bench" \
    "$(cat "$real/kube-apiserver.pid"),$(cat "$real/etcd.pid")" "$count" "$@"
  real/peers.sh stop --dir "$real"
  real=
}

for count in "${counts[@]}"; do
  measure everflow "$count" "$work/everflow" run --kubeconfig "$work/everflow-$count/kubeconfig" \
    --storage-path "$work/everflow-$count/artifacts" --log-level error --concurrent 20
done

flux=${FLUX:-}
if [ -z "$flux" ] && command -v kustomize-controller >/dev/null && command -v source-controller >/dev/null; then
  flux=$(dirname "$(command -v kustomize-controller)")
fi
if [ -z "$flux" ]; then
  echo "skipped: Flux (source-controller and kustomize-controller are not on PATH)"
  exit
fi
measure flux "${counts[0]}" \
  "$flux/source-controller" --storage-path="$work/flux-${counts[0]}/artifacts" --storage-addr=127.0.0.1:19090 \
  --storage-adv-addr=127.0.0.1:19090 --metrics-addr=0 --health-addr=127.0.0.1:19091 --events-addr= \
  --concurrent=20 --log-level=error -- \
  "$flux/kustomize-controller" --metrics-addr=0 --health-addr=127.0.0.1:19092 --events-addr= --concurrent=20 \
  --log-level=error
