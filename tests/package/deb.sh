#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages, made from a build that is there: deb.sh BUILD SOURCE. make package-test installs real ones.
set -u
build=$1 source=$2
for program in dh lintian po2debconf; do
    if ! command -v "$program" >/dev/null; then
        [ "${CI:-}" = true ] && echo "Bail out! $program is not installed; tools/deps.sh deb" && exit 1
        echo "1..0 # SKIP $program is not installed; tools/deps.sh deb"
        exit 0
    fi
done
dir=$(mktemp -d)
node=
cleanup() {
    [ -z "$node" ] || kill "$node" 2>/dev/null
    rm -rf "$dir"
}
trap cleanup EXIT
n=0
try() { # title, command...
    n=$((n + 1))
    title=$1
    shift
    if "$@" >"$dir/out" 2>&1; then
        echo "ok $n - $title"
    else
        echo "not ok $n - $title"
        tail -n 40 "$dir/out" | sed 's/^/# /'
    fi
}

make_packages() {
    "$source/tests/package/stage" "$build" "$dir/staged" && "$source/packaging/make-deb" "$dir/debs" "$dir/staged"
}
try "the packages are made" make_packages

file() { echo "$dir"/debs/"$1"_*.deb; }
unpack() {
    for package in sluice libsluice0 libsluice-dev sluice-doc; do
        dpkg-deb -x "$(file $package)" "$dir/$package" || return 1
    done
    dpkg-deb -e "$(file sluice)" "$dir/control"
}
try "they unpack" unpack

# Each line is a path in a package. An end with / is a folder that is not empty.
has_files() {
    local package path missing=0
    while read -r package path; do
        [[ $path == \#* ]] && continue
        if [[ $path == */ ]]; then
            [ -n "$(ls -A "$dir/$package$path" 2>/dev/null)" ] || { echo "$package has no $path"; missing=1; }
        else
            compgen -G "$dir/$package$path" >/dev/null || { echo "$package has no $path"; missing=1; }
        fi
    done <<'LIST'
sluice /usr/bin/sluice
sluice /etc/sluice/sluice.conf
sluice /lib/systemd/system/sluice.service
sluice /usr/share/bash-completion/completions/sluice
sluice /usr/share/fish/vendor_completions.d/sluice.fish
sluice /usr/share/zsh/vendor-completions/_sluice
sluice /usr/share/man/man1/sluice.1.gz
sluice /usr/share/man/man1/sluice-serve.1.gz
sluice /usr/share/sluice/grafana/sluice.json
sluice /usr/share/sluice/prometheus/sluice-alerts.yml
sluice /usr/share/sluice/schemas/v1/
libsluice0 /usr/lib/*/libsluice.so.0
libsluice-dev /usr/include/sluice.h
libsluice-dev /usr/lib/*/libsluice.a
libsluice-dev /usr/lib/*/libsluice.so
libsluice-dev /usr/lib/*/pkgconfig/sluice.pc
sluice-doc /usr/share/doc/sluice/docs/production.md
sluice-doc /usr/share/doc/sluice/api/openapi.json
sluice-doc /usr/share/doc/sluice/examples/
LIST
    return $missing
}
try "each has its files" has_files
no_others() {
    [ -z "$(find "$dir/sluice" -type f | sed "s|^$dir/sluice||" | grep -Ev '^/(usr/(bin|share)|etc/sluice|lib/systemd/system)/')" ]
}
try "sluice has no files in other folders" no_others
try "the settings are a conffile" grep -qx /etc/sluice/sluice.conf "$dir/control/conffiles"

# Only programs of this version may need a function of this version.
symbols() {
    diff <(awk '/^ sluice_/ {sub(/@.*/, "", $1); print $1}' "$source/packaging/debian/libsluice0.symbols" | sort) \
        <(nm -D --defined-only "$dir"/libsluice0/usr/lib/*/libsluice.so.0 | awk '{print $3}' | sort)
}
try "packaging/debian/libsluice0.symbols lists the functions of the library" symbols

export SLUICE_STORE=$dir/store
sluice=$dir/sluice/usr/bin/sluice
first_message() {
    "$sluice" queue create mail && "$sluice" send mail hello &&
        [ "$("$sluice" work mail --drain -- cat)" = hello ]
}
try "the command of the package sends and works" first_message

settings() {
    sed "s|^listen = .*|listen = 127.0.0.1:0|; s|^store = .*|store = $dir/store|" \
        "$dir/sluice/etc/sluice/sluice.conf" >"$dir/sluice.conf" &&
        "$sluice" serve --config "$dir/sluice.conf" --check
}
try "its settings are valid" settings
serves() {
    env -u SLUICE_STORE "$sluice" serve --config "$dir/sluice.conf" >"$dir/said" 2>"$dir/log" &
    node=$!
    for ((i = 0; i < 300; i++)); do [ -s "$dir/said" ] && break; sleep 0.1; done
    url=$(sed 's/.* at //' "$dir/said")
    [ "$(curl -sf -o "$dir/ready" -w '%{http_code}' "$url/readyz")" = 200 ] && kill "$node" && wait "$node"
}
try "a node with these settings serves and stops" serves
node=

unit=$dir/sluice/lib/systemd/system/sluice.service
unit_user() { grep -qx User=sluice "$unit" && ! grep -q DynamicUser "$unit"; }
try "the unit runs as the user of the package" unit_user
if command -v systemd-analyze >/dev/null; then
    # The program of the unit must exist below the root that is analysed.
    exposure() {
        systemd-analyze security --offline=yes --threshold=20 --no-pager --root="$dir/sluice" sluice.service | tail -n 3
        return "${PIPESTATUS[0]}"
    }
    try "systemd-analyze security is under 2.0" exposure
fi

completes_in_fish() {
    HOME=$dir PATH=$dir/sluice/usr/bin:$PATH fish --no-config -c \
        "source $dir/sluice/usr/share/fish/vendor_completions.d/sluice.fish; complete -C 'sluice rec'" | grep -q ^receive
}
if command -v fish >/dev/null; then try "fish completes a command" completes_in_fish; fi

# --profile: the distribution of the packages, also on a machine of another one. The objects come from a build for tests,
# without the flags of Debian: make deb has the whole check.
lintian_is_clean() {
    lintian --profile debian --allow-root --fail-on error,warning --suppress-tags hardening-no-fortify-functions \
        "$dir"/debs/*.changes
}
try "lintian has no error and no warning" lintian_is_clean
echo "1..$n"
