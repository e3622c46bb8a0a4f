# SPDX-License-Identifier: Apache-2.0
"""JSON Schema, as much of it as api/openapi.json uses; a keyword that is not here is an error, not ignored.

    Schema(document).check(value, schema)   a list of complaints, empty when it fits
"""
import re

SILENT = {"description", "title", "default", "examples", "contentEncoding"}
TYPES = {
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
}


class Schema:
    def __init__(self, document):
        self.document = document

    def resolve(self, node):
        """What a $ref stands for; anything else is itself."""
        while "$ref" in node:
            at = self.document
            for piece in node["$ref"].removeprefix("#/").split("/"):
                at = at[piece]
            node = at
        return node

    def check(self, value, schema, at="it"):
        wrong = []
        for keyword, given in schema.items():
            if keyword in SILENT:
                continue
            rule = getattr(self, "rule_" + keyword.lstrip("$"), None)
            if rule is None:
                raise NotImplementedError(f"{keyword} at {at}")
            wrong += rule(value, given, at, schema)
        return wrong

    def rule_ref(self, value, _, at, schema):
        return self.check(value, self.resolve(schema), at)

    def rule_type(self, value, given, at, _):
        names = given if isinstance(given, list) else [given]
        return [] if any(TYPES[name](value) for name in names) else [f"{at} is {value!r}, not {' or '.join(names)}"]

    def rule_enum(self, value, given, at, _):
        return [] if value in given else [f"{at} is {value!r}, not one of {given}"]

    def rule_const(self, value, given, at, _):
        return [] if value == given else [f"{at} is {value!r}, not {given!r}"]

    def rule_pattern(self, value, given, at, _):
        return [] if not isinstance(value, str) or re.search(given, value) else [f"{at} is {value!r}, not like {given}"]

    def rule_maxLength(self, value, given, at, _):
        return [] if not isinstance(value, str) or len(value) <= given else [f"{at} is longer than {given}"]

    def rule_minimum(self, value, given, at, _):
        return [] if not TYPES["number"](value) or value >= given else [f"{at} is {value}, less than {given}"]

    def rule_maximum(self, value, given, at, _):
        return [] if not TYPES["number"](value) or value <= given else [f"{at} is {value}, more than {given}"]

    def rule_items(self, value, given, at, _):
        rows = value if isinstance(value, list) else []
        return [complaint for i, row in enumerate(rows) for complaint in self.check(row, given, f"{at}[{i}]")]

    def rule_maxItems(self, value, given, at, _):
        return [] if not isinstance(value, list) or len(value) <= given else [f"{at} has more than {given}"]

    def rule_maxProperties(self, value, given, at, _):
        return [] if not isinstance(value, dict) or len(value) <= given else [f"{at} has more than {given}"]

    def rule_required(self, value, given, at, _):
        return [f"{at} has no {name}" for name in given if isinstance(value, dict) and name not in value]

    def rule_properties(self, value, given, at, _):
        known = [name for name in given if isinstance(value, dict) and name in value]
        return [complaint for name in known for complaint in self.check(value[name], given[name], f"{at}.{name}")]

    def rule_additionalProperties(self, value, given, at, schema):
        others = [name for name in value if name not in schema.get("properties", {})] if isinstance(value, dict) else []
        if given is False:
            return [f"{at}.{name} is not in the schema" for name in others]
        return [complaint for name in others for complaint in self.check(value[name], given, f"{at}.{name}")]

    def rule_anyOf(self, value, given, at, _):
        each = [self.check(value, one, at) for one in given]
        return [] if [] in each else [f"{at} fits none: {each}"]

    def rule_oneOf(self, value, given, at, _):
        each = [self.check(value, one, at) for one in given]
        return [] if each.count([]) == 1 else [f"{at} fits {each.count([])} of {len(each)}: {each}"]
