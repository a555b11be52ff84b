#!/usr/bin/env bash
# Runs the tests that compare with the real peers: integration tests whose name starts with `real`
# or `differential`. See README.md beside this file.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/peers.sh" build
cd "$here/.."
EVERFLOW_REAL=1 cargo test --workspace --test 'real*' --test 'differential*' "$@"
