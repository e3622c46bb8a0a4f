#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Holds the tables of docs/format.md against the golden files: format.py <docs/format.md> <golden folder>

A line `Golden: `name`` starts a table whose rows say offset, size, field, meaning and the bytes in that file. The rows must
follow each other without gaps, and fill the file."""
import os
import re
import sys

GOLDEN = re.compile(r"^Golden: `([^`]+)`")
ROW = re.compile(r"^\| (\d+) \| (\d+) \| ([^|]+) \|[^|]*\| `([0-9a-f]+)` \|$")


def tables(path):
    """(golden file, [(offset, size, field, bytes)]) of each table."""
    found, rows = [], None
    with open(path, encoding="utf-8") as page:
        for line in page:
            name, row = GOLDEN.match(line), ROW.match(line.rstrip("\n"))
            if name:
                rows = []
                found.append((name[1], rows))
            elif line.startswith("#"):
                rows = None
            elif row and rows is not None:
                rows.append((int(row[1]), int(row[2]), row[3].strip(), bytes.fromhex(row[4])))
    return found


def faults(rows, golden):
    at = 0
    for offset, size, field, stored in rows:
        if offset != at:
            yield f"{field}: at {offset}, expected {at}"
        if len(stored) != size:
            yield f"{field}: {len(stored)} bytes shown, size {size}"
        if golden[offset:offset + size] != stored:
            yield f"{field}: the file has {golden[offset:offset + size].hex()}, the page {stored.hex()}"
        at = offset + size
    if at != len(golden):
        yield f"the table ends at {at}, the file at {len(golden)}"


def main():
    page, folder = sys.argv[1:3]
    found = tables(page)
    names = sorted(os.listdir(folder))
    print(f"1..{len(names)}")
    failed = 0
    for number, name in enumerate(names, 1):
        with open(os.path.join(folder, name), "rb") as file:
            golden = file.read()
        rows = [rows for table, rows in found if table == name]
        wrong = list(faults(rows[0], golden)) if len(rows) == 1 else [f"{len(rows)} tables name it"]
        failed += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {number} - docs/format.md describes {name}")
        for fault in wrong:
            print(f"# {fault}")
    return 1 if failed else 0


sys.exit(main())
