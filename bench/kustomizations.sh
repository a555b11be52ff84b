#!/usr/bin/env bash
# Kustomizations with four objects each (ServiceAccount, Service, Deployment without replicas, Ingress) and
# `wait: true` from one GitRepository, delivered by `everflow run` to a real kube-apiserver with etcd (which
# does not sync to disk here) and the Deployment controllers, in one run with, each on an API server of its own,
#
# - raw: the same 4 objects for each, server-side applied by a bare HTTP/2 client on one connection, 20
#   requests at once, into namespaces that exist;
# - least: the same, 20 Kustomizations at once, each with the other writes that no engine can do without;
# - Flux's source-controller and kustomize-controller at --concurrent=20.
#
# Time, CPU, requests (what the controllers of Kubernetes ask for is left out), memory; then a revision that
# changes one object of each, one that changes nothing, and an interval at which nothing happens.
#
#   bench/kustomizations.sh [COUNT...]       default: 1000 5000; Flux gets the first
#
# IDLE=SECONDS watches it do nothing for so long; 75 else.
# CONFIGMAPS=1 has ConfigMaps in place of the Deployments, and no controllers of Kubernetes.
# Flux's controllers are taken from FLUX=DIR, PATH or the peers; FLUX=none leaves them out.
# Needs the real peers: real/peers.sh build etcd kube-apiserver kube-controller-manager.
# OURS=PROGRAM and BENCH=PROGRAM measure programs built before.
set -euo pipefail
cd "$(dirname "$0")/.."
counts=("$@")
[ ${#counts[@]} -gt 0 ] || counts=(1000 5000)
target=${CARGO_TARGET_DIR:-target}
[ -n "${OURS:-}" ] || cargo build -q --profile dist -p everflow
[ -n "${BENCH:-}" ] || cargo build -q --profile dist -p everflow --example kustomizations
work=$(mktemp -d)
real=
cleanup() {
  [ -z "$real" ] || real/peers.sh stop --dir "$real" 2>/dev/null || true
  [ -n "${KEEP:-}" ] || rm -rf "$work"
}
trap cleanup EXIT
cp "${OURS:-$target/dist/everflow}" "$work/everflow"
cp "${BENCH:-$target/dist/examples/kustomizations}" "$work/bench"

# measure NAME COUNT WHAT...: on a new API server
measure() {
  local name=$1 count=$2 manager=(--controller-manager)
  shift 2
  real=$work/$name-$count
  [ -z "${CONFIGMAPS:-}" ] || manager=()
  real/peers.sh start --dir "$real" "${manager[@]}" >/dev/null
  mkdir "$real/artifacts"
  "$work/bench" "$real/kubeconfig" "$real/bench" \
    "$(cat "$real/kube-apiserver.pid"),$(cat "$real/etcd.pid")" "$count" "$work/figures-$count" "$@"
  real/peers.sh stop --dir "$real"
  [ -n "${KEEP:-}" ] || rm -rf "$real"
  real=
}

for count in "${counts[@]}"; do
  echo "== everflow, $count Kustomizations"
  measure raw "$count" raw
  measure least "$count" least
  measure everflow "$count" engine "$work/everflow" run --kubeconfig "$work/everflow-$count/kubeconfig" \
    --storage-path "$work/everflow-$count/artifacts" --log-level error --concurrent 20
done

# peer NAME: where a controller of Flux is
peer() {
  if [ -n "${FLUX:-}" ]; then echo "$FLUX/$1"; else command -v "$1" || real/peers.sh path "$1" 2>/dev/null || true; fi
}
kustomize=$(peer kustomize-controller) source=$(peer source-controller)
if [ ! -x "$kustomize" ] || [ ! -x "$source" ]; then
  echo "skipped: Flux (source-controller and kustomize-controller are not at hand)"
  exit
fi
echo "== flux, ${counts[0]} Kustomizations"
measure flux "${counts[0]}" engine \
  "$source" --storage-path="$work/flux-${counts[0]}/artifacts" --storage-addr=127.0.0.1:19090 \
  --storage-adv-addr=127.0.0.1:19090 --metrics-addr=0 --health-addr=127.0.0.1:19091 --events-addr= \
  --concurrent=20 --log-level=error -- \
  "$kustomize" --metrics-addr=0 --health-addr=127.0.0.1:19092 --events-addr= --concurrent=20 \
  --log-level=error
