#!/usr/bin/env bash
# Compares our YAML with the Go libraries on the same generated files in one run: megabytes of YAML
# per second of processor time, peak memory, and how many times faster and smaller we are.
#
#   bench/yaml.sh [MODE...]
#
# Needs Go and the module proxy once; the files and programs go to a temporary directory, or to
# BENCH_DIR if that is set.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${BENCH_DIR:-$(mktemp -d)}
[ -n "${BENCH_DIR:-}" ] || trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir"

cargo build --quiet --profile dist -p everflow-yaml --example bench_yaml
ours=${CARGO_TARGET_DIR:-target}/dist/examples/bench_yaml
(cd bench/yaml-go && go build -o "$dir/yaml-go" .)
"$ours" generate "$dir"

crd="load-sigs load-v3 load-kyaml dump-sigs marshal-sigs dump-v3 dump-kyaml"
many="load-decoder load-kio dump-sigs-each dump-kio"
modes=${*:-$crd $many}
printf '%-16s %10s %10s %8s %10s %10s %8s\n' mode 'Go MB/s' 'our MB/s' faster 'Go MB' 'our MB' smaller
for mode in $modes; do
  case " $many " in *" $mode "*) file=many.yaml ;; *) file=crd.yaml ;; esac
  read -r _ go_speed go_memory < <("$dir/yaml-go" "$mode" "$dir/$file")
  read -r _ our_speed our_memory < <("$ours" run "$mode" "$dir/$file")
  awk -v m="$mode" -v gs="$go_speed" -v os="$our_speed" -v gm="$go_memory" -v om="$our_memory" \
    'BEGIN { printf "%-16s %10.1f %10.1f %7.1fx %10.0f %10.0f %7.1fx\n", m, gs, os, os/gs, gm, om, gm/om }'
done
