#!/usr/bin/env bash
# Builds the real merge code of Kubernetes (merge-peer/main.go) from the Go module proxy into the
# peers' cache and prints where it is. `real/test.sh` gives it to the tests of everflow-merge.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
version=0.36.1
target=${EVERFLOW_PEERS:-$HOME/.cache/everflow/peers}/merge-peer-$version
# A clone makes every file new, so that the content decides whether to build again.
source_sum=$(sha256sum <"$here/merge-peer/main.go")
if [ ! -x "$target/merge-peer" ] || [ "$(cat "$target/source" 2>/dev/null)" != "$source_sum" ]; then
  work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
  cp "$here/merge-peer/main.go" "$work/"
  printf 'module everflow.local/merge-peer\n\ngo 1.26\n\nrequire (\n\tk8s.io/apimachinery v%s\n\tk8s.io/client-go v%s\n)\n' "$version" "$version" >"$work/go.mod"
  (cd "$work" && go mod tidy && CGO_ENABLED=0 go build -trimpath -o merge-peer .) >&2
  mkdir -p "$target"
  mv "$work/merge-peer" "$target/merge-peer"
  printf '%s' "$source_sum" >"$target/source"
fi
echo "$target/merge-peer"
