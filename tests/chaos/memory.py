#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""A backlog costs disk, not memory: many pending 1 KiB messages, then receive and work on them.

    memory.py SLUICE [MESSAGES]        (default 1,000,000)

Shows the peak resident memory of each command, and how long a new process takes to open the queue when its
files are not in the page cache; the limits are 64 MiB and one second of processor time. What the disk takes
beside that is shown, and is the disk's.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RESIDENT_MAX_KIB = 64 << 10
COLD_CPU_MAX_S = 1.0
JOBS = 200
BODY = 1024


class Run:
    """One command, ended: its status, output, seconds, those of processor time, and peak memory."""

    def __init__(self, command, feed=None, stop_when=None):
        began = time.monotonic()
        # without stop_when the output is a pipe, else a file that can be looked at
        with tempfile.TemporaryFile() as out:
            child = subprocess.Popen(command, stdin=subprocess.PIPE if feed else subprocess.DEVNULL, stdout=out)
            if feed:
                for part in feed:
                    child.stdin.write(part)
                child.stdin.close()
            if stop_when:
                while not stop_when(out) and time.monotonic() - began < 60:
                    time.sleep(0.05)
                child.send_signal(signal.SIGTERM)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            self.seconds = time.monotonic() - began
            self.cpu_seconds = usage.ru_utime + usage.ru_stime
            self.resident_kib = usage.ru_maxrss
            out.seek(0)
            self.output = out.read().decode()
        if child.returncode != 0:
            sys.exit(f"Bail out! {' '.join(command)}: exit status {child.returncode}")


def lines(count):
    """So many different lines of 1 KiB, in large pieces."""
    filler = "x" * (BODY - 11)
    for first in range(0, count, 1000):
        yield "".join(f"{n:010d} {filler}\n" for n in range(first, min(first + 1000, count))).encode()


def forget(folder):
    """Puts the files out of the page cache, as after a boot."""
    for path, _, names in os.walk(folder):
        for name in names:
            fd = os.open(os.path.join(path, name), os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def jobs_done(out):
    """Without moving the place at which the worker writes."""
    return os.pread(out.fileno(), 1 << 24, 0).count(b'"type":"job"') >= JOBS


def main():
    sluice, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    folder = tempfile.mkdtemp(prefix="sluice-memory-", dir=os.environ.get("TMPDIR", "/var/tmp"))
    command = [sluice, "--store", folder + "/store"]
    cases = []

    def case(name, ok, detail):
        cases.append(ok)
        print(f"{'' if ok else 'not '}ok {len(cases)} - {name}\n# {detail}", flush=True)

    def resident(name, run):
        case(f"{name} stays under 64 MiB", run.resident_kib < RESIDENT_MAX_KIB,
             f"{name}: {run.resident_kib / 1024:.1f} MiB resident, {run.seconds:.2f} s")

    try:
        Run(command + ["queue", "create", "backlog", "--quiet"])
        resident(f"sending {count} messages", Run(command + ["send", "backlog", "--lines", "-", "--quiet"], lines(count)))
        forget(folder)
        cold = Run(command + ["stats", "backlog", "--json"])
        case("a cold queue opens in a second", cold.cpu_seconds < COLD_CPU_MAX_S,
             f"stats, cold: {cold.seconds:.3f} s, {cold.cpu_seconds:.3f} s of processor time")
        case("nothing is missing", f'"ready":{count},' in cold.output, cold.output.strip())
        resident("receive", Run(command + ["receive", "backlog", "--max", "100", "--quiet", "--json"]))
        resident(f"work on {JOBS} jobs",
                 Run(command + ["work", "backlog", "-c", "8", "--json", "--", "true"], stop_when=jobs_done))
    finally:
        shutil.rmtree(folder)
    print(f"1..{len(cases)}")
    return 0 if all(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
