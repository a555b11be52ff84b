#!/usr/bin/env bash
# Packs the recordings that were made for this project from DIRECTORY (a shared/corpus) into recordings/. Trees of
# other projects stay out: the inputs of kustomize's own tests and the public charts.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "${1:?usage: pack.sh DIRECTORY}"
pack() {
  local name=$1
  shift
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - "$@" | gzip -9n >"$here/recordings/$name.tar.gz"
}
pack yaml yaml
pack apiserver apiserver
pack flux flux
pack helm-functions helm/functions
pack helm-values helm/values
pack helm-charts helm/charts/_defaults.json helm/charts/own-*
ls -l "$here/recordings"
