#!/usr/bin/env bash
# How long `everflow up` takes: for examples/quickstart, and for a repository of 250 Kustomizations that
# is written here, with components, replacements, substitution and chains of dependsOn.
#
#   bench/up.sh [NUMBER]      NUMBER of Kustomizations, 250 by default
#
# EVERFLOW names a program that is built already.
set -euo pipefail
cd "$(dirname "$0")/.."

number=${1:-250}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -z "${EVERFLOW:-}" ]; then
  cargo build --profile dist -q -p everflow
  EVERFLOW=${CARGO_TARGET_DIR:-target}/dist/everflow
fi

repository=$work/repository
mkdir -p "$repository"/{cluster,apps,components/labels,components/limits,base}

cat > "$repository/cluster/settings.yaml" <<YAML
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: flux-system}
data: {domain: example.com, tier: bench}
YAML
cat > "$repository/components/labels/kustomization.yaml" <<YAML
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
labels: [{pairs: {tier: "\${tier}"}}]
YAML
cat > "$repository/components/limits/kustomization.yaml" <<YAML
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
patches:
  - target: {kind: Deployment}
    patch: |
      - op: add
        path: /spec/template/spec/containers/0/resources
        value: {limits: {memory: 64Mi}}
YAML
cat > "$repository/base/kustomization.yaml" <<YAML
resources: [app.yaml]
YAML
cat > "$repository/base/app.yaml" <<YAML
apiVersion: v1
kind: ConfigMap
metadata: {name: app}
data: {host: "\${app}.\${domain}", port: "8080"}
---
apiVersion: v1
kind: Service
metadata: {name: app}
spec: {selector: {app: app}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
        - name: app
          image: registry.example.com/app:1.0
          env: [{name: PORT, value: "0"}]
YAML

for ((i = 1; i <= number; i++)); do
  mkdir -p "$repository/apps/app-$i"
  cat > "$repository/apps/app-$i/kustomization.yaml" <<YAML
namespace: app-$i
resources: [namespace.yaml, ../../base]
components: [../../components/labels, ../../components/limits]
replacements:
  - source: {kind: ConfigMap, name: app, fieldPath: data.port}
    targets:
      - select: {kind: Deployment}
        fieldPaths: ["spec.template.spec.containers.[name=app].env.[name=PORT].value"]
YAML
  printf 'apiVersion: v1\nkind: Namespace\nmetadata: {name: app-%s}\n' "$i" \
    > "$repository/apps/app-$i/namespace.yaml"
  # Chains of ten.
  depends=
  if (( i % 10 != 1 )); then depends="  dependsOn: [{name: app-$((i - 1))}]"; fi
  cat > "$repository/cluster/app-$i.yaml" <<YAML
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: app-$i, namespace: flux-system}
spec:
  interval: 1h
  prune: true
  wait: true
  path: ./apps/app-$i
  sourceRef: {kind: GitRepository, name: flux-system}
  postBuild:
    substitute: {app: app-$i}
    substituteFrom: [{kind: ConfigMap, name: settings}]
$depends
YAML
done

# Runs up and prints its time, its peak memory and the line with the counts.
measure() {
  local name=$1 began ended memory=0 cpu=0 now code=0; shift
  began=$(date +%s%N)
  "$EVERFLOW" up --offline "$@" > "$work/out" 2>&1 &
  local program=$!
  while now=$(awk '/VmHWM/ { print $2 }' "/proc/$program/status" 2>/dev/null) && [ -n "$now" ]; do
    memory=$now
    cpu=$(awk '{ print ($14 + $15) / 100 }' "/proc/$program/stat" 2>/dev/null || echo "$cpu")
    sleep 0.05
  done
  wait "$program" || code=$?
  ended=$(date +%s%N)
  printf '%-32s %6.2f s  cpu %6.2f s  peak %4d MB  exit %s  %s\n' "$name" \
    "$(bc <<< "scale=2; ($ended - $began) / 1000000000")" "$cpu" $((memory / 1024)) "$code" \
    "$(grep 'objects deployed' "$work/out" | tail -1)"
}

measure "quickstart (aim: 2 s)" examples/quickstart --entry clusters/staging
measure "$number Kustomizations (aim: 15 s)" "$repository" --entry cluster
