#!/usr/bin/env bash
# Builds the real merge code of Kubernetes (merge-peer/main.go) from the Go module proxy into the
# peers' cache and compares everflow-merge with it on random documents.
# usage: merge-peer.sh [SEQUENCES]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
version=0.36.1
target=${EVERFLOW_PEERS:-$HOME/.cache/everflow/peers}/merge-peer-$version
if [ ! -x "$target/merge-peer" ] || [ "$here/merge-peer/main.go" -nt "$target/merge-peer" ]; then
  work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
  cp "$here/merge-peer/main.go" "$work/"
  printf 'module everflow.local/merge-peer\n\ngo 1.26\n\nrequire (\n\tk8s.io/apimachinery v%s\n\tk8s.io/client-go v%s\n)\n' "$version" "$version" >"$work/go.mod"
  (cd "$work" && go mod tidy && CGO_ENABLED=0 go build -trimpath -o merge-peer .)
  mkdir -p "$target"
  mv "$work/merge-peer" "$target/merge-peer"
fi
cd "$here/.."
EVERFLOW_MERGE_PEER=$target/merge-peer EVERFLOW_MERGE_CASES=${1:-2000} \
  cargo test -p everflow-merge --test peer
