#!/usr/bin/env bash
# Writes crates/schema/data from a real kube-apiserver and the Go modules of the same release.
# Needs Go, curl and jq; starts the server itself. See README.md beside this file.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
peers=$here/peers.sh

work=$(mktemp -d)
cleanup() { "$peers" stop --dir "$work/server"; rm -rf "$work"; }
trap cleanup EXIT

"$peers" build etcd kube-apiserver >&2
kubeconfig=$("$peers" start --dir "$work/server")
server=$(sed -n 's/^ *server: //p' "$kubeconfig")
token=$(sed -n 's/^ *token: //p' "$kubeconfig")

# get PATH FILE [ACCEPT]
get() {
  mkdir -p "$(dirname "$work/documents/$2")"
  curl -fsSk -H "Authorization: Bearer $token" -H "Accept: ${3:-application/json}" -o "$work/documents/$2" "$server$1"
}
discovery='application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList'
table='application/json;as=Table;v=v1;g=meta.k8s.io'

get /version version.json
get /openapi/v2 openapi-v2.json
get /api discovery-api.json "$discovery"
get /apis discovery-apis.json "$discovery"
get /openapi/v3 openapi-v3-index.json
jq -r '.paths | to_entries[] | "\(.key) \(.value.serverRelativeURL)"' "$work/documents/openapi-v3-index.json" |
  while read -r name url; do get "$url" "openapi-v3/${name//\//__}.json"; done
jq -r '.items[] | .metadata.name as $group | .versions[] | .version as $version
  | (if $group then "apis/\($group)/\($version)" else "api/\($version)" end) as $path
  | [$path, (.resources[] | select(.verbs | index("list")) | .resource)] | join(" ")' \
  "$work/documents/discovery-api.json" "$work/documents/discovery-apis.json" |
  while read -r path plurals; do
    get "/$path" "resources/${path//\//__}.json"
    for plural in $plurals; do get "/$path/$plural?limit=1" "tables/${path//\//__}__$plural.json" "$table"; done
  done

version=$(jq -r .gitVersion "$work/documents/version.json")
mkdir -p "$work/modules"
for module in api apimachinery apiextensions-apiserver kube-aggregator; do
  ln -s "$(go mod download -json "k8s.io/$module@v0.${version#*.}" | jq -r .Dir)" "$work/modules/$module"
done

cd "$root"
cargo run -q -p everflow-schema --bin generate-schema -- "$work/documents" "$work/modules" crates/schema/data
ls -l crates/schema/data
if [ -n "${KEEP_DOCUMENTS:-}" ]; then cp -rL "$work/documents" "$work/modules" "$KEEP_DOCUMENTS/"; fi
