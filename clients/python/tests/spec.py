# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of clients/spec, with the blocking client and with the asyncio client."""
from __future__ import annotations

import asyncio
import base64
import inspect
import json
import os
import subprocess
import sys
import time
import urllib.request
from typing import Any, Dict, List

import sluice

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "spec")


def bytes_in(value: Any) -> Any:
    return base64.b64decode(value["$bytes"]) if isinstance(value, dict) and "$bytes" in value else value


def bytes_out(value: Any) -> Any:
    return {"$bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def seconds(value: Any) -> Any:
    return None if value is None else value / 1000


class Runner:
    """The calls of one case. A method returns a value, or an awaitable of the asyncio client."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.jobs: List[Any] = []

    def make(self, call: Dict[str, Any]) -> Any:
        return getattr(self, "do_" + call["do"])(call)

    def do_send(self, c: Dict[str, Any]) -> Any:
        o = dict(c.get("options", {}))
        if "delay_ms" in o:
            o["delay"] = seconds(o.pop("delay_ms"))
        if "at_ms" in o:
            o["at"] = seconds(o.pop("at_ms"))
        return self.client.queue(c["queue"]).send(bytes_in(c["body"]), **o)

    def do_send_many(self, c: Dict[str, Any]) -> Any:
        return self.client.queue(c["queue"]).send_many([bytes_in(body) for body in c["bodies"]])

    def do_receive(self, c: Dict[str, Any]) -> Any:
        return self.client.queue(c["queue"]).receive(max=c.get("max", 1), wait=c.get("wait_ms", 0) / 1000)

    def do_ack(self, c: Dict[str, Any]) -> Any:
        return self.jobs[c["job"]].ack(c.get("result_value"))

    def do_fail(self, c: Dict[str, Any]) -> Any:
        return self.jobs[c["job"]].fail(c["reason"])

    def do_release(self, c: Dict[str, Any]) -> Any:
        return self.jobs[c["job"]].release(seconds(c.get("delay_ms")))

    def do_renew(self, c: Dict[str, Any]) -> Any:
        return self.jobs[c["job"]].renew(seconds(c.get("visibility_ms")))

    def do_stats(self, c: Dict[str, Any]) -> Any:
        return self.client.queue(c["queue"]).stats()

    def do_redrive(self, c: Dict[str, Any]) -> Any:
        return self.client.queue(c["queue"]).redrive()

    def do_delete(self, c: Dict[str, Any]) -> Any:
        return self.client.queue(c["queue"]).delete(id=c.get("id"))

    def do_create(self, c: Dict[str, Any]) -> Any:
        return self.client.create(c["queue"], c["settings"])

    def do_collect(self, c: Dict[str, Any]) -> Any:
        return self.client.queue(c["queue"]).collect(c["ids"])

    def do_result(self, c: Dict[str, Any]) -> Any:
        return self.client.queue(c["queue"]).result(c["id"], timeout=c["timeout_ms"] / 1000)

    def neutral(self, do: str, value: Any) -> Any:
        """The result in the words of the cases."""
        if do == "send":
            return {"id": value.id, "duplicate": value.duplicate}
        if do == "send_many":
            return {"sent": [{"id": row.id, "duplicate": row.duplicate} for row in value]}
        if do == "receive":
            self.jobs += value
            return {"jobs": [{"id": j.id, "body": bytes_out(j.body), "attempt": j.attempt} for j in value]}
        if do == "redrive":
            return {"redriven": value}
        if do == "create":
            return {"name": value.name}
        if do == "result":
            return {"value": value}
        return value or {}


def matches(want: Any, got: Any) -> bool:
    if isinstance(want, dict):
        return isinstance(got, dict) and all(k in got and matches(v, got[k]) for k, v in want.items())
    if isinstance(want, list):
        return isinstance(got, list) and len(want) == len(got) and all(map(matches, want, got))
    return bool(want == got)


def error_problems(want: Dict[str, Any], error: sluice.SluiceError) -> List[str]:
    wrong = [] if type(error).__name__ == want["class"] else [f"{type(error).__name__} was raised, not {want['class']}"]
    wrong += [f"{key} is {getattr(error, key)!r}, not {want[key]!r}" for key in ("code", "reason", "field")
              if key in want and getattr(error, key) != want[key]]
    if "retry_after_ms" in want and error.retry_after != want["retry_after_ms"] / 1000:
        wrong.append(f"retry_after is {error.retry_after}")
    if want.get("detail_has", "") not in error.detail:
        wrong.append(f"the detail is {error.detail!r}")
    return wrong


async def run_case(case: Dict[str, Any], url: str, kind: Any) -> List[str]:
    options = case.get("options", {})
    client = kind(url, token=options.get("token", ""), timeout=options.get("timeout_ms", 10000) / 1000)
    runner = Runner(client)
    wrong: List[str] = []
    for number, call in enumerate(case["calls"]):
        if call["do"] == "pause_ms":
            await asyncio.sleep(call["ms"] / 1000)
            continue
        try:
            value = runner.make(call)
            value = await value if inspect.isawaitable(value) else value
        except sluice.SluiceError as e:
            problems = error_problems(call["error"], e) if "error" in call else [f"{type(e).__name__} was raised: {e}"]
            wrong += [f"call {number}: {text}" for text in problems]
            continue
        got = runner.neutral(call["do"], value)
        if "error" in call:
            wrong.append(f"call {number}: it returned {got}, and raised no {call['error']['class']}")
        elif not matches(call["result"], got):
            wrong.append(f"call {number}: it returned {got}, not {call['result']}")
    closed = client.close()
    if inspect.isawaitable(closed):
        await closed
    return wrong


def ask(address: str, path: str, method: str = "GET") -> Any:
    with urllib.request.urlopen(urllib.request.Request(address + path, method=method), timeout=10) as answer:
        return json.load(answer)


def run(tap: Any) -> None:
    with subprocess.Popen([sys.executable, "-B", os.path.join(FOLDER, "scripted_node.py")], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as node:
        assert node.stdin and node.stdout
        address = node.stdout.readline().strip()
        cases = ask(address, "/__cases")
        for kind in (sluice.Client, sluice.AsyncClient):
            for number, case in enumerate(cases):
                url = ask(address, f"/__case/{number}", "POST")["url"]
                began = time.monotonic()
                wrong = asyncio.run(run_case(case, url, kind)) + ask(address, "/__check")["wrong"]
                if time.monotonic() - began > 5:
                    wrong.append("it took more than 5 s")
                tap.result(not wrong, f"spec, {kind.__name__}: {case['name']}", wrong)
        node.stdin.close()
