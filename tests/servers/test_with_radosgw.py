#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""The launcher itself: it serves, passes the exit status, and leaves nothing behind, however it ends."""
import os
import signal
import subprocess
import sys
import time
import traceback

LAUNCHER = sys.argv[1]
SECONDS = 180


def until(question, what):
    end = time.monotonic() + SECONDS
    while not question():
        if time.monotonic() > end:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.02)


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def start(script, *options):
    return subprocess.Popen([LAUNCHER, *options, "sh", "-c", script], stdout=subprocess.PIPE)


def pids_of_a_running_one():
    """A launcher in the middle of its command; its children by id, and its directory."""
    launcher = start('echo $$ $(dirname "$SLUICE_TEST_RADOSGW_PID"); exec sleep 1000')
    words = launcher.stdout.readline().decode().split()
    with open(f"/proc/{launcher.pid}/task/{launcher.pid}/children", encoding="utf-8") as children:
        return launcher, children.read().split(), words[1]


def nothing_is_left_after(number):
    launcher, children, directory = pids_of_a_running_one()
    assert len(children) >= 5, children  # mon, osd, radosgw, the command, the watcher
    launcher.send_signal(number)
    launcher.wait(SECONDS)
    until(lambda: all(map(gone, children)), "every child is gone")
    until(lambda: not os.path.exists(directory), "the directory is gone")


def the_exit_status_is_the_commands():
    assert start("exit 5").wait(SECONDS) == 5
    assert start("kill -9 $$").wait(SECONDS) == 128 + 9


def a_killed_gateway_comes_back_on_the_same_port_with_its_bucket():
    script = '''before=$(cat "$SLUICE_TEST_RADOSGW_PID")
        eval "$SLUICE_TEST_RADOSGW_CONTROL kill" && eval "$SLUICE_TEST_RADOSGW_CONTROL start" || exit 1
        test "$before" != "$(cat "$SLUICE_TEST_RADOSGW_PID")" || exit 2
        python3 -c 'import os, sys, urllib.error, urllib.request
url = os.environ["AWS_ENDPOINT_URL_S3"] + "/" + os.environ["SLUICE_TEST_S3"][5:]
try:
    urllib.request.urlopen(url)
except urllib.error.HTTPError as answer:
    sys.exit(0 if answer.code == 403 else 3)  # 404 would say that the bucket is gone
sys.exit(4)' '''
    assert start(script).wait(SECONDS) == 0


def the_certificate_is_good_for_its_own_authority():
    script = '''python3 -c 'import os, ssl, urllib.request
trust = ssl.create_default_context(cafile=os.environ["AWS_CA_BUNDLE"])
assert urllib.request.urlopen(os.environ["AWS_ENDPOINT_URL_S3"], context=trust).status == 200' '''
    assert start(script, "--tls").wait(SECONDS) == 0


def what_the_developer_set_up_for_a_real_account_is_hidden():
    os.environ["AWS_SESSION_TOKEN"] = "real"
    assert start('test -z "$AWS_SESSION_TOKEN"').wait(SECONDS) == 0


def nothing_is_left_when_it_is_asked_to_end():
    nothing_is_left_after(signal.SIGTERM)


def nothing_is_left_when_it_is_killed():
    nothing_is_left_after(signal.SIGKILL)


CASES = [the_exit_status_is_the_commands, a_killed_gateway_comes_back_on_the_same_port_with_its_bucket,
         the_certificate_is_good_for_its_own_authority, what_the_developer_set_up_for_a_real_account_is_hidden,
         nothing_is_left_when_it_is_asked_to_end, nothing_is_left_when_it_is_killed]


def main():
    probe = subprocess.run([LAUNCHER, "true"], stdout=subprocess.PIPE, check=False)
    if probe.stdout.startswith(b"1..0 # SKIP"):
        print(probe.stdout.decode().strip())
        return 0
    print(f"1..{len(CASES)}", flush=True)
    failed = 0
    for number, function in enumerate(CASES, 1):
        name = function.__name__.replace("_", " ")
        try:
            function()
            print(f"ok {number} - {name}", flush=True)
        except Exception:  # whatever it was, the other cases run
            failed += 1
            print(f"not ok {number} - {name}", flush=True)
            for line in traceback.format_exc().splitlines():
                print(f"# {line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
