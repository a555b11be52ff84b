#!/usr/bin/env bash
# Measures the memory that it takes to make an artifact of much content: an OCI layer that is
# unpacked and packed again, and a git repository that is packed.
#
#   bench/fetch.sh [MEGABYTES]        default: 1500
#
# The bound is 150 MB for 1.5 GB; more than that fails. Needs git, tar, gzip and about six times the
# size on disk (in TMPDIR). OURS=PROGRAM measures a program built before.
set -euo pipefail
cd "$(dirname "$0")/.."

size=${1:-1500}
bound=$((150 * 1024))
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT

ours=${OURS:-${CARGO_TARGET_DIR:-target}/dist/examples/memory}
[ -n "${OURS:-}" ] || cargo build --profile dist --quiet -p everflow-git --example memory

"$ours" generate "$work/repository" "$size"
tar -C "$work/repository" -cf - . | gzip -1 >"$work/layer.tar.gz"
git() { command git -C "$work/repository" -c user.name=Dev -c user.email=dev@example.com -c core.compression=1 -c core.bigFileThreshold=64k "$@"; }
git init -q -b main
git add .
git commit -qm content
find "$work/repository" -mindepth 1 -maxdepth 1 ! -name .git -exec rm -rf {} +

"$ours" serve "$work" >"$work/port" &
server=$!
until [ -s "$work/port" ]; do sleep 0.1; done
port=$(cat "$work/port")

failed=0
for kind in oci git; do
  case $kind in
    oci) address=oci://127.0.0.1:$port/big/app ;;
    git) address=http://127.0.0.1:$port/repository/.git ;;
  esac
  mkdir "$work/store-$kind"
  line=$("$ours" "$kind" "$address" "$work/store-$kind")
  rm -rf "$work/store-$kind"
  echo "$size MB, $line"
  peak=$(sed -n 's/.*peak memory \([0-9]*\) kB.*/\1/p' <<<"$line")
  if [ -n "$peak" ] && [ "$peak" -gt "$bound" ]; then
    echo "$kind: more than $bound kB" >&2
    failed=1
  fi
done
exit "$failed"
