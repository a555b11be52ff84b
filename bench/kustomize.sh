#!/usr/bin/env bash
# Measures `everflow kustomize build` against the real kustomize: CPU time of the whole process and
# peak memory, on overlays of growing size.
#
#   bench/kustomize.sh [SIZE...]      default: 10 1000 4000 20000
#
# The overlay of SIZE objects has a namespace, a prefix, selector labels, images, 50 patches, and name
# references between Deployments, ConfigMaps and ServiceAccounts. The real tool is run up to
# REAL_LIMIT objects (default 1000: at 4000 it takes six minutes); REAL_LIMIT=0 leaves it out.
# Needs GNU time.
set -euo pipefail
cd "$(dirname "$0")/.."

sizes=("${@:-10}")
[ $# -eq 0 ] && sizes=(10 1000 4000 20000)
real_limit=${REAL_LIMIT:-1000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cargo build --release --quiet -p everflow
ours=${CARGO_TARGET_DIR:-target}/release/everflow
real=$(real/peers.sh path kustomize 2>/dev/null || true)

generate() { # generate SIZE DIRECTORY
  local size=$1 dir=$2 groups
  groups=$((size / 4))
  [ "$groups" -lt 1 ] && groups=1
  mkdir -p "$dir/base" "$dir/overlay"
  awk -v groups="$groups" -v size="$size" 'BEGIN {
    for (i = 0; i < groups; i++) {
      printf "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: sa-%d\n---\n", i
      printf "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config-%d\ndata:\n  mode: production\n  level: info\n---\n", i
      printf "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: app-%d\n  labels:\n    app: app-%d\nspec:\n  replicas: 2\n  selector:\n    matchLabels:\n      app: app-%d\n  template:\n    metadata:\n      labels:\n        app: app-%d\n    spec:\n      serviceAccountName: sa-%d\n      containers:\n      - name: main\n        image: nginx:1.25\n        ports:\n        - containerPort: 8080\n        env:\n        - name: MODE\n          valueFrom:\n            configMapKeyRef:\n              name: config-%d\n              key: mode\n        envFrom:\n        - configMapRef:\n            name: config-%d\n        resources:\n          requests:\n            cpu: 100m\n            memory: 128Mi\n      volumes:\n      - name: config\n        configMap:\n          name: config-%d\n---\n", i, i, i, i, i, i, i, i
      printf "apiVersion: v1\nkind: Service\nmetadata:\n  name: app-%d\nspec:\n  selector:\n    app: app-%d\n  ports:\n  - port: 80\n    targetPort: 8080\n---\n", i, i
    }
  }' >"$dir/base/objects.yaml"
  printf 'resources:\n- objects.yaml\n' >"$dir/base/kustomization.yaml"
  {
    printf 'resources:\n- ../base\nnamespace: production\nnamePrefix: prod-\n'
    printf 'labels:\n- pairs:\n    env: production\n    team: platform\n  includeSelectors: true\n'
    printf 'images:\n- name: nginx\n  newName: registry.example.com/nginx\n  newTag: "1.27"\n'
    printf 'patches:\n'
    local count=$((groups < 50 ? groups : 50))
    for ((i = 0; i < count; i++)); do
      printf -- '- patch: |-\n    apiVersion: apps/v1\n    kind: Deployment\n    metadata:\n      name: app-%d\n    spec:\n      replicas: 5\n      template:\n        spec:\n          containers:\n          - name: main\n            resources:\n              limits:\n                memory: 256Mi\n' "$i"
    done
  } >"$dir/overlay/kustomization.yaml"
}

measure() { # measure COMMAND... -> "CPU_SECONDS PEAK_KB"
  local cpu peak
  cpu=$(
    TIMEFORMAT='%3U %3S'
    { time /usr/bin/time -f %M -o "$work/peak" "$@" >/dev/null 2>&1; } 2>&1 |
      awk '{ printf "%.3f", $1 + $2 }'
  )
  read -r peak <"$work/peak"
  echo "$cpu $peak"
}

best() { # best RUNS COMMAND...: the run with the least CPU time
  local runs=$1; shift
  for ((i = 0; i < runs; i++)); do measure "$@"; done | sort -n | head -1
}

printf '%8s %12s %12s %12s %12s %9s\n' objects ours_cpu_s ours_peak_kb real_cpu_s real_peak_kb ratio
for size in "${sizes[@]}"; do
  generate "$size" "$work/$size"
  read -r cpu peak < <(best 3 "$ours" kustomize build "$work/$size/overlay")
  if [ -n "$real" ] && [ "$size" -le "$real_limit" ]; then
    runs=1
    [ "$size" -le 100 ] && runs=3
    read -r real_cpu real_peak < <(best "$runs" "$real" build "$work/$size/overlay")
    ratio=$(awk -v a="$real_cpu" -v b="$cpu" 'BEGIN { printf "%.0fx", a / (b > 0.001 ? b : 0.001) }')
    if [ "$size" -le 100 ] && ! cmp -s <("$ours" kustomize build "$work/$size/overlay") <("$real" build "$work/$size/overlay"); then
      ratio="$ratio (outputs differ)"
    fi
  else
    real_cpu=- real_peak=- ratio=-
  fi
  printf '%8s %12s %12s %12s %12s %9s\n' "$size" "$cpu" "$peak" "$real_cpu" "$real_peak" "$ratio"
done
