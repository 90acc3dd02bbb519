#!/usr/bin/env bash
# Index the example notes in a throw-away home and search them: by words, and by meaning where the
# question shares no word with the answer.
set -euo pipefail
memwell=$1
notes=$(dirname "$0")/notes
MEMWELL_HOME=$(mktemp -d)
export MEMWELL_HOME MEMWELL_NOW=2026-02-10
trap 'rm -rf "$MEMWELL_HOME"' EXIT

"$memwell" index "$notes"
for query in "what is the name of the cat" "what to do when a task seems impossible" "会议" "ERR_NGX_502"; do
    printf '\n> memwell search "%s" -k 2\n' "$query"
    "$memwell" search "$query" -k 2 --workspace "$notes"
done
