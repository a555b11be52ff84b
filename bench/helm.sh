#!/usr/bin/env bash
# Compares `everflow helm template` with the real helm 4 in one run: processor time and peak memory of
# whole processes on a trivial chart, on a generated umbrella chart and on every recorded chart, and the
# time of a render in a process that has the chart parsed already.
#
#   bench/helm.sh [trivial] [umbrella] [corpus] [library]
#
# Needs the peer helm (real/peers.sh build helm) and, for `corpus`, the recorded charts beside the tree
# or in EVERFLOW_CORPUS. The generated charts go to a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."
helm=$(real/peers.sh path helm)
cargo build --quiet --release -p everflow -p everflow-helm --bin everflow --example bench_render
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/release
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
parts=${*:-trivial umbrella corpus library}

python3 - "$dir" <<'PY'
import os, sys
root = sys.argv[1]
def write(path, text):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
write("trivial/Chart.yaml", "apiVersion: v2\nname: trivial\nversion: 1.0.0\n")
write("trivial/values.yaml", "a: 1\n")
write("trivial/templates/a.yaml", "kind: ConfigMap\ndata:\n  a: {{ .Values.a | quote }}\n")
write("umbrella/Chart.yaml", "apiVersion: v2\nname: umbrella\nversion: 1.0.0\n")
write("umbrella/values.yaml", "global:\n  domain: example.com\n" + "".join(
    f"part{n}:\n  replicas: {n}\n" for n in range(20)))
for n in range(20):
    base = f"umbrella/charts/part{n}"
    write(f"{base}/Chart.yaml", f"apiVersion: v2\nname: part{n}\nversion: 1.0.0\n")
    write(f"{base}/values.yaml", "replicas: 1\nimage:\n  repository: registry.example.com/app\n  tag: \"1.2\"\n"
          + "".join(f"service{i}:\n  enabled: true\n  port: {8000 + i}\n  labels:\n    team: t{i}\n    tier: back\n"
                    f"  env:\n    LEVEL: info\n    NAME: '{{{{ .Release.Name }}}}-{i}'\n" for i in range(20)))
    write(f"{base}/templates/_helpers.tpl",
          f'{{{{- define "part{n}.name" -}}}}{{{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}}}{{{{- end }}}}\n'
          f'{{{{- define "part{n}.labels" -}}}}\napp.kubernetes.io/name: {{{{ .Chart.Name }}}}\napp.kubernetes.io/instance: {{{{ .Release.Name }}}}\n'
          'helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}\n{{- end }}\n')
    for i in range(20):
        write(f"{base}/templates/service{i}.yaml", f"""{{{{- with .Values.service{i} }}}}
{{{{- if .enabled }}}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{{{ include "part{n}.name" $ }}}}-{i}
  labels:
    {{{{- include "part{n}.labels" $ | nindent 4 }}}}
    {{{{- toYaml .labels | nindent 4 }}}}
spec:
  replicas: {{{{ $.Values.replicas | default 1 }}}}
  template:
    spec:
      containers:
      - name: main
        image: "{{{{ $.Values.image.repository }}}}:{{{{ $.Values.image.tag }}}}"
        args: {{{{ list "--domain" $.Values.global.domain | toJson }}}}
        env:
        {{{{- range $key, $value := .env }}}}
        - name: {{{{ $key }}}}
          value: {{{{ tpl $value $ | quote }}}}
        {{{{- end }}}}
        ports:
        - containerPort: {{{{ .port }}}}
{{{{- end }}}}
{{{{- end }}}}
""")
PY

# measure COUNT COMMAND...: processor seconds per run and the largest memory in MB
measure() {
  python3 - "$@" <<'PY'
import os, resource, subprocess, sys
count, command = int(sys.argv[1]), sys.argv[2:]
for _ in range(count):
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print((usage.ru_utime + usage.ru_stime) / count, usage.ru_maxrss / 1024)
PY
}

row() {
  awk -v n="$1" -v gs="$2" -v gm="$3" -v os="$4" -v om="$5" \
    'BEGIN { printf "%-10s %11.4f %11.4f %8.1fx %9.0f %9.1f %8.1fx\n", n, gs, os, gs/os, gm, om, gm/om }'
}

compare() { # NAME COUNT CHART
  read -r theirs their_memory < <(measure "$2" "$helm" template rel "$3")
  read -r ours our_memory < <(measure "$2" "$target/everflow" helm template rel "$3")
  row "$1" "$theirs" "$their_memory" "$ours" "$our_memory"
}

# corpus PROGRAM...: runs it on every recorded chart; seconds of all and the largest memory in MB
corpus() {
  python3 - "${EVERFLOW_CORPUS:-$(ls -d ../shared/corpus ../../shared/corpus 2>/dev/null | head -1)}/helm/charts" "$@" <<'PY'
import json, os, resource, subprocess, sys
root, program = sys.argv[1], sys.argv[2:]
flags = {"values": "--values", "set": "--set", "set_string": "--set-string", "set_json": "--set-json",
         "set_file": "--set-file", "set_literal": "--set-literal", "show_only": "--show-only",
         "api_versions": "--api-versions"}
for name in sorted(os.listdir(root)):
    path = os.path.join(root, name, "case.json")
    if not os.path.exists(path):
        continue
    case = json.load(open(path))
    command = program + ["template", case["release"], case["chart"], "--namespace", case["namespace"]]
    for key, flag in flags.items():
        for value in case.get(key) or []:
            command += [flag, value]
    if case.get("kube_version"):
        command += ["--kube-version", case["kube_version"]]
    for key in ["is_upgrade", "include_crds", "skip_crds", "no_hooks", "skip_tests", "skip_schema_validation"]:
        if case.get(key):
            command.append("--" + key.replace("_", "-"))
    subprocess.run(command + (case.get("extra_args") or []), cwd=os.path.join(root, name),
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
PY
}

printf '%-10s %11s %11s %9s %9s %9s %9s\n' chart 'helm s' 'our s' faster 'helm MB' 'our MB' smaller
for part in $parts; do
  case $part in
    trivial) compare trivial 20 "$dir/trivial" ;;
    umbrella) compare umbrella 5 "$dir/umbrella" ;;
    corpus)
      read -r theirs their_memory < <(corpus "$helm")
      read -r ours our_memory < <(corpus "$target/everflow" helm)
      row corpus "$theirs" "$their_memory" "$ours" "$our_memory"
      ;;
    library)
      for chart in trivial umbrella; do
        tar -C "$dir" -czf "$dir/$chart.tgz" "$chart"
        read -r theirs _ < <(measure 5 "$helm" template rel "$dir/$chart")
        once=$("$target/examples/bench_render" "$dir/$chart.tgz" 50)
        awk -v n="$chart" -v gs="$theirs" -v os="$once" \
          'BEGIN { printf "parsed %s: helm process %.4f s, our render %.6f s, %.0fx\n", n, gs, os, gs/os }'
      done
      ;;
    *) echo "unknown part '$part'" >&2; exit 2 ;;
  esac
done
