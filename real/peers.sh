#!/usr/bin/env bash
# Builds the real peers (etcd, Kubernetes, kustomize, helm, sops, Flux and others) from the Go module proxy into
# a cache outside the tree, and starts a real Kubernetes API on loopback. See README.md beside this file.
set -euo pipefail

cache=${EVERFLOW_PEERS:-$HOME/.cache/everflow/peers}
kubernetes_version=1.36.1
etcd_version=3.6.8
flux_peers=(source-controller kustomize-controller helm-controller notification-controller)
all_peers=(kustomize helm helm3 sops crane versitygw sshd gitea etcd kube-apiserver kube-controller-manager kube-scheduler "${flux_peers[@]}")

usage() {
  cat <<'TEXT'
usage: peers.sh COMMAND

  build [NAME...]   build the named peers (default: all) unless the cache has them
  path NAME         print where the peer's binary is; fails when it is not built
  list              print every peer, its version and whether it is built
  start [--dir D] [--controller-manager] [--scheduler]
                    start etcd and kube-apiserver on free loopback ports, wait until they are
                    ready and print the path of a kubeconfig (D/kubeconfig)
  stop --dir D      stop what start left running in D

peers: kustomize helm helm3 sops crane versitygw sshd gitea etcd kube-apiserver kube-controller-manager kube-scheduler
       source-controller kustomize-controller helm-controller notification-controller
The cache is $EVERFLOW_PEERS, or ~/.cache/everflow/peers.
TEXT
}

fail() { echo "peers.sh: $*" >&2; exit 1; }

version_of() {
  case $1 in
    kustomize) echo 5.8.1 ;;
    helm) echo 4.3.1 ;;
    helm3) echo 3.21.4 ;;
    sops) echo 3.13.3 ;;
    crane) echo 0.21.6 ;;
    versitygw) echo 1.8.0 ;;
    sshd) echo debian ;;
    gitea) echo 1.26.4 ;;
    etcd) echo "$etcd_version" ;;
    kube-apiserver | kube-controller-manager | kube-scheduler) echo "$kubernetes_version" ;;
    source-controller) echo 1.9.6 ;;
    kustomize-controller) echo 1.9.5 ;;
    helm-controller) echo 1.6.4 ;;
    notification-controller) echo 1.9.3 ;;
    *) fail "unknown peer '$1' (known: ${all_peers[*]})" ;;
  esac
}

binary_of() { echo "$cache/$1-$(version_of "$1")/$1"; }

# ---- building -------------------------------------------------------------------------------

# go_build OUTPUT LDFLAGS PACKAGE, in the current directory's module
go_build() {
  CGO_ENABLED=0 go build -mod=mod -trimpath -ldflags "-s -w $2" -o "$1" "$3"
}

# Starts a module of our own in the current directory which requires MODULE at VERSION.
own_module() {
  printf 'module everflow.local/peer\n\ngo %s\n\nrequire %s %s\n' "$(go_directive "$1" "$2")" "$1" "$2" >go.mod
}

mod_file() { go mod download -json "$1@$2" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p'; }
go_directive() { sed -n 's/^go \([0-9.]*\)$/\1/p' "$(mod_file "$1" "$2")"; }

build_kustomize() {
  local v; v=$(version_of kustomize)
  own_module sigs.k8s.io/kustomize/kustomize/v5 "v$v"
  go_build "$1" "-X sigs.k8s.io/kustomize/api/provenance.version=kustomize/v$v" sigs.k8s.io/kustomize/kustomize/v5
}

# The Kubernetes version that a helm release reports without a cluster is that of its client-go.
client_go_minor() { sed -n 's/^\tk8s.io\/client-go v0\.\([0-9]*\)\..*/\1/p' "$(mod_file "$1" "$2")"; }

build_helm() {
  local v; v=$(version_of helm)
  own_module helm.sh/helm/v4 "v$v"
  go_build "$1" "-X helm.sh/helm/v4/internal/version.version=v$v -X helm.sh/helm/v4/internal/version.metadata=" helm.sh/helm/v4/cmd/helm
}

build_helm3() {
  local v minor flags package
  v=$(version_of helm3)
  own_module helm.sh/helm/v3 "v$v"
  minor=$(client_go_minor helm.sh/helm/v3 "v$v")
  flags="-X helm.sh/helm/v3/internal/version.version=v$v -X helm.sh/helm/v3/internal/version.metadata="
  for package in pkg/lint/rules pkg/chartutil; do
    flags+=" -X helm.sh/helm/v3/$package.k8sVersionMajor=1 -X helm.sh/helm/v3/$package.k8sVersionMinor=$minor"
  done
  go_build "$1" "$flags" helm.sh/helm/v3/cmd/helm
}

build_sops() {
  own_module github.com/getsops/sops/v3 "v$(version_of sops)"
  go_build "$1" "" github.com/getsops/sops/v3/cmd/sops
}

# A client of OCI registries with a registry in it.
build_crane() {
  own_module github.com/google/go-containerregistry "v$(version_of crane)"
  go_build "$1" "" github.com/google/go-containerregistry/cmd/crane
}

# A gateway that serves directories as S3 buckets.
build_versitygw() {
  own_module github.com/versity/versitygw "v$(version_of versitygw)"
  go_build "$1" "" github.com/versity/versitygw/cmd/versitygw
}

# OpenSSH's server out of Debian's packages, which are unpacked into the cache and not installed. Started by
# root it wants a user of its own: it gets one in a mount namespace that ends with it.
build_sshd() {
  command -v apt-get >/dev/null || fail "sshd is taken from Debian's packages, and there is no apt-get here"
  apt-get download -q openssh-server libwrap0 >&2
  local root package
  root=$(dirname "$(binary_of sshd)")/root
  for package in *.deb; do dpkg -x "$package" "$root"; done
  cat >"$1" <<'SH'
#!/bin/sh
root=$(cd "$(dirname "$0")" && pwd)/root
LD_LIBRARY_PATH=$(echo "$root"/lib/*-linux-gnu):$(echo "$root"/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH
if [ "$(id -u)" = 0 ] && ! getent passwd sshd >/dev/null; then
  exec unshare -m sh -ec '
    sshd=$1; shift
    users=$(mktemp)
    { cat /etc/passwd; echo "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin"; } >"$users"
    chmod 644 "$users"
    mount --bind "$users" /etc/passwd
    rm "$users"
    mount -t tmpfs tmpfs /run
    mkdir -m 755 /run/sshd
    exec "$sshd" "$@"' sh "$root/usr/sbin/sshd" "$@"
fi
exec "$root/usr/sbin/sshd" "$@"
SH
  chmod +x "$1"
}

# Gitea, in the directory of its own module, whose replacements count. Beside the binary lies what it does not start
# without. It wants gcc, for its SQLite.
build_gitea() {
  local v source beside
  v=$(version_of gitea)
  beside=$(dirname "$(binary_of gitea)")
  source=$(go mod download -json "code.gitea.io/gitea@v$v" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  [ -n "$source" ] || fail "the module proxy has no Gitea $v"
  mkdir -p "$beside/static"
  cp -R --no-preserve=mode "$source/templates" "$source/options" "$beside/static/"
  cd "$source"
  GOEXPERIMENT=jsonv2 CGO_ENABLED=1 CGO_CFLAGS="-O2 -g -DSQLITE_MAX_VARIABLE_NUMBER=32766" \
    go build -mod=readonly -buildvcs=false -trimpath -tags sqlite,sqlite_unlock_notify \
    -ldflags "-s -w -X main.Version=$v" -o "$1" .
}

build_etcd() {
  own_module go.etcd.io/etcd/server/v3 "v$etcd_version"
  cat >main.go <<'GO'
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
GO
  go_build "$1" "" .
}

# The published go.mod replaces the staging modules by directories that the module does not
# contain; the same modules are published on their own with the version 0.MINOR.PATCH.
build_kubernetes_command() {
  local output=$1 command=$2 v=$kubernetes_version flags major minor
  IFS=. read -r major minor _ <<<"$v"
  own_module k8s.io/kubernetes "v$v"
  sed -n 's/^\t\{0,1\}\(k8s.io\/[a-z0-9-]*\) => \.\/staging.*/\1/p' "$(mod_file k8s.io/kubernetes "v$v")" |
    while read -r module; do
      printf 'replace %s => %s v0.%s\n' "$module" "$module" "${v#*.}"
    done >>go.mod
  flags="-X k8s.io/component-base/version.gitVersion=v$v"
  flags+=" -X k8s.io/component-base/version.gitMajor=$major -X k8s.io/component-base/version.gitMinor=$minor"
  go_build "$output" "$flags" "k8s.io/kubernetes/cmd/$command"
}

# Flux's controllers, of the 2.9 line. Their go.mod replaces their API by a directory that the module
# does not contain; their other replacements are repeated, since they count in the main module only.
# Where the proxy lacks a module at the version they name, the one before it is taken.
build_flux_controller() {
  local output=$1 name=$2 v
  v=$(version_of "$name")
  own_module "github.com/fluxcd/$name" "v$v"
  grep ' => ' "$(mod_file "github.com/fluxcd/$name" "v$v")" | grep -v ' => \./' |
    sed 's/^replace //; s/^[[:space:]]*/replace /' >>go.mod
  instead_of_missing pkg/apis/event v0.27.1
  if [ "$name" = source-controller ]; then
    instead_of_missing source-controller/api v1.9.5 pkg/artifact v0.18.1
  fi
  go_build "$output" "" "github.com/fluxcd/$name"
}

instead_of_missing() {
  while [ $# -gt 0 ]; do
    printf 'replace github.com/fluxcd/%s => github.com/fluxcd/%s %s\n' "$1" "$1" "$2" >>go.mod
    shift 2
  done
}

build_one() {
  local name=$1 binary work
  binary=$(binary_of "$name")
  if [ -x "$binary" ]; then
    echo "$name $(version_of "$name"): in the cache"
    return
  fi
  [ "$name" = sshd ] || command -v go >/dev/null || fail "building $name needs Go on PATH"
  mkdir -p "$(dirname "$binary")"
  (
    # One build of a peer at a time: a second caller waits and then finds the binary.
    exec 8>"$(dirname "$binary").lock"
    flock 8
    [ -x "$binary" ] && exit 0
    echo "$name $(version_of "$name"): building" >&2
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    case $name in
      kube-*) build_kubernetes_command "$work/out" "$name" ;;
      *-controller) build_flux_controller "$work/out" "$name" ;;
      *) "build_$name" "$work/out" ;;
    esac
    mv "$work/out" "$binary.part"
    mv "$binary.part" "$binary"
  )
  echo "$name $(version_of "$name"): built"
}

cmd_build() {
  local names=("$@") name
  [ ${#names[@]} -gt 0 ] || names=("${all_peers[@]}")
  for name in "${names[@]}"; do version_of "$name" >/dev/null; done
  for name in "${names[@]}"; do build_one "$name"; done
}

cmd_path() {
  [ $# -eq 1 ] || fail "path takes the name of one peer"
  local binary
  version_of "$1" >/dev/null
  binary=$(binary_of "$1")
  [ -x "$binary" ] || fail "$1 $(version_of "$1") is not built; run: real/peers.sh build $1"
  echo "$binary"
}

cmd_list() {
  local name state
  for name in "${all_peers[@]}"; do
    state="not built"
    [ -x "$(binary_of "$name")" ] && state=$(binary_of "$name")
    printf '%-24s %-8s %s\n' "$name" "$(version_of "$name")" "$state"
  done
}

# ---- running --------------------------------------------------------------------------------

free_port() {
  local port
  for _ in $(seq 200); do
    port=$((20000 + RANDOM % 12000))
    (exec 7<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
  fail "found no free loopback port"
}

# launch DIR NAME ARGUMENTS...: runs a peer in the background, log and pid in DIR
launch() {
  local dir=$1 name=$2 binary
  shift 2
  binary=$(cmd_path "$name")
  nohup "$binary" "$@" </dev/null >"$dir/$name.log" 2>&1 8>&- 9>&- &
  echo $! >"$dir/$name.pid"
}

# wait_for DIR NAME URL: until the URL answers 200 or the process is gone
wait_for() {
  local dir=$1 name=$2 url=$3 pid
  pid=$(cat "$dir/$name.pid")
  for _ in $(seq 600); do
    curl -fsk -o /dev/null --max-time 5 -H "Authorization: Bearer $token" "$url" 2>/dev/null && return
    if ! kill -0 "$pid" 2>/dev/null; then
      tail -n 20 "$dir/$name.log" >&2
      cmd_stop --dir "$dir"
      fail "$name ended; its log is $dir/$name.log"
    fi
    sleep 0.2
  done
  cmd_stop --dir "$dir"
  fail "$name was not ready in 2 minutes; its log is $dir/$name.log"
}

signing_key() {
  if command -v openssl >/dev/null; then
    openssl genrsa -out "$1" 2048 2>/dev/null
  else
    (cd "$(dirname "$1")" && go run "$(go env GOROOT)/src/crypto/tls/generate_cert.go" --host 127.0.0.1 2>/dev/null && mv key.pem "$1")
  fi
}

write_kubeconfig() {
  local dir=$1 port=$2
  cat >"$dir/kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters:
- name: real
  cluster:
    server: https://127.0.0.1:$port
    certificate-authority-data: $(base64 <"$dir/certs/apiserver.crt" | tr -d '\n')
users:
- name: admin
  user:
    token: $token
contexts:
- name: real
  context: {cluster: real, user: admin}
current-context: real
YAML
}

cmd_start() {
  local dir="" controllers=no scheduler=no client peer secure
  while [ $# -gt 0 ]; do
    case $1 in
      --dir) dir=${2:?--dir needs a directory}; shift 2 ;;
      --controller-manager) controllers=yes; shift ;;
      --scheduler) scheduler=yes; shift ;;
      *) fail "start does not know '$1'" ;;
    esac
  done
  [ -n "$dir" ] || dir=$(mktemp -d)
  mkdir -p "$dir"
  dir=$(cd "$dir" && pwd)
  [ ! -e "$dir/etcd.pid" ] || fail "$dir is in use; run: real/peers.sh stop --dir $dir"
  token=everflow-real-admin
  client=$(free_port); peer=$(free_port); secure=$(free_port)

  launch "$dir" etcd --data-dir "$dir/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
    --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
    --initial-cluster "default=http://127.0.0.1:$peer"
  wait_for "$dir" etcd "http://127.0.0.1:$client/health"

  signing_key "$dir/sa.key"
  echo "$token,admin,admin,\"system:masters\"" >"$dir/tokens.csv"
  launch "$dir" kube-apiserver --etcd-servers="http://127.0.0.1:$client" --bind-address=127.0.0.1 \
    --secure-port="$secure" --cert-dir="$dir/certs" --token-auth-file="$dir/tokens.csv" \
    --service-account-key-file="$dir/sa.key" --service-account-signing-key-file="$dir/sa.key" \
    --service-account-issuer=https://kubernetes.default.svc --authorization-mode=RBAC \
    --service-cluster-ip-range=10.96.0.0/16 --disable-admission-plugins=ServiceAccount
  wait_for "$dir" kube-apiserver "https://127.0.0.1:$secure/readyz"
  write_kubeconfig "$dir" "$secure"

  if [ "$controllers" = yes ]; then
    launch "$dir" kube-controller-manager --kubeconfig="$dir/kubeconfig" --leader-elect=false \
      --controllers=deployment-controller,replicaset-controller,namespace-controller \
      --secure-port=0 --kube-api-qps=2000 --kube-api-burst=4000
  fi
  if [ "$scheduler" = yes ]; then
    launch "$dir" kube-scheduler --kubeconfig="$dir/kubeconfig" --leader-elect=false --secure-port=0
  fi
  echo "$dir/kubeconfig"
}

cmd_stop() {
  [ "${1:-}" = --dir ] && [ -n "${2:-}" ] || fail "stop needs --dir D, the directory that start used"
  local dir=$2 name pid
  for name in kube-scheduler kube-controller-manager kube-apiserver etcd; do
    [ -e "$dir/$name.pid" ] || continue
    pid=$(cat "$dir/$name.pid")
    # Only a process that still is the peer: process ids are used again.
    if [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$(readlink -f "$(binary_of "$name")")" ]; then
      kill "$pid" 2>/dev/null || true
      for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
      kill -9 "$pid" 2>/dev/null || true
    fi
    rm -f "$dir/$name.pid"
  done
}

command=${1:-}
[ $# -eq 0 ] || shift
case $command in
  build) cmd_build "$@" ;;
  path) cmd_path "$@" ;;
  list) cmd_list ;;
  start) cmd_start "$@" ;;
  stop) cmd_stop "$@" ;;
  -h | --help | help) usage ;;
  *) usage >&2; exit 2 ;;
esac
