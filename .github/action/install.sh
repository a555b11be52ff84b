#!/usr/bin/env bash
# Finds the program: the one that is named, or a release for this machine, whose checksum is compared.
set -euo pipefail

fail() {
  echo "::error::$*" >&2
  exit 1
}

if [ -n "${BINARY:-}" ]; then
  program=$(command -v "$BINARY") || fail "binary: there is no program $BINARY"
  echo "program=$program" >>"$GITHUB_OUTPUT"
  exit 0
fi

case "$(uname -s)/$(uname -m)" in
Linux/x86_64) target=x86_64-unknown-linux-musl ;;
Linux/aarch64 | Linux/arm64) target=aarch64-unknown-linux-musl ;;
Darwin/x86_64) target=x86_64-apple-darwin ;;
Darwin/arm64) target=aarch64-apple-darwin ;;
*) fail "there is no release for $(uname -s) on $(uname -m); build one and name it with 'binary'" ;;
esac

version=${VERSION:-}
if [ -z "$version" ]; then
  case "${ACTION_REF:-}" in
  v[0-9]*) version=$ACTION_REF ;;
  esac
fi
case "$version" in
'') from="$RELEASES/latest/download" ;;
*) from="$RELEASES/download/$version" ;;
esac

directory=${RUNNER_TEMP:-/tmp}/everflow
mkdir -p "$directory"
cd "$directory"
archive=everflow-$target.tar.gz
for file in "$archive" SHA256SUMS; do
  curl --fail --silent --show-error --location --retry 3 --output "$file" "$from/$file" ||
    fail "cannot fetch $from/$file; 'version' names another release, 'binary' a program that is there"
done
if command -v sha256sum >/dev/null; then
  check=(sha256sum --check --ignore-missing --strict)
else
  check=(shasum --algorithm 256 --check --ignore-missing --strict)
fi
"${check[@]}" SHA256SUMS >/dev/null || fail "$archive is not what SHA256SUMS of that release says"
tar -xzf "$archive"
echo "program=$directory/everflow" >>"$GITHUB_OUTPUT"
