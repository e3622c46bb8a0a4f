# SPDX-License-Identifier: Apache-2.0
"""What the headers of a tree declare. One run of the preprocessor reads all headers at once, so names that macros make
are found, and each name keeps the header that it stands in."""
import bisect
import collections
import re
import subprocess

FLAGS = ["-std=gnu17", "-E", "-Isrc", "-Iinclude", "-x", "c", "-"]

MARK = re.compile(r'# \d+ "(.*?)"')
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
ATTRIBUTE = re.compile(r"\b(?:__attribute__|__asm__|_Static_assert|static_assert|_Alignas)\s*(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))")
TAG = re.compile(r"\b(?:struct|union|enum)\s+(\w+)\s*\{")
ENUM = re.compile(r"\benum\b\s*\w*\s*\{([^{}]*)\}")
CONSTANT = re.compile(r"(?:^|,)\s*(\w+)")
PARENTHESES = re.compile(r"\([^()]*\)")
FUNCTION = re.compile(r"[\w\s*]*?[\s*](\w+)\s*\(")
OBJECT = re.compile(r"extern\b[^=(]*?(\w+)\s*(?:\[[^\]]*\]\s*)*$")


class Declared:
    """Each table is name: the headers that declare or define it, as src/folder/name.h."""

    def __init__(self, root, compiler, headers):
        self.functions = collections.defaultdict(set)
        self.objects = collections.defaultdict(set)
        self.tags = collections.defaultdict(set)
        self.constants = collections.defaultdict(set)
        text = "".join(f'#include "{path.split("/", 1)[1]}"\n' for path in headers)
        run = subprocess.run([*compiler, *FLAGS], cwd=root, input=text, capture_output=True, text=True, check=False)
        self.problems = [line for line in run.stderr.splitlines() if ": error" in line or ": warning" in line
                         or ": fatal" in line]
        self.starts, self.files, self.text = lines_of(run.stdout, set(headers))
        self.find_tags()
        self.find_prototypes()

    def file(self, offset):
        return self.files[bisect.bisect_right(self.starts, offset) - 1]

    def find_tags(self):
        for match in TAG.finditer(self.text):
            self.tags[match[1]].add(self.file(match.start(1)))
        for match in ENUM.finditer(self.text):
            values = self.text[match.start(1):match.end(1)]
            while PARENTHESES.search(values):  # a comma inside begins no constant
                values = PARENTHESES.sub(lambda part: " " * len(part[0]), values)
            for constant in CONSTANT.finditer(values):
                self.constants[constant[1]].add(self.file(match.start(1) + constant.start(1)))

    def find_prototypes(self):
        for start, text in statements(self.text):
            if re.match(r"(typedef|static|extern\s+static)\b", text):
                continue
            function = FUNCTION.match(text)
            if function:
                self.functions[function[1]].add(self.file(start))
            elif OBJECT.match(text):
                self.objects[OBJECT.match(text)[1]].add(self.file(start))


def lines_of(output, wanted):
    """Returns the lines of the wanted headers as one text, with the offset and the header of each line. Strings and
    attributes are empty."""
    starts, files, kept, length, file = [], [], [], 0, None
    for line in output.splitlines():
        mark = MARK.match(line)
        if mark:
            file = mark[1]
        elif file in wanted and line.strip() and not line.startswith("#"):
            starts.append(length)
            files.append(file)
            kept.append(line + "\n")
            length += len(line) + 1
    blank = lambda part: re.sub(r"[^\n]", " ", part[0])
    return starts, files, ATTRIBUTE.sub(blank, STRING.sub(blank, "".join(kept)))


def statements(text):
    """Yields offset and text of each statement outside of braces, without what is in braces. The body of a function
    ends its statement."""
    depth, start, parts, at = 0, 0, [], 0
    for match in re.finditer(r"[{};]", text):
        if depth == 0:
            parts.append(text[at:match.start()])
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
            at = match.end()
        if depth == 0 and (match[0] == ";" or (match[0] == "}" and parts[-1].rstrip().endswith(")"))):
            whole = "".join(parts)
            body = whole.lstrip()
            if body and match[0] == ";":
                yield start + len(whole) - len(body) if len(parts) == 1 else start, body.rstrip()
            parts, start, at = [], match.end(), match.end()
