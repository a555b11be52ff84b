#!/usr/bin/env bash
# The real tier: builds the peers (once) and runs every test that compares with them.
#
# Tests of this tier stand in test targets named differential, real or peer. Seeds are fixed, so
# that a run repeats the one before it; EVERFLOW_SEED and EVERFLOW_DIFF_SEED choose others, and
# EVERFLOW_DIFF_CASES and EVERFLOW_OPERATIONS how much is tried.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v go >/dev/null 2>&1; then
  echo "skipped: the real tier needs Go, and there is none on this machine"
  exit 0
fi

real/peers.sh build kustomize helm helm3 etcd kube-apiserver
EVERFLOW_MERGE_PEER=$(real/merge-peer.sh)
export EVERFLOW_MERGE_PEER
export EVERFLOW_REAL=1
export EVERFLOW_SEED="${EVERFLOW_SEED:-1}"
export EVERFLOW_DIFF_CASES="${EVERFLOW_DIFF_CASES:-2000}"
export EVERFLOW_OPERATIONS="${EVERFLOW_OPERATIONS:-3000}"
export EVERFLOW_MERGE_CASES="${EVERFLOW_MERGE_CASES:-500}"
cargo test --workspace --locked \
  --test "differential*" --test "real*" --test "peer*"
