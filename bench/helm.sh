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
cargo build --quiet --profile dist -p everflow -p everflow-helm --bin everflow --example bench_render
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/dist
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

cat >"$dir/measure.py" <<'PY'
# Runs two programs in turns, so that whatever else the machine does meets both of them alike. Prints
# for each its processor seconds and the largest memory in MB. Python is started without its libraries:
# a process counts the memory of the one it was started from.
import os, sys

quiet = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)] + [
    (os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_WRONLY, 0) for number in (1, 2)]
seconds, memory = [0.0, 0.0], [0, 0]

def run(which, command):
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=quiet)
    usage = os.wait4(pid, 0)[2]
    seconds[which] += usage.ru_utime + usage.ru_stime
    memory[which] = max(memory[which], usage.ru_maxrss)

def both(theirs, ours, arguments, count=1):
    for _ in range(count):
        run(0, [theirs] + arguments)
        run(1, [ours, "helm"] + arguments)
    return count

def corpus(theirs, ours, root):
    import json
    flags = {"values": "--values", "set": "--set", "set_string": "--set-string", "set_json": "--set-json",
             "set_file": "--set-file", "set_literal": "--set-literal", "show_only": "--show-only",
             "api_versions": "--api-versions"}
    switches = ["is_upgrade", "include_crds", "skip_crds", "no_hooks", "skip_tests", "skip_schema_validation"]
    for name in sorted(os.listdir(root)):
        path = os.path.join(root, name, "case.json")
        if not os.path.exists(path):
            continue
        with open(path) as file:
            case = json.load(file)
        command = ["template", case["release"], case["chart"], "--namespace", case["namespace"]]
        for key, flag in flags.items():
            for value in case.get(key) or []:
                command += [flag, value]
        if case.get("kube_version"):
            command += ["--kube-version", case["kube_version"]]
        command += ["--" + key.replace("_", "-") for key in switches if case.get(key)]
        os.chdir(os.path.join(root, name))
        both(theirs, ours, command + (case.get("extra_args") or []))
    return 1

theirs, ours, what, where = sys.argv[1:5]
if what == "corpus":
    runs = corpus(theirs, ours, os.path.join(where, "helm/charts"))
else:
    runs = both(theirs, ours, ["template", "rel", where], int(what))
print(seconds[0] / runs, memory[0] / 1024, seconds[1] / runs, memory[1] / 1024)
PY

# compare NAME COUNT CHART, or NAME corpus DIRECTORY
compare() {
  local theirs their_memory ours our_memory
  read -r theirs their_memory ours our_memory \
    < <(python3 -I -S "$dir/measure.py" "$helm" "$target/everflow" "$2" "$3")
  awk -v n="$1" -v gs="$theirs" -v gm="$their_memory" -v os="$ours" -v om="$our_memory" \
    'BEGIN { printf "%-10s %11.4f %11.4f %8.1fx %9.0f %9.1f %8.1fx\n", n, gs, os, gs/os, gm, om, gm/om }'
  last_helm=$theirs
}

printf '%-10s %11s %11s %9s %9s %9s %9s\n' chart 'helm s' 'our s' faster 'helm MB' 'our MB' smaller
for part in $parts; do
  case $part in
    trivial) compare trivial 20 "$dir/trivial" ;;
    umbrella) compare umbrella 5 "$dir/umbrella" ;;
    corpus)
      recorded=${EVERFLOW_CORPUS:-$(ls -d ../shared/corpus ../../shared/corpus 2>/dev/null | head -1)}
      compare corpus corpus "$(cd "$recorded" && pwd)"
      ;;
    library)
      for chart in trivial umbrella; do
        tar -C "$dir" -czf "$dir/$chart.tgz" "$chart"
        compare "$chart" 5 "$dir/$chart"
        once=$("$target/examples/bench_render" "$dir/$chart.tgz" 50)
        awk -v n="$chart" -v gs="$last_helm" -v os="$once" \
          'BEGIN { printf "parsed %s: helm process %.4f s, our render %.6f s, %.0fx\n", n, gs, os, gs/os }'
      done
      ;;
    *) echo "unknown part '$part'" >&2; exit 2 ;;
  esac
done
