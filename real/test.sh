#!/usr/bin/env bash
# The real tier: builds the peers (once) and runs every test that compares with them.
#
# Tests of this tier stand in test targets whose names begin with differential, real or peer. Seeds
# are fixed, so that a run repeats the one before it; the variables below choose others and more.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v go >/dev/null 2>&1; then
  echo "skipped: the real tier needs Go, and there is none on this machine"
  exit 0
fi

real/peers.sh build kustomize helm helm3 sops crane versitygw etcd kube-apiserver kube-controller-manager kube-scheduler
# Not everybody has Debian's packages; the test that misses them says so.
real/peers.sh build sshd || true
# Gitea takes long to build, too, and wants gcc.
if [ -n "${EVERFLOW_GITEA:-}" ]; then
  real/peers.sh build gitea
fi
# Flux's controllers take long to build and are therefore built when asked for; a test that misses
# one says so.
if [ -n "${EVERFLOW_FLUX:-}" ]; then
  real/peers.sh build source-controller kustomize-controller helm-controller
fi
EVERFLOW_MERGE_PEER=$(real/merge-peer.sh)
export EVERFLOW_MERGE_PEER
export EVERFLOW_REAL=1
# Random values, documents, templates and calls.
export EVERFLOW_DIFF_CASES="${EVERFLOW_DIFF_CASES:-2000}" EVERFLOW_DIFF_SEED="${EVERFLOW_DIFF_SEED:-1}"
# Random objects given to a real API server, and random overlays.
export SEED="${SEED:-1}" RUNS="${RUNS:-300}"
# Random sequences of applies and patches.
export EVERFLOW_MERGE_CASES="${EVERFLOW_MERGE_CASES:-500}"

# Random writes to both API servers.
export EVERFLOW_SEED="${EVERFLOW_SEED:-4}" EVERFLOW_OPERATIONS="${EVERFLOW_OPERATIONS:-10000}"
echo "EVERFLOW_SEED=$EVERFLOW_SEED EVERFLOW_OPERATIONS=$EVERFLOW_OPERATIONS EVERFLOW_DIFF_SEED=$EVERFLOW_DIFF_SEED SEED=$SEED"

# The packages that `.ci/run` tests before this, so that what was built for them is used again. The simulator has no peers.
cargo test --locked --workspace --exclude everflow-sim --test "differential*" --test "real*" --test "peer*"

# The image, where buildah and a static program are there; it says so where they are not.
real/image.sh
