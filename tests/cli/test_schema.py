# SPDX-License-Identifier: Apache-2.0
"""schema check: files, folders, additive and breaking changes, mistakes."""
import json
import os

from harness import INVALID, case, contains, main, same

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OPEN = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}


def written(sluice, name, schema):
    path = sluice.path(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(schema if isinstance(schema, str) else json.dumps(schema))
    return path


def with_property(name, value):
    return OPEN | {"properties": OPEN["properties"] | {name: value}}


@case
def the_schemas_of_this_release_serve_the_consumers_of_the_last(sluice):
    result = sluice.ok("schema", "check", f"{ROOT}/schemas/released", f"{ROOT}/schemas")
    same(result.out.splitlines()[-1] in ("same", "additive"), True)


@case
def a_new_optional_property_is_additive(sluice):
    old, new = written(sluice, "old.json", OPEN), written(sluice, "new.json", with_property("b", {"type": "integer"}))
    lines = sluice.ok("schema", "check", old, new).out.splitlines()
    same(lines, [f"additive  {new}  /properties/b  the property is new: an older consumer ignores it", "additive"])
    same(sluice.ok("schema", "check", old, old).out, "same\n")


@case
def a_breaking_change_is_named_with_its_place_and_ends_with_1(sluice):
    old, new = written(sluice, "old.json", OPEN), written(sluice, "new.json", with_property("a", {"type": "integer"}))
    result = sluice.run("schema", "check", old, new)
    same(result.status, 1)
    contains(result.out, "breaking", "/properties/a/type", "integer is allowed now: an older consumer does not expect it")
    same(result.out.splitlines()[-1], "breaking")
    result = sluice.run("schema", "check", old, new, "--json")
    same(result.status, 1)
    answer = json.loads(result.out)
    same(list(answer), ["result", "changes"])
    same((answer["result"], list(answer["changes"][0])), ("breaking", ["change", "file", "where", "what"]))
    same({change["where"] for change in answer["changes"]}, {"/properties/a/type"})


@case
def folders_are_compared_file_by_file_and_version_by_version(sluice):
    for name, schema in [("old/v1/a.json", OPEN), ("old/v1/b.json", OPEN), ("new/v1/a.json", with_property("b", {})),
                         ("new/v1/b.json", OPEN), ("new/v2/a.json", OPEN), ("new/released/v1/z.json", "no schema"),
                         ("new/notes.txt", "no schema")]:
        written(sluice, name, schema)
    answer = sluice.json("schema", "check", sluice.path("old"), sluice.path("new"))
    same([(change["change"], change["file"], change["where"]) for change in answer["changes"]],
         [("additive", "v1/a.json", "/properties/b"), ("additive", "v2/a.json", "/")])
    result = sluice.run("schema", "check", sluice.path("new"), sluice.path("old"))
    same(result.status, 1)
    contains(result.out, "v2/a.json  /  the schema is gone", "/properties/b  the property is gone")


@case
def mistakes_are_named(sluice):
    good, bad = written(sluice, "good.json", OPEN), written(sluice, "bad.json", {"pattern": "a"})
    text = written(sluice, "text.json", "{")
    empty = sluice.path("empty")
    os.mkdir(empty)
    for words, says in [((good, bad), ["NEW", "bad.json", "/pattern", "not in the subset"]),
                        ((text, good), ["OLD", "text.json", "text.json is not a schema: it is not JSON"]),
                        ((good, sluice.path("nothing")), ["NEW", "cannot be read"]),
                        ((good, empty), ["both be files, or both be folders"]),
                        ((empty, empty), ["OLD", "has no file *.json"]), ((good,), ["NEW is missing"])]:
        sluice.refused(INVALID, "schema", "check", *words, says=says)


main()
