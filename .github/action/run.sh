#!/usr/bin/env bash
# Brings the repository up, compares it with the base of the pull request, and writes both into one summary.
#
# Works with the runners of GitHub and Gitea: what differs between them is in the variables that they set.
set -euo pipefail

MARK='<!-- everflow -->'
MOST=60000

work=${RUNNER_TEMP:-/tmp}/everflow-summary
mkdir -p "$work"
summary=$work/summary.md
details=$work/details.md
path=${REPOSITORY_PATH:-.}
read -r -a flags <<<"${FLAGS:-}"
[ "${OFFLINE:-true}" != true ] || flags+=(--offline)

fail() {
  echo "::error::$*" >&2
  exit 1
}

# The revision to compare with.
against=${AGAINST:-}
if [ -z "$against" ]; then
  against=HEAD~1
  [ -z "${GITHUB_BASE_REF:-}" ] || against=origin/$GITHUB_BASE_REF
fi
git -C "$path" rev-parse --quiet --verify "$against^{commit}" >/dev/null ||
  fail "$against is not in this clone: check out with fetch-depth: 0, or name another revision with 'against'"

ready=true
changed=false
: >"$details"
printf '%s\n| Begins with | Comes up | Changes |\n|---|---|---|\n' "$MARK" >"$summary"

# One place to begin: does it come up, and what changes?
look() {
  local entry=$1 name=${1:-$path} number=$2
  local begin=() changes=no
  [ -z "$entry" ] || begin=(--entry "$entry")
  local said=$work/test-$number.txt lines=$work/diff-$number.md

  if ! "$EVERFLOW" test "$path" ${begin[@]+"${begin[@]}"} ${flags[@]+"${flags[@]}"} >"$said" 2>&1; then
    cat "$said"
    ready=false
    # What was not deployed would look as if it were deleted: only what comes up is compared.
    printf '| `%s` | no | not compared |\n' "$name" >>"$summary"
    {
      printf '<details open><summary><code>%s</code> does not come up</summary>\n\n````text\n' "$name"
      tail -c 20000 "$said"
      printf '\n````\n\n</details>\n\n'
    } >>"$details"
    return
  fi
  cat "$said"

  # Differences end with 1, as failures do; the summary is written only where the comparison was made.
  rm -f "$lines"
  "$EVERFLOW" diff "$path" ${begin[@]+"${begin[@]}"} ${flags[@]+"${flags[@]}"} \
    --against "$against" --summary "$lines" || true
  if [ ! -f "$lines" ]; then
    changes='not compared'
    ready=false
  elif ! grep -q '^### Everflow: nothing changes' "$lines"; then
    changes=yes
    changed=true
    cat "$lines" >>"$details"
    echo >>"$details"
  fi
  printf '| `%s` | yes | %s |\n' "$name" "$changes" >>"$summary"
}

number=0
while read -r entry; do
  [ -n "$entry" ] || continue
  number=$((number + 1))
  look "$entry" "$number"
done <<<"${ENTRIES:-}"
[ "$number" -gt 0 ] || look '' 0

echo >>"$summary"
if [ "$(wc -c <"$details")" -gt "$MOST" ]; then
  # Cut at the end of a section, so that none stays open.
  head -c "$MOST" "$details" | awk '{ held = held $0 "\n" } /^<\/details>/ { printf "%s", held; held = "" }' >>"$summary"
  printf '\nMore is left out, for a comment has an end: run `everflow diff` to see it.\n' >>"$summary"
else
  cat "$details" >>"$summary"
fi
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$summary" >>"$GITHUB_STEP_SUMMARY"
{
  echo "ready=$ready"
  echo "changed=$changed"
  echo "summary=$summary"
} >>"$GITHUB_OUTPUT"

# One comment, which the next push replaces.
ask() {
  local method=$1 url=$2
  shift 2
  curl --fail --silent --show-error --retry 2 --max-time 60 --request "$method" \
    --header "Authorization: token $TOKEN" --header 'Content-Type: application/json' "$@" "$url"
}

comment() {
  local pull=$1 repository=$GITHUB_API_URL/repos/$GITHUB_REPOSITORY
  local body=$work/comment.json known
  jq --raw-input --slurp '{body: .}' "$summary" >"$body"
  known=$(ask GET "$repository/issues/$pull/comments?per_page=100&limit=100" |
    jq --arg mark "$MARK" '[.[] | select(.body | startswith($mark)) | .id] | first // empty')
  if [ -n "$known" ]; then
    ask PATCH "$repository/issues/comments/$known" --data-binary "@$body" >/dev/null
  else
    ask POST "$repository/issues/$pull/comments" --data-binary "@$body" >/dev/null
  fi
}

pull=
[ ! -f "${GITHUB_EVENT_PATH:-}" ] || pull=$(jq '.pull_request.number // empty' "$GITHUB_EVENT_PATH")
if [ "${COMMENT:-true}" = true ] && [ -n "$pull" ]; then
  # A pull request from a fork has a token that may not write: that is no reason to fail.
  comment "$pull" || echo "::warning::cannot comment; the job needs the permission pull-requests: write" >&2
fi

[ "$ready" = true ] || fail "not everything comes up; the summary says what"
