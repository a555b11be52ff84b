#!/usr/bin/env bash
# HelmReleases of one chart with four objects (ServiceAccount, Service, Deployment without replicas, Ingress) from
# one HelmRepository, released by `everflow run` to a real kube-apiserver with etcd (which does not sync to disk
# here) and the Deployment controllers, in one run with Flux's source-controller and helm-controller on an API
# server of their own.
#
# Time, CPU, requests (what the controllers of Kubernetes ask for is left out), memory; then a new version of the
# chart, and an interval in which nothing happens.
#
#   bench/helmreleases.sh [COUNT]            default: 1000
#
# IDLE=SECONDS watches it do nothing for so long; 75 else. LONGEST=SECONDS ends a step that takes longer; 3600.
# Flux's controllers are taken from FLUX=DIR, PATH or the peers; FLUX=none leaves them out.
# Needs the real peers: real/peers.sh build etcd kube-apiserver kube-controller-manager.
# OURS=PROGRAM and BENCH=PROGRAM measure programs built before; OURS=none measures Flux alone.
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1:-1000}
target=${CARGO_TARGET_DIR:-target}
[ -n "${OURS:-}" ] || cargo build -q --profile dist -p everflow
[ -n "${BENCH:-}" ] || cargo build -q --profile dist -p everflow --example helmreleases
work=$(mktemp -d)
real=
cleanup() {
  [ -z "$real" ] || real/peers.sh stop --dir "$real" 2>/dev/null || true
  [ -n "${KEEP:-}" ] || rm -rf "$work"
}
trap cleanup EXIT
[ "${OURS:-}" = none ] || cp "${OURS:-$target/dist/everflow}" "$work/everflow"
cp "${BENCH:-$target/dist/examples/helmreleases}" "$work/bench"

# measure NAME WHAT...: on a new API server
measure() {
  local name=$1
  shift
  real=$work/run-$name
  real/peers.sh start --dir "$real" --controller-manager >/dev/null
  mkdir "$real/artifacts"
  "$work/bench" "$real/kubeconfig" "$real/bench" \
    "$(cat "$real/kube-apiserver.pid"),$(cat "$real/etcd.pid")" "$count" "$@"
  real/peers.sh stop --dir "$real"
  [ -n "${KEEP:-}" ] || rm -rf "$real"
  real=
}

if [ "${OURS:-}" != none ]; then
  echo "== everflow, $count HelmReleases"
  measure everflow "$work/everflow" run --kubeconfig "$work/run-everflow/kubeconfig" \
    --storage-path "$work/run-everflow/artifacts" --log-level error --concurrent 20
fi

# peer NAME: where a controller of Flux is
peer() {
  if [ -n "${FLUX:-}" ]; then echo "$FLUX/$1"; else command -v "$1" || real/peers.sh path "$1" 2>/dev/null || true; fi
}
helm=$(peer helm-controller) source=$(peer source-controller)
if [ ! -x "$helm" ] || [ ! -x "$source" ]; then
  echo "skipped: Flux (source-controller and helm-controller are not at hand)"
  exit
fi
echo "== flux, $count HelmReleases"
measure flux \
  "$source" --storage-path="$work/run-flux/artifacts" --storage-addr=127.0.0.1:19190 \
  --storage-adv-addr=127.0.0.1:19190 --metrics-addr=0 --health-addr=127.0.0.1:19191 --events-addr= \
  --concurrent=20 --log-level=error -- \
  "$helm" --metrics-addr=0 --health-addr=127.0.0.1:19192 --events-addr= --concurrent=20 --log-level=error
