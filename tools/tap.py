# SPDX-License-Identifier: Apache-2.0
"""Shared by the checks: a TAP report, and the C files of a tree."""
import os
import re
import shutil
import subprocess
import sys


class Tap:
    """Reports one case per rule. It passes if the list of problems is empty."""

    def __init__(self):
        self.ran = 0
        self.failed = 0

    def case(self, name, problems):
        self.ran += 1
        self.failed += bool(problems)
        print(f"{'not ok' if problems else 'ok'} {self.ran} - {name}")
        for problem in problems:
            print(f"# {problem}")

    def skip(self, name, reason):
        self.ran += 1
        print(f"ok {self.ran} - {name} # SKIP {reason}")

    def end(self):
        """Prints the plan and exits with the status of the report."""
        print(f"1..{self.ran}")
        sys.exit(1 if self.failed else 0)


def tracked(root):
    """Returns the tracked files of the tree, sorted, as paths relative to root. Without git (a tarball) it returns
    all files."""
    command = ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"]
    git = shutil.which("git") and subprocess.run(command, capture_output=True, text=True, check=False)
    if git and git.returncode == 0:
        paths = git.stdout.splitlines()
    else:
        paths = [os.path.relpath(os.path.join(at, name), root)
                 for at, _, names in os.walk(root) for name in names]
    return sorted({path for path in paths if os.path.exists(os.path.join(root, path))})


def c_files(root, *folders):
    """Returns the .c and .h files under the folders of root."""
    wanted = tuple(folder + "/" for folder in folders)
    return [path for path in tracked(root) if path.endswith((".c", ".h")) and path.startswith(wanted)]


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def includes(text):
    """Yields (is it "quoted", path, line number) of each #include."""
    return [(mark == '"', path, text.count("\n", 0, at.start(1)) + 1)
            for at in INCLUDE.finditer(text) for mark, path in [at.groups()]]
