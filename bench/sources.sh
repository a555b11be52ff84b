#!/usr/bin/env bash
# What a thousand GitRepositories of one small remote and a thousand HelmCharts of one HelmRepository
# cost on a real kube-apiserver: requests for each new source as the API server counts them, CPU time
# and memory of the engine, and what it takes at rest.
#
#   bench/sources.sh [COUNT]          default: 1000
#
# Needs git and the real peers: real/peers.sh build etcd kube-apiserver. OURS=PROGRAM and HELPER=PROGRAM
# measure programs built before. Where SOURCE_CONTROLLER names the real source-controller, or it is on
# PATH or among the peers, it does the same work on the same API server, and the ratios are printed;
# SOURCE_CONTROLLER=none leaves it out.
set -euo pipefail
cd "$(dirname "$0")/.."

count=${1:-1000}
target=${CARGO_TARGET_DIR:-target}
[ -n "${OURS:-}" ] || cargo build -q --profile dist -p everflow
[ -n "${HELPER:-}" ] || cargo build -q --profile dist -p everflow-controllers --example sources
work=$(mktemp -d)
cp "${OURS:-$target/dist/everflow}" "$work/everflow"
cp "${HELPER:-$target/dist/examples/sources}" "$work/helper"
peers=${EVERFLOW_PEERS:-$HOME/.cache/everflow/peers}
real=${SOURCE_CONTROLLER:-$(command -v source-controller || ls "$peers"/source-controller-*/source-controller 2>/dev/null | tail -1 || true)}
engine= server=
cleanup() {
  [ -z "$engine" ] || kill "$engine" 2>/dev/null || true
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  real/peers.sh stop --dir "$work/real" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

# A small repository and a small chart.
mkdir -p "$work/git/repository" "$work/charts" "$work/chart/small/templates"
git() { command git -C "$work/git/repository" -c user.name=Dev -c user.email=dev@example.com "$@"; }
git init -q -b main
for number in $(seq 20); do
  printf 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: map-%s\ndata:\n  key: value\n' "$number" >"$work/git/repository/map-$number.yaml"
done
git add .
git commit -qm "small content"
printf 'apiVersion: v2\nname: small\nversion: 1.0.0\n' >"$work/chart/small/Chart.yaml"
printf 'key: value\n' >"$work/chart/small/values.yaml"
cp "$work/git/repository/map-1.yaml" "$work/chart/small/templates/"
tar -C "$work/chart" -czf "$work/charts/small-1.0.0.tgz" small
cat >"$work/charts/index.yaml" <<YAML
apiVersion: v1
entries:
  small:
  - apiVersion: v2
    name: small
    version: 1.0.0
    created: "2026-01-01T00:00:00Z"
    digest: $(sha256sum "$work/charts/small-1.0.0.tgz" | cut -d' ' -f1)
    urls: [small-1.0.0.tgz]
generated: "2026-01-01T00:00:00Z"
YAML

"$work/helper" serve "$work" >"$work/port" &
server=$!
kubeconfig=$(real/peers.sh start --dir "$work/real")
"$work/helper" install "$kubeconfig"
until [ -s "$work/port" ]; do sleep 0.1; done

# measure NAME NAMESPACE: measures the engine that runs as $engine, and stops it
measure() {
  "$work/helper" measure "$kubeconfig" "$engine" "$(cat "$work/port")" "$count" "$2" | tee "$work/$1.txt" | sed -u "s/^/$1  /"
  kill "$engine"
  wait "$engine" 2>/dev/null || true
  engine=
}

"$work/everflow" run --kubeconfig "$kubeconfig" --storage-path "$work/ours" --watch-namespace bench-first 2>"$work/ours.log" &
engine=$!
measure ours bench-first || { tail -5 "$work/ours.log" >&2; exit 1; }

[ -n "$real" ] && [ "$real" != none ] || { echo "the real source-controller is not at hand: no ratios" >&2; exit; }
mkdir "$work/theirs"
KUBECONFIG=$kubeconfig RUNTIME_NAMESPACE=bench-second "$real" --storage-path "$work/theirs" --storage-addr 127.0.0.1:0 \
  --storage-adv-addr localhost --watch-all-namespaces=false --metrics-addr 0 --health-addr 127.0.0.1:0 --events-addr "" \
  --log-level error 2>"$work/theirs.log" &
engine=$!
measure real bench-second || { tail -5 "$work/theirs.log" >&2; exit 1; }
join <(grep -v '^#' "$work/ours.txt" | sort) <(grep -v '^#' "$work/real.txt" | sort) |
  awk '$2 > 0 { printf "ratio %s: the real one takes %.1f times as much\n", $1, $3 / $2 }'
