#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""The tests that docs/clients.md names exist: test_page.py CLIENTS.MD CLIENTS"""
import glob
import os
import re
import sys

page, clients = map(os.path.abspath, sys.argv[1:3])
sys.path.insert(0, os.path.join(clients, "python", "tests"))
from tap import Tap  # noqa: E402  the path is set above

LANGUAGES = (("Python", "python/tests/*.py"), ("Node.js", "node/tests/*.js"), ("Go", "go/*_test.go"))


def names(pattern):
    text = ""
    for path in glob.glob(os.path.join(clients, pattern)):
        with open(path, encoding="utf-8") as f:
            text += f.read()
    functions = {name.replace("_", " ") for name in re.findall(r"def (\w+)\(", text)}
    return functions | set(re.findall(r'^ *[\w.]+\(\s*"([^"]+)",', text, re.M)) | set(re.findall(r"func (Test\w+)", text))


def main():
    with open(page, encoding="utf-8") as f:
        rows = [line.strip("|\n ").split(" | ")[1:] for line in f if line.startswith("| *tests* |")]
    tap = Tap()
    tap.result(len(rows) > 15, "the page has a table of tests")
    for i, (language, pattern) in enumerate(LANGUAGES):
        there = names(pattern)
        missing = [row[i] for row in rows if row[i] not in there]
        tap.result(not missing, f"each test of {language} exists", missing)
    return tap.end()


sys.exit(main())
