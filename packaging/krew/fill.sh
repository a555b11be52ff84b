#!/usr/bin/env bash
# fill.sh VERSION SHA256SUMS: prints the manifest for krew with that version and the checksums of its archives.
set -euo pipefail
version=$1
sums=$2

text=$(sed "s/VERSION/$version/g" "$(dirname "$0")/everflow.yaml")
while read -r sum file; do
  target=${file#everflow-}
  target=${target%.tar.gz}
  text=${text//SHA256_$target/$sum}
done < <(grep '\.tar\.gz$' "$sums")
if grep -q SHA256_ <<<"$text"; then
  echo "not all archives are in $sums: $(grep -o 'SHA256_[a-z0-9_-]*' <<<"$text" | tr '\n' ' ')" >&2
  exit 1
fi
printf '%s\n' "$text"
