#!/usr/bin/env bash
# Installs missing Debian packages. Prints nothing if none is missing. This is the only list of them.
#   tools/deps.sh [group...]     (default: build)
set -euo pipefail

declare -A packages=(
    # what make run needs: a compiler; the build system; hash, JSON, HTTP, digest, XML, Redis and NATS libraries
    [build]="gcc libc6-dev make meson ninja-build pkg-config libxxhash-dev libjansson-dev libcurl4-openssl-dev libssl-dev libexpat1-dev libhiredis-dev libnats-dev libmicrohttpd-dev libgnutls28-dev python3"
    # gcc's sanitizers and C++ compiler, the test library, programs that the checks and the tests call
    [tests]="build-essential libcmocka-dev clang-format curl"
    [clang]="clang libclang-rt-dev" # the second compiler, libFuzzer and its sanitizers
    [lint]="clang-tidy"
    [servers]="ceph-mon ceph-osd radosgw ceph-common openssl nghttp2-server prometheus beanstalkd etcd-server redis-server redis-tools nats-server e2fsprogs mount" # the real servers of the tests: S3, TLS, HTTP/2, coordination, Redis, NATS, a queue to import from; file systems that fill up and go down
    [browser]="chromium nodejs npm ca-certificates util-linux" # the dashboard's tests; npm fetches what tests/web/package-lock.json names
    [clients]="golang-go jq mypy nodejs npm pyflakes3 python3-celery python3-kombu python3-redis python3-setuptools python3-wheel" # the languages of clients/, docs/clients.md and docs/events.md, their checkers, and what the Celery transport is for and is compared with; npm fetches what the lists clients/node/tests/package-lock.json and tests/events/package-lock.json name
    [deb]="debhelper fish lintian po-debconf" # Debian packages and their checker, a shell that completes
    [image]="buildah ca-certificates debootstrap runc" # a container image, and a fresh Debian to install into
    [peers]="beanstalkd rabbitmq-server librabbitmq-dev" # the servers that bench/peers compares with, and a client library
)

wanted=()
for group in "${@:-build}"; do
    read -ra some <<<"${packages[$group]:?no such group of packages: $group}"
    wanted+=("${some[@]}")
done

if ! command -v apt-get >/dev/null; then
    echo "deps: no apt-get here; these Debian packages (or their like) are needed: ${wanted[*]}" >&2
    exit 0
fi

installed=" $(dpkg-query -W -f='${Package}=${db:Status-Status} ' "${wanted[@]}" 2>/dev/null || true) "
missing=()
for package in "${wanted[@]}"; do
    [[ $package == npm ]] && command -v npm >/dev/null && continue # other nodejs packages include npm and conflict with this one
    [[ $installed == *" $package=installed "* ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

root=()
if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
        echo "deps: run as root: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    root=(sudo)
fi

# Packages must not start their daemons on a build machine.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
    trap '"${root[@]}" rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
    "${root[@]}" chmod 755 "$policy"
fi

echo "deps: installing ${missing[*]}"
apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300)
"${apt[@]}" update
"${apt[@]}" install --yes --no-install-recommends "${missing[@]}" >/dev/null
