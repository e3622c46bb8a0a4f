#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is installed is enough to build against: install.sh <build dir> <source dir>
set -u
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0
try() { # title, command...
    n=$((n + 1))
    title=$1
    shift
    if "$@" >"$dir/out" 2>&1; then
        echo "ok $n - $title"
    else
        echo "not ok $n - $title"
        sed 's/^/# /' "$dir/out"
    fi
}
try "it installs below DESTDIR" env DESTDIR="$dir" meson install -C "$1" --no-rebuild --quiet
pc=$(find "$dir" -name sluice.pc)
inc=$(dirname "$(find "$dir" -name sluice.h)")
lib=$(dirname "$(find "$dir" -name libsluice.so)")
try "pkg-config knows it" env PKG_CONFIG_PATH="$(dirname "$pc")" pkg-config --exists sluice
try "a C99 program links with the shared library" \
    cc -std=c99 -pedantic -Wall -Wextra -Werror -I"$inc" "$2/examples/send.c" -L"$lib" -lsluice -o "$dir/shared"
try "and runs" env LD_LIBRARY_PATH="$lib" "$dir/shared" "$dir/store" tasks hello
try "one links with the archive" \
    cc -std=c99 -I"$inc" "$2/examples/send.c" "$lib/libsluice.a" \
    -lxxhash -lcurl -lssl -lcrypto -lexpat -lhiredis -ljansson -lpthread -o "$dir/static"
try "and runs too" "$dir/static" "$dir/store" tasks hello
only_ours() { ! nm -D --defined-only "$lib/libsluice.so" | awk '$2 ~ /[A-Z]/ {print $3}' | grep -v '^sluice_'; }
try "the shared library shows sluice_ names only" only_ours
prefix=${lib%/lib*}
unit_runs_it() {
    grep -Fqx "ExecStart=${prefix#"$dir"}/bin/sluice serve --config /etc/sluice/sluice.conf" \
        "$prefix/lib/systemd/system/sluice.service"
}
try "the unit starts the command that was installed beside it" unit_runs_it
unit_waits_for_time() {
    grep -q "^After=.* time-sync.target" "$prefix/lib/systemd/system/sluice.service" &&
        grep -q "^Wants=.* time-sync.target" "$prefix/lib/systemd/system/sluice.service"
}
try "the unit is ordered after time synchronisation" unit_waits_for_time
try "settings to begin with lie beside the documentation" test -s "$prefix/share/doc/sluice/sluice.conf"
echo "1..$n"
