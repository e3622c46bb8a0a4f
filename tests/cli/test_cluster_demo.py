# SPDX-License-Identifier: Apache-2.0
"""make cluster, for a few seconds: nodes are killed, nothing is lost, and it ends by itself and by Ctrl-C."""
import os
import re
import signal
import subprocess
import time

from harness import PROGRAM, case, contains, holds, main, same

TOOL = os.environ["CLUSTER_TOOL"]
PATIENCE = 150


def start(sluice, *options):
    return subprocess.Popen([TOOL, "--program", PROGRAM, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            stdin=subprocess.DEVNULL, cwd=sluice.folder, env=dict(os.environ, TMPDIR=sluice.folder),
                            start_new_session=True)


def nothing_is_left(sluice, group):
    same([name for name in os.listdir(sluice.folder) if name.startswith("sluice-cluster-")], [], "folders")
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return
    raise AssertionError("a process of the demonstration still runs")


@case
def it_kills_nodes_loses_nothing_and_ends_by_itself(sluice):
    run = start(sluice, "--seconds", "14", "--every", "5")
    out, err = run.communicate(timeout=PATIENCE)
    text = out.decode()
    same(run.returncode, 0, text[-2000:] + err.decode())
    contains(text, "NODE", "healthy", "OWNER", "was killed (-9)", "is back")
    [(kills, accepted, lost, twice)] = re.findall(r"(\d+) kills, (\d+) messages accepted, (\d+) lost, (\d+) acknowledged", text)
    holds(int(kills) >= 1 and int(accepted) > 20, text[-300:])
    same((lost, twice), ("0", "0"))
    nothing_is_left(sluice, run.pid)


@case
def it_ends_cleanly_by_ctrl_c(sluice):
    run = start(sluice, "--seconds", "600", "--every", "600")
    contains(run.stdout.readline().decode(), "three nodes run")
    time.sleep(2)
    os.kill(run.pid, signal.SIGINT)
    out, err = run.communicate(timeout=PATIENCE)
    same(run.returncode, 0, out.decode()[-2000:] + err.decode())
    contains(out.decode(), "0 kills", "0 lost")
    nothing_is_left(sluice, run.pid)


main(at_once=2)
