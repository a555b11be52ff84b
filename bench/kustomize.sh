#!/usr/bin/env bash
# Measures `everflow kustomize build` against the real kustomize: CPU time of the whole process and
# peak memory, on overlays of growing size.
#
#   bench/kustomize.sh [SIZE...]      default: 10 1000 4000 20000
#
# The overlay of SIZE objects has a namespace, a prefix, selector labels, images, 50 patches, and name
# references between Deployments, ConfigMaps and ServiceAccounts. The real tool is run up to
# REAL_LIMIT objects (default 1000: at 4000 it takes six minutes); REAL_LIMIT=0 leaves it out. Where
# both run, their outputs are compared. Needs GNU time. OURS=PROGRAM measures a program built before.
set -euo pipefail
cd "$(dirname "$0")/.."

sizes=("${@:-10}")
[ $# -eq 0 ] && sizes=(10 1000 4000 20000)
real_limit=${REAL_LIMIT:-1000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ours=${OURS:-${CARGO_TARGET_DIR:-target}/dist/everflow}
[ -n "${OURS:-}" ] || cargo build --profile dist --quiet -p everflow
real=$(real/peers.sh path kustomize 2>/dev/null || true)

generate() { # generate SIZE DIRECTORY: a third each of Deployments, ConfigMaps and ServiceAccounts
  local size=$1 dir=$2 groups count
  groups=$(((size + 2) / 3))
  count=$((groups < 50 ? groups : 50))
  mkdir -p "$dir/base" "$dir/overlay"
  awk -v groups="$groups" '
    function lines(format, i) { gsub(/N/, i, format); gsub(/;/, "\n", format); print format }
    BEGIN {
      for (i = 0; i < groups; i++) {
        lines("apiVersion: v1;kind: ServiceAccount;metadata:;  name: sa-N;---", i)
        lines("apiVersion: v1;kind: ConfigMap;metadata:;  name: config-N;data:;  mode: production;  level: info;---", i)
        lines("apiVersion: apps/v1;kind: Deployment;metadata:;  name: app-N;  labels:;    app: app-N;" \
          "spec:;  replicas: 2;  selector:;    matchLabels:;      app: app-N;  template:;    metadata:;" \
          "      labels:;        app: app-N;    spec:;      serviceAccountName: sa-N;      containers:;" \
          "      - name: main;        image: nginx:1.25;        ports:;        - containerPort: 8080;" \
          "        env:;        - name: MODE;          valueFrom:;            configMapKeyRef:;" \
          "              name: config-N;              key: mode;        envFrom:;        - configMapRef:;" \
          "            name: config-N;        resources:;          requests:;            cpu: 100m;" \
          "            memory: 128Mi;      volumes:;      - name: config;        configMap:;" \
          "          name: config-N;---", i)
      }
    }' >"$dir/base/objects.yaml"
  printf 'resources:\n- objects.yaml\n' >"$dir/base/kustomization.yaml"
  {
    printf 'resources:\n- ../base\nnamespace: production\nnamePrefix: prod-\n'
    printf 'labels:\n- pairs:\n    env: production\n    team: platform\n  includeSelectors: true\n'
    printf 'images:\n- name: nginx\n  newName: registry.example.com/nginx\n  newTag: "1.27"\n'
    printf 'patches:\n'
    for ((i = 0; i < count; i++)); do
      printf -- '- target:\n    kind: Deployment\n    name: app-%d\n' "$i"
      printf '  patch: |-\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata:\n      name: any\n'
      printf '    spec:\n      replicas: 5\n      template:\n        spec:\n          containers:\n'
      printf '          - name: main\n            resources:\n              limits:\n                memory: 256Mi\n'
    done
  } >"$dir/overlay/kustomization.yaml"
}

measure() { # measure OUTPUT COMMAND... -> "CPU_SECONDS PEAK_KB"
  local cpu peak output=$1
  shift
  cpu=$(
    TIMEFORMAT='%3U %3S'
    { time /usr/bin/time -f %M -o "$work/peak" "$@" >"$output" 2>/dev/null; } 2>&1 |
      awk '{ printf "%.3f", $1 + $2 }'
  )
  read -r peak <"$work/peak"
  echo "$cpu $peak"
}

best() { # best RUNS OUTPUT COMMAND...: the run with the least CPU time
  local runs=$1; shift
  for ((i = 0; i < runs; i++)); do measure "$@"; done | sort -n | head -1
}

printf '%8s %12s %12s %12s %12s %9s\n' objects ours_cpu_s ours_peak_kb real_cpu_s real_peak_kb ratio
for size in "${sizes[@]}"; do
  generate "$size" "$work/$size"
  read -r cpu peak < <(best 5 "$work/ours.out" "$ours" kustomize build "$work/$size/overlay")
  if [ -n "$real" ] && [ "$size" -le "$real_limit" ]; then
    runs=1
    [ "$size" -le 100 ] && runs=5
    read -r real_cpu real_peak < <(best "$runs" "$work/real.out" "$real" build "$work/$size/overlay")
    ratio=$(awk -v a="$real_cpu" -v b="$cpu" 'BEGIN { printf "%.0fx", a / (b > 0.001 ? b : 0.001) }')
    cmp -s "$work/ours.out" "$work/real.out" || ratio="$ratio (outputs differ)"
  else
    real_cpu=- real_peak=- ratio=-
  fi
  printf '%8s %12s %12s %12s %12s %9s\n' "$size" "$cpu" "$peak" "$real_cpu" "$real_peak" "$ratio"
done
