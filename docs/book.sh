#!/usr/bin/env bash
# Makes the book below target/book with mdBook, or with --stage only the directory that mdBook reads.
#
# Pages of the book refer to files beside docs/ (README.md, bench/RESULTS.md). So that these links lead somewhere in
# the book as they do in the repository, all Markdown files are laid out as they are here.
set -euo pipefail
cd "$(dirname "$0")/.."

stage=target/book
rm -rf "$stage"
mkdir -p "$stage/src"
cp docs/book.toml "$stage/book.toml"

find README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SHORTCOMINGS.md bench docs examples real \
  -name '*.md' -not -name SUMMARY.md | while read -r page; do
  mkdir -p "$stage/src/$(dirname "$page")"
  cp "$page" "$stage/src/$page"
done
cp LICENSE "$stage/src/LICENSE"

# The summary names pages as seen from docs/; mdBook wants it above all of them.
sed -E 's#\]\(\.\./#](#; t; s#\]\(#](docs/#' docs/SUMMARY.md >"$stage/src/SUMMARY.md"

[ "${1:-}" = --stage ] || mdbook build "$stage"
