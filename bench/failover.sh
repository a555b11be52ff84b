#!/usr/bin/env bash
# How long nothing is delivered after a holder of leases is killed with -9, after its address of the API servers takes
# connections and never answers while another way is known, and after it is stopped: two replicas with the default times,
# six new Kustomizations right after the fault, until all are Ready.
#
#   bench/failover.sh [ROUNDS]          default: 3
#
# Needs root, for network namespaces, and the real peers: real/peers.sh build etcd kube-apiserver. OURS=PROGRAM measures
# a program built before; FLAGS="--leader-election-..." are given to it. Where Flux's source-controller and
# kustomize-controller are on PATH or among the peers, two kustomize-controllers do the same on the same API servers, and
# the ratios are printed; FLUX=none leaves them out.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
[ -n "${OURS:-}" ] || cargo build -q --profile dist -p everflow
export EVERFLOW_REAL=1 EVERFLOW_FAILOVER_ROUNDS=${1:-3} EVERFLOW_PROGRAM=${OURS:-$target/dist/everflow}
export EVERFLOW_FAILOVER_FLAGS=${FLAGS:-}
[ "${FLUX:-}" = none ] || export EVERFLOW_FAILOVER_FLUX=1
EVERFLOW_PROGRAM=$(realpath "$EVERFLOW_PROGRAM")
cargo test -q --locked --workspace --test real_chaos time_without_delivery -- --nocapture | grep -E '^(failover|skipped|Flux|Killed|Cut|Stopped)'
