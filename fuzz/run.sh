#!/usr/bin/env bash
# Guided fuzzing of the readers of foreign bytes, with libFuzzer on the stable toolchain (a C++ compiler is needed).
#
#   fuzz/run.sh                    a minute for each reader
#   SECONDS_EACH=600 fuzz/run.sh   longer
#   fuzz/run.sh yaml cel           the readers of some crates only, which builds less
#   fuzz/run.sh git/pack         one reader
#
# Inputs that a reader fails on are left in fuzz/artifacts/CRATE/READER; one that is mended goes to
# crates/CRATE/tests/hostile_input/found/READER, where `cargo test` feeds it again.
set -euo pipefail
cd "$(dirname "$0")"

seconds=${SECONDS_EACH:-60}
features=all
if [ $# -gt 0 ]; then
  features=$(printf '%s\n' "$@" | cut -d/ -f1 | sort -u | paste -sd,)
fi
host=$(rustc -vV | sed -n 's/^host: //p')

# The versions that the workspace is built with.
[ -f Cargo.lock ] || cp ../Cargo.lock Cargo.lock
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares" \
  cargo build --release --target "$host" --target-dir "${FUZZ_TARGET_DIR:-target}" \
  --no-default-features --features "$features"
program=${FUZZ_TARGET_DIR:-target}/$host/release/everflow-fuzz

failed=0
for reader in $(EVERFLOW_FUZZ_SEEDS=corpus "$program"); do
  if [ $# -gt 0 ] && ! printf '%s\n' "$@" | grep -qxF -e "$reader" -e "${reader%%/*}"; then
    continue
  fi
  mkdir -p "artifacts/$reader"
  echo "==> $reader"
  # A reader without words of its own has an empty list of them, which libFuzzer refuses.
  words=()
  if [ -s "corpus/$reader.dict" ]; then words=("-dict=corpus/$reader.dict"); fi
  EVERFLOW_FUZZ=$reader "$program" "corpus/$reader" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
    -max_len=20000 "${words[@]}" -artifact_prefix="artifacts/$reader/" -print_final_stats=1 \
    >"artifacts/$reader.log" 2>&1 || { echo "    failed: see fuzz/artifacts/$reader.log"; failed=1; }
  grep -hE "^(stat::number_of_executed_units|stat::peak_rss_mb)" "artifacts/$reader.log" | sed 's/^/    /' || true
done
exit $failed
