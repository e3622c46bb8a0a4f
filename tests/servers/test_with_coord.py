#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""The launcher of coordination servers: it serves, obeys, passes the exit status, and leaves nothing behind."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback

LAUNCHER = sys.argv[1]
SECONDS = 60
SCRIPT = 'echo "$$ $SLUICE_TEST_COORD_SOCKET $SLUICE_TEST_COORD"; exec sleep 1000'


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
    return subprocess.Popen([LAUNCHER, "etcd", *options, "sh", "-c", script], stdout=subprocess.PIPE)


def running():
    """A launcher in the middle of its command; its children by id, and its control socket."""
    launcher = start(SCRIPT)
    words = launcher.stdout.readline().decode().split()
    with open(f"/proc/{launcher.pid}/task/{launcher.pid}/children", encoding="utf-8") as children:
        return launcher, children.read().split(), words[1]


def say(path, word):
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(path)
        control.sendall(word.encode())
        return control.recv(200).decode()


def the_exit_status_is_the_commands():
    assert start("exit 5").wait(SECONDS) == 5
    assert start("kill -9 $$").wait(SECONDS) == 128 + 9


def nothing_is_left_after(number):
    launcher, children, path = running()
    assert len(children) >= 3, children  # the server, the command, the watcher
    launcher.send_signal(number)
    launcher.wait(SECONDS)
    until(lambda: all(map(gone, children)), "every child is gone")
    until(lambda: not os.path.exists(os.path.dirname(path)), "the directory is gone")


def a_killed_server_comes_back_and_nonsense_is_refused():
    launcher, _, path = running()
    try:
        assert say(path, "leader") == "0"
        assert say(path, "kill 0") == "ok"
        assert say(path, "start 0") == "ok"
        assert say(path, "stop 0") == "ok"
        assert say(path, "mend") == "ok"
        assert say(path, "kill 7").startswith("no such word")
        assert say(path, "stop 7").startswith("failed")
        assert say(path, "nonsense").startswith("failed")
    finally:
        launcher.terminate()
        launcher.wait(SECONDS)


def main():
    cases = [("the exit status is the command's", the_exit_status_is_the_commands),
             ("nothing is left after SIGKILL", lambda: nothing_is_left_after(signal.SIGKILL)),
             ("nothing is left after SIGTERM", lambda: nothing_is_left_after(signal.SIGTERM)),
             ("a killed server comes back", a_killed_server_comes_back_and_nonsense_is_refused)]
    if not shutil.which("etcd") and os.environ.get("CI") != "true":
        print("1..0 # SKIP etcd is not installed (make deps-servers)")
        return 0
    failed = 0
    print(f"1..{len(cases)}", flush=True)
    for number, (name, case) in enumerate(cases, 1):
        try:
            case()
            print(f"ok {number} - {name}", flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {number} - {name}\n# " + traceback.format_exc().replace("\n", "\n# "), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
