# SPDX-License-Identifier: Apache-2.0
"""The HTTP interface as the emitters of tools/make-clients see it.

api/openapi.json is made from the table of calls (src/protocol/list.h). load() reads it and returns a Model. An emitter needs
no other input, so that the clients of all languages offer the same calls, types, limits and errors."""
import json
import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Tuple

# How a call may be repeated when its answer is lost (enum route_repeat in src/protocol/routes.h).
READ = "read"  # it changes nothing
SAME = "same"  # a repetition has the same result
ID = "id"      # it may be repeated with its request id (the header Sluice-Request)
ONCE = "once"  # it may not be repeated after it may have arrived

# api/openapi.json does not have the rule. A GET is READ, and a call that takes Sluice-Request is ID. These are the others.
REPEAT = {
    "createQueue": SAME, "changeQueue": SAME, "deleteQueue": ONCE, "pauseQueue": SAME, "resumeQueue": SAME,
    "purgeQueue": SAME, "upgradeQueue": SAME, "redrive": ONCE, "joinWorker": SAME, "leaveWorker": SAME,
    "pauseWorker": SAME, "resumeWorker": SAME, "drainWorker": SAME, "evictWorker": SAME, "receiveSignals": SAME,
    "collectMessages": SAME, "drainNode": SAME, "undrainNode": SAME, "leaveCluster": SAME,
}
# Of these calls a repetition is safe if the field is given.
SAME_WITH = {"deleteQueue": "id"}
# For browsers, for Prometheus and for other nodes.
LEFT_OUT = {"dashboard", "asset", "openapi", "metrics", "hintUsed"}
# Calls that a node forwards to the owner of a shard: a client asks for the map of owners with them (docs/http.md, "Owners").
OWNED = {"sendMessages", "receiveMessages", "ackMessages", "failMessages", "releaseMessages", "renewLocks"}


@dataclass
class Type:
    """kind: string, integer, number, boolean, any, object (no known fields), map (of strings), duration (milliseconds, or a
    text with a unit), bytes (base64), list (of `item`), or ref (of the Struct named `ref`)."""
    kind: str
    ref: str = ""
    item: Optional["Type"] = None
    enum: Tuple[str, ...] = ()


@dataclass
class Field:
    name: str  # as in JSON, in a query, or as a header
    type: Type
    doc: str = ""
    required: bool = False
    minimum: Optional[int] = None  # of a number or a duration in ms
    maximum: Optional[int] = None
    max_length: Optional[int] = None  # of a string
    max_items: Optional[int] = None  # of a list or a map
    default: Any = None


@dataclass
class Struct:
    name: str
    fields: List[Field]
    doc: str = ""
    of_answer: bool = False  # it occurs in an answer; else only in requests


@dataclass
class Operation:
    id: str  # receiveMessages
    method: str
    path: str  # /v1/queues/{queue}/receive
    doc: str
    scope: str  # read, send, work, signal, admin; empty: no token is needed
    repeat: str  # READ, SAME, ID or ONCE
    same_with: str  # ONCE, unless this field is given
    path_fields: List[Field]
    query: List[Field]
    body: List[Field]  # the fields of all its forms
    body_struct: str  # the Struct of the body, if it has one form; else empty
    body_required: bool  # the request needs a JSON body
    answer: List[str]  # the names of the Structs of a 2xx answer, the first for one item; empty: no body
    stream: bool  # the answer is a stream of Server-Sent Events
    takes_worker: bool  # it takes the header Sluice-Worker
    owned: bool  # it goes to the owner of a shard, and takes the header Sluice-Owners
    errors: Dict[int, str]  # status: code
    body_max: Optional[int] = None  # bytes


@dataclass
class ErrorCode:
    code: str  # NOT_FOUND
    name: str  # NotFound: the class
    status: int
    doc: str


@dataclass
class Model:
    version: str
    operations: List[Operation]
    structs: List[Struct]  # of answers and requests, and their parts
    errors: List[ErrorCode]
    by_id: Dict[str, Operation] = field(default_factory=dict)


NAMES = {"UNKNOWN": "OutcomeUnknown"}  # other codes are named by their words


def words(name: str) -> List[str]:
    """receiveMessages -> [receive, messages]. An emitter joins them as its language does."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)]


def of_text(schema: Dict[str, Any]) -> Dict[str, Any]:
    """A parameter of a URL is a text. Its pattern says what the text is."""
    pattern = schema.get("pattern", "")
    if schema.get("enum", []) == ["0", "1", "false", "true"]:
        return {"type": "boolean"}
    if pattern == "^[0-9]+$":
        return {"type": "integer"}
    return {"$ref": "#/components/schemas/Duration"} if pattern.endswith("(ms|s|m|h|d))$") else schema


class Reader:
    def __init__(self, document: Dict[str, Any]):
        self.document = document
        self.structs: Dict[str, Struct] = {}

    def at(self, ref: str) -> Dict[str, Any]:
        value: Any = self.document
        for part in ref.split("/")[1:]:
            value = value[part]
        result: Dict[str, Any] = value
        return result

    def resolve(self, thing: Dict[str, Any]) -> Dict[str, Any]:
        return {**self.at(thing["$ref"]), **thing} if "$ref" in thing else thing

    def type(self, schema: Dict[str, Any], name: str) -> Type:
        """`name` is for an object that has no name in the document."""
        for option in schema.get("anyOf", []):
            if option.get("type") != "null":
                return self.type(option, name)
        if "$ref" in schema:
            ref = schema["$ref"].split("/")[-1]
            if ref == "Duration":
                return Type("duration")
            target = self.at(schema["$ref"])
            return self.struct_type(ref, target) if target.get("properties") else self.type(target, ref)
        kinds = schema.get("type", "any")
        kind = next(k for k in kinds if k != "null") if isinstance(kinds, list) else kinds
        if kind == "array":
            return Type("list", item=self.type(schema.get("items", {}), name + "Row"))
        if kind == "object" and schema.get("properties"):
            return self.struct_type(name, schema)
        if kind == "object":
            return Type("map" if isinstance(schema.get("additionalProperties"), dict) else "object")
        if kind == "string" and schema.get("contentEncoding") == "base64":
            return Type("bytes")
        return Type(kind, enum=tuple(schema.get("enum", ())) if kind == "string" else ())

    def struct_type(self, name: str, schema: Dict[str, Any]) -> Type:
        if name not in self.structs:
            self.structs[name] = Struct(name, [], schema.get("description", ""))
            self.structs[name].fields = self.fields(schema, name)
        return Type("ref", ref=name)

    def fields(self, schema: Dict[str, Any], owner: str) -> List[Field]:
        need = schema.get("required", [])
        # A setting has a dotted name too. The clients use the nested form.
        return [self.field(name, rows, name in need, owner) for name, rows in schema.get("properties", {}).items()
                if "." not in name]

    def field(self, name: str, schema: Dict[str, Any], required: bool, owner: str) -> Field:
        limits = next((o for o in schema.get("anyOf", []) if "minimum" in o or "maximum" in o), schema)
        return Field(name, self.type(schema, owner + name[0].upper() + name[1:]), schema.get("description", ""), required,
                     schema.get("minimum", limits.get("minimum")), limits.get("maximum"), schema.get("maxLength"),
                     schema.get("maxItems", schema.get("maxProperties")), schema.get("default"))

    def forms(self, schema: Dict[str, Any]) -> List[Dict[str, Any]]:
        """The alternatives of a request body or an answer."""
        schema = self.resolve(schema)
        return [form for part in schema["oneOf"] for form in self.forms(part)] if "oneOf" in schema else [schema]

    def body(self, schema: Dict[str, Any], owner: str) -> List[Field]:
        """A field is required if each form requires it."""
        merged: Dict[str, Field] = {}
        forms = self.forms(schema)
        for form in forms:
            for f in self.fields(form, owner):
                f.required = all(f.name in other.get("required", []) for other in forms)
                merged.setdefault(f.name, f)
        return list(merged.values())

    def answer(self, schema: Dict[str, Any], name: str = "") -> List[str]:
        """The Structs of an answer, or of a request body. `name` is for a form that has none in the document."""
        name = schema.get("$ref", name).split("/")[-1]
        schema = self.resolve(schema)
        if "oneOf" in schema:
            return [found for part in schema["oneOf"] for found in self.answer(part, name)]
        return [self.struct_type(name, schema).ref] if name and schema.get("properties") else []

    def parameters(self, rows: List[Dict[str, Any]], place: str) -> List[Field]:
        found = [self.resolve(row) for row in rows]
        for row in found:
            row["schema"] = of_text(row["schema"])
        return [self.field(row["name"], {**row["schema"], "description": row.get("description", "")},
                           row.get("required", False), "") for row in found if row["in"] == place]

    def operation(self, path: str, method: str, o: Dict[str, Any], shared: List[Dict[str, Any]]) -> Operation:
        rows = shared + o.get("parameters", [])
        headers = {f.name for f in self.parameters(rows, "header")}
        content = o.get("requestBody", {}).get("content", {}).get("application/json", {})
        answers: List[str] = []
        stream = False
        errors: Dict[int, str] = {}
        for status, response in o["responses"].items():
            response = self.resolve(response)
            code = re.match(r"[A-Z_]+(?=:)", response["description"])
            if int(status) >= 400 and code:
                errors[int(status)] = code[0]
            if int(status) >= 400:
                continue
            kinds = response.get("content", {})
            stream = stream or "text/event-stream" in kinds and "application/json" not in kinds
            for name in self.answer(kinds.get("application/json", {}).get("schema", {})):
                if name not in answers:
                    answers.append(name)
        name = o["operationId"]
        repeat = READ if method == "get" else ID if "Sluice-Request" in headers else REPEAT[name]
        owner = content["schema"].get("$ref", name[0].upper() + name[1:]).split("/")[-1] if content else ""
        body = self.body(content["schema"], owner) if content else []
        struct = self.answer(content["schema"]) if content and "$ref" in content["schema"] else []
        # Parameters of the same name are for a body of raw bytes, which the clients do not send.
        query = [f for f in self.parameters(rows, "query") if f.name not in {g.name for g in body}]
        return Operation(name, method.upper(), path, o.get("summary", "") + ".", o.get("x-sluice-scope", ""), repeat,
                         SAME_WITH.get(name, ""), self.parameters(rows, "path"), query, body,
                         struct[0] if len(struct) == 1 else "", o.get("requestBody", {}).get("required", False), answers, stream, "Sluice-Worker" in headers,
                         name in OWNED, errors, o.get("x-sluice-body-max"))


def mark_answers(structs: Dict[str, Struct], operations: List[Operation]) -> None:
    todo = [name for o in operations for name in o.answer]
    while todo:
        found = structs[todo.pop()]
        if found.of_answer:
            continue
        found.of_answer = True
        for f in found.fields:
            inner = f.type.item if f.type.item else f.type
            todo += [inner.ref] if inner.ref else []


def error_codes(reader: Reader, operations: List[Operation]) -> List[ErrorCode]:
    """A code has the status that answers have it with. DENIED has two: 401 is the one without a known token."""
    found: Dict[str, ErrorCode] = {}
    for response in reader.document["components"]["responses"].values():
        code, _, doc = response["description"].partition(": ")
        if not re.fullmatch(r"[A-Z_]+", code):
            continue
        status = max((s for o in operations for s, c in o.errors.items() if c == code and s != 413), default=0)
        name = NAMES.get(code, "".join(word.capitalize() for word in code.split("_")))
        found[code] = ErrorCode(code, name, status, doc)
    return list(found.values())


def load(path: str) -> Model:
    with open(path, encoding="utf-8") as f:
        document = json.load(f)
    reader = Reader(document)
    operations = []
    for pattern, methods in document["paths"].items():
        shared = methods.get("parameters", [])
        for method, o in methods.items():
            if method != "parameters" and o["operationId"] not in LEFT_OUT and not o.get("x-sluice-peer"):
                operations.append(reader.operation(pattern, method, o, shared))
    mark_answers(reader.structs, operations)
    return Model(document["info"]["version"], operations, list(reader.structs.values()),
                 error_codes(reader, operations), {o.id: o for o in operations})
