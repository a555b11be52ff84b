#!/usr/bin/env bash
# Builds the engine of the real helm (helm-peer/main.go) from the Go module proxy into the peers'
# cache, unless it is there, and prints the path of the binary.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
version=4.3.1
target=${EVERFLOW_PEERS:-$HOME/.cache/everflow/peers}/helm-peer-$version
if [ ! -x "$target/helm-peer" ] || [ "$here/helm-peer/main.go" -nt "$target/helm-peer" ]; then
  work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
  cp "$here/helm-peer/main.go" "$work/"
  printf 'module everflow.local/helm-peer\n\ngo 1.26\n\nrequire helm.sh/helm/v4 v%s\n' "$version" >"$work/go.mod"
  (cd "$work" && go mod tidy && CGO_ENABLED=0 go build -trimpath -o helm-peer .) >&2
  mkdir -p "$target"
  mv "$work/helm-peer" "$target/helm-peer"
fi
echo "$target/helm-peer"
