#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Helm chart and packaging/kubernetes: chart.sh FOLDER SOURCE [--write]
# Fetches what package-lock.json names into FOLDER once. What is missing is a SKIP, or a failure where CI=true.
set -u
folder=$1 source=$2
here=$source/tests/package/helm
give_up() {
    if [ "${CI:-}" = true ] || [ $# -gt 1 ]; then echo "chart: $1 (tools/deps.sh clients)" >&2 && exit 1; fi
    echo "1..0 # SKIP $1"
    exit 0
}
for program in go node npm; do
    command -v "$program" >/dev/null || give_up "$program is not installed" ${3:+write}
done
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
if ! cmp -s "$here/package-lock.json" "$folder/package-lock.json.done"; then
    cp "$here/package.json" "$here/package-lock.json" "$folder/"
    timeout 120 npm ci --silent --ignore-scripts --no-audit --no-fund --prefix "$folder" >"$folder/npm.log" 2>&1 ||
        give_up "npm cannot fetch the schemas of Kubernetes" ${3:+write}
    cp "$here/package-lock.json" "$folder/package-lock.json.done"
fi
GO111MODULE=off GOFLAGS= go build -o "$folder/render" "$here/render.go" || exit 1
exec node "$here/test_chart.mjs" "$folder" "$folder/render" "$source" ${3:+"$3"}
