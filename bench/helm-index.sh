#!/usr/bin/env bash
# What a large index of a chart repository costs: time of each step and peak memory of a process that
# fetches it from a server of its own, loads it, writes it as it is stored and chooses a version.
#
#   bench/helm-index.sh [MEGABYTES]
#
# The index is generated: charts with many versions, maintainers, annotations and dependencies.
set -euo pipefail
cd "$(dirname "$0")/.."
megabytes=${1:-44}
cargo build --quiet --profile dist -p everflow-fetch --example helm_index
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/dist
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 - "$megabytes" "$dir" <<'PY'
import hashlib, json, sys
size, root = int(sys.argv[1]) << 20, sys.argv[2]
yaml, js, written, chart = open(root + "/index.yaml", "w"), open(root + "/index.json", "w"), 0, 0
yaml.write("apiVersion: v1\nentries:\n")
js.write('{"apiVersion":"v1","entries":{')
while written < size:
    name = f"chart-{chart:04}"
    lines, versions = [f"  {name}:\n"], []
    for n in range(150):
        version, digest = f"{n // 50}.{n // 5 % 10}.{n % 5}", hashlib.sha256(f"{name}{n}".encode()).hexdigest()
        changes = f"- kind: changed\n  description: Release {version} & more <b>things</b>\n"
        lines.append(f"""  - annotations:
      artifacthub.io/changes: |
        - kind: changed
          description: Release {version} & more <b>things</b>
      category: Infrastructure
    apiVersion: v2
    appVersion: "{version}"
    created: "2026-01-{n % 28 + 1:02}T10:00:00.{n:06}Z"
    dependencies:
    - condition: common.enabled
      name: common
      repository: https://charts.example.com
      tags:
      - common
      version: 1.x.x
    description: The chart {name} of a generated repository, number {n}.
    digest: {digest}
    home: https://example.com/{name}
    icon: https://example.com/{name}.svg
    keywords: [{name}, generated]
    maintainers:
    - email: team@example.com
      name: A Team
    name: {name}
    sources:
    - https://example.com/{name}/source
    urls:
    - https://charts.example.com/{name}-{version}.tgz
    version: {version}
""")
        versions.append({"annotations": {"artifacthub.io/changes": changes, "category": "Infrastructure"},
            "apiVersion": "v2", "appVersion": version, "created": f"2026-01-{n % 28 + 1:02}T10:00:00.{n:06}Z",
            "dependencies": [{"condition": "common.enabled", "name": "common", "repository": "https://charts.example.com",
                "tags": ["common"], "version": "1.x.x"}],
            "description": f"The chart {name} of a generated repository, number {n}.", "digest": digest,
            "home": f"https://example.com/{name}", "icon": f"https://example.com/{name}.svg",
            "keywords": [name, "generated"], "maintainers": [{"email": "team@example.com", "name": "A Team"}],
            "name": name, "sources": [f"https://example.com/{name}/source"],
            "urls": [f"https://charts.example.com/{name}-{version}.tgz"], "version": version})
    text = "".join(lines)
    yaml.write(text)
    js.write(("," if chart else "") + json.dumps(name) + ":" + json.dumps(versions))
    written += len(text)
    chart += 1
yaml.write('generated: "2026-01-01T00:00:00Z"\n')
js.write('},"generated":"2026-01-01T00:00:00Z"}')
PY
for index in index.yaml index.json; do
  echo "$index, $(stat -c %s "$dir/$index") bytes"
  "$target/examples/helm_index" "$dir/$index" chart-0100 '1.x' | sed 's/^/  /'
done
