#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of docs/tutorial.md, in order and in an empty folder, and compares what they print.

    test_tutorial.py <program> <page>

Blocks that begin with ```console are run. "$ " begins a command, which goes on while a line ends with a backslash
or its here-document does; the lines after it are what it prints, on standard output and standard error. "..." stands
for any text, and for any lines where it stands alone."""
import os
import re
import subprocess
import sys
import tempfile

PATIENCE = 60
END = "--- end of the command"
SLOW = "sluice: no answer from "  # a notice that a busy machine may cause


def steps(page):
    """(line number, command, expected lines) of each command."""
    found, fenced, here = [], False, None
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("```"):
            fenced = line.startswith("```console")
            continue
        if not fenced:
            continue
        if here or found and found[-1][1].endswith("\\"):
            found[-1][1] += "\n" + line
            here = None if here and line == here else here
        elif line.startswith("$ "):
            found.append([number, line[2:], []])
            word = re.search(r"<<'?(\w+)'?", line)
            here = word and word.group(1)
        else:
            found[-1][2].append(line)
    return found


def matches(expected, printed):
    pattern = "\n".join(expected)
    parts = [r"(?:.*\n?)*?" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + r" *\n"
             for line in pattern.split("\n")] if expected else []
    return re.fullmatch("".join(parts), printed) is not None


class Shell:
    def __init__(self, folder, program):
        path = os.path.dirname(os.path.abspath(program)) + ":" + os.environ["PATH"]
        keep = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
        self.process = subprocess.Popen(["bash"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True,
                                        env=keep | {"PATH": path, "HOME": folder, "TZ": "UTC"})

    def run(self, command):
        self.process.stdin.write(f"{{ {command}\n}} </dev/null; echo '{END}'\n")
        self.process.stdin.flush()
        printed = ""
        for line in self.process.stdout:
            if line == END + "\n":
                return printed
            if not line.startswith(SLOW):
                printed += line
        return printed + "(the shell ended)"


def main():
    program, page = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        found = steps(file.read())
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(folder, program)
        print(f"1..{len(found)}")
        for number, (line, command, expected) in enumerate(found, 1):
            printed = shell.run(command)
            good = matches(expected, printed)
            failed += not good
            title = command.split("\n")[0].rstrip(" \\")
            print(f"{'ok' if good else 'not ok'} {number} - line {line}: {title}".replace("#", "_"))
            if not good:
                print("".join(f"# expected: {one}\n" for one in expected), end="")
                print("".join(f"# printed:  {one}\n" for one in printed.splitlines()), flush=True)
        shell.process.stdin.close()
        shell.process.wait(PATIENCE)
    sys.exit(1 if failed or not found else 0)


main()
