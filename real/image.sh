#!/usr/bin/env bash
# Builds the image of the Containerfile with buildah, which needs no daemon, and looks at what came out: its size, its
# user, and whether the program runs in it with nothing else there.
#
#   real/image.sh            the static program is taken from target/*/dist, or from $EVERFLOW_STATIC
#   EVERFLOW_IMAGE=1 real/image.sh   builds it first where it is not there (ten CPU minutes)
set -euo pipefail
cd "$(dirname "$0")/.."

most=$((25 * 1000 * 1000))
skip() { echo "skipped: the image: $*"; exit 0; }
fail() { echo "image.sh: $*" >&2; exit 1; }

is_static() { [ -x "$1" ] && ! LC_ALL=C readelf -lW "$1" 2>/dev/null | grep -q INTERP; }

found() {
  local file
  for file in "${EVERFLOW_STATIC:-}" target/*-linux-musl/dist/everflow target/*-linux-gnu/dist/everflow; do
    if is_static "$file"; then echo "$file"; return; fi
  done
}

# With musl, as releases are, where the toolchain has it; else with a static glibc.
build() {
  local machine target
  machine=$(uname -m)
  target=$machine-unknown-linux-musl
  if [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
    target=$machine-unknown-linux-gnu
    export RUSTFLAGS="-C target-feature=+crt-static ${RUSTFLAGS:-}"
  fi
  cargo build --locked --profile dist --package everflow --target "$target" >&2
}

command -v buildah >/dev/null || skip "there is no buildah (apt-get install buildah)"
command -v readelf >/dev/null || skip "there is no readelf (apt-get install binutils)"
program=$(found)
if [ -z "$program" ] && [ -n "${EVERFLOW_IMAGE:-}" ]; then
  build
  program=$(found)
  [ -n "$program" ] || fail "what was built is not static"
fi
[ -n "$program" ] || skip "there is no static program (EVERFLOW_IMAGE=1 builds it)"

work=$(mktemp -d)
run() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
container=
trap 'if [ -n "$container" ]; then run umount "$container" >/dev/null; run rm "$container" >/dev/null; fi; rm -rf "$work"' EXIT

mkdir "$work/context"
cp "$program" "$work/context/everflow"
cp /etc/ssl/certs/ca-certificates.crt "$work/context/"
run build --quiet --isolation chroot --file Containerfile \
  --build-arg BINARY=everflow --build-arg CERTIFICATES=ca-certificates.crt \
  --tag everflow:real "$work/context" >/dev/null
run push --quiet everflow:real "oci:$work/oci:real"

whole=$(run inspect --type image --format '{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}' everflow:real)
[ "$whole" = "65532:65532 [/everflow] [run]" ] || fail "the image says $whole"
container=$(run from everflow:real)
root=$(run mount "$container")
files=$(cd "$root" && find . -type f | sort | tr '\n' ' ')
[ "$files" = "./etc/ssl/certs/ca-certificates.crt ./everflow " ] || fail "the image holds $files"
unpacked=$(find "$root" -type f -printf '%s\n' | awk '{sum += $1} END {print sum}')
packed=$(find "$work/oci/blobs" -type f -printf '%s\n' | awk '{sum += $1} END {print sum}')
[ "$unpacked" -lt "$most" ] || fail "the image takes $unpacked bytes, more than $most"
said=$(chroot --userspec=65532:65532 "$root" /everflow --version) || fail "the program does not run in the empty image"
echo "image: $program, $said, $unpacked bytes, $packed packed"
