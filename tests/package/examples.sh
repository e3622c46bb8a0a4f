#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The examples do what they say: examples.sh <send> <worker>
set -u
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0
check() { # title, expected, got
    n=$((n + 1))
    if [ "$2" = "$3" ]; then
        echo "ok $n - $1"
    else
        echo "not ok $n - $1"
        printf '# expected: %s\n# got: %s\n' "$2" "$3"
    fi
}
first=$("$1" "$dir/store" tasks "good one")
second=$("$1" "$dir/store" tasks "bad one")
check "each message gets its own id" "2" "$(printf '%s\n%s\n' "$first" "$second" | sort -u | wc -l)"
check "the worker gets both in order" "$first attempt 1: good one
$second attempt 1: bad one" "$("$2" "$dir/store" tasks)"
"$1" "$dir/nowhere/store" tasks x 2>"$dir/err"
check "a store that cannot be made is refused with a sentence" "1" "$(grep -c . "$dir/err")"
echo "1..$n"
