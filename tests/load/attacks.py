# SPDX-License-Identifier: Apache-2.0
"""One client attacks a node while others use it.

    attacks.py SLUICE json    [--mib N]                     a JSON body that is small as text and large as a tree
    attacks.py SLUICE stats   [--requests N] [--queues N]   one read token asks for everything, many times at once
    attacks.py SLUICE streams                               one token opens every event stream
    attacks.py SLUICE heads   [--connections N] [--most N] [--seconds N] [--patient]   half-sent heads of one address

The attacker is a process of its own. The figures are printed as comments, the facts as TAP cases. No case depends on
time: each compares the order of answers, a status, or a size.
"""
import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import re
import resource
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE = 120  # seconds for one answer
ROUNDS = 20
CASES = []


def case(name, good, detail=""):
    CASES.append(good)
    print(f"{'ok' if good else 'not ok'} {len(CASES)} - {name}", flush=True)
    if detail:
        print(f"# {detail}", flush=True)


def note(text):
    print(f"# {text}", flush=True)


class Node:
    """A node with three tokens, on a store of its own."""

    def __init__(self, program, settings):
        self.program = program
        self.folder = tempfile.mkdtemp(prefix="sluice-attack-", dir=os.environ.get("TMPDIR", "/var/tmp"))
        self.tokens, lines = {}, []
        for name, scope in (("admin", "admin"), ("attacker", "read"), ("sender", "send,work")):
            made = subprocess.run([program, "token", "new", "--scope", scope, "--queue", "*", "--name", name, "--json"],
                                  check=True, stdout=subprocess.PIPE)
            made = json.loads(made.stdout)
            self.tokens[name] = made["token"]
            lines.append(made["line"])
        path = os.path.join(self.folder, "tokens")
        with open(path, "w", encoding="ascii") as out:
            out.write("\n".join(lines) + "\n")
        options = [word for setting in settings for word in ("--set", setting)]
        self.process = subprocess.Popen(
            [program, "--store", os.path.join(self.folder, "store"), "--json", "serve", "--listen", "127.0.0.1:0",
             "--set", f"tokens={path}", "--set", "log.level=error", *options],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.address = json.loads(self.process.stdout.readline())["address"]
        host, port = self.address.rsplit(":", 1)
        self.at = (host, int(port))

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def memory_mib(self, field):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(rf"{field}:\s+(\d+)", status.read()).group(1)) / 1024

    def head(self, token):
        return {"Authorization": f"Bearer {self.tokens[token]}"} if token else {}

    def ask(self, method, path, token=None, body=None, source=None):
        """(status, body, seconds), on a connection of its own."""
        began = time.monotonic()
        line = http.client.HTTPConnection(*self.at, timeout=PATIENCE, source_address=(source, 0) if source else None)
        try:
            line.request(method, path, body, self.head(token) | ({"Content-Type": "application/json"} if body else {}))
            reply = line.getresponse()
            return reply.status, reply.read(), time.monotonic() - began
        finally:
            line.close()


class Probe(threading.Thread):
    """Asks for the same thing over and over; remembers the longest wait and what was answered."""

    def __init__(self, node, method, path, token=None, source=None):
        super().__init__(daemon=True)
        self.node, self.call, self.source = node, (method, path, token), source
        self.over, self.worst, self.count, self.statuses = threading.Event(), 0.0, 0, {}
        self.start()

    def run(self):
        method, path, token = self.call
        while not self.over.is_set():
            began = time.monotonic()
            try:
                status = self.node.ask(method, path, token, source=self.source)[0]
            except OSError as error:
                status = type(error).__name__
            self.worst = max(self.worst, time.monotonic() - began)
            self.count += 1
            self.statuses[status] = self.statuses.get(status, 0) + 1
            self.over.wait(0.02)

    def end(self):
        self.over.set()
        self.join()
        note(f"{self.call[0]} {self.call[1]}: worst wait {self.worst * 1000:.0f} ms, {self.count} calls, "
             f"statuses {self.statuses}")
        return self


def probes(node, source=None):
    return [Probe(node, "GET", "/readyz", source=source), Probe(node, "GET", "/healthz", source=source),
            Probe(node, "PATCH", "/v1/queues/q0", "admin", source=source),
            Probe(node, "GET", "/metrics", "admin", source=source)]


@contextlib.contextmanager
def attacker(work, *arguments):
    """A process of its own: its threads and the probes' do not share an interpreter."""
    process = multiprocessing.Process(target=work, args=arguments, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.terminate()
        process.join()


# ---- JSON

def send_bomb(node, mib, told):
    unit = b"{},"
    body = b'{"messages":[' + unit * ((mib << 20) // len(unit)) + b"{}]}"
    status, text, seconds = node.ask("POST", "/v1/queues/q0/messages", "sender", body)
    told.put((status, text.decode(errors="replace")[:300], seconds))


def attack_json(options):
    node = Node(options.sluice, [])
    try:
        node.ask("PUT", "/v1/queues/q0", "admin", b"{}")
        before = node.memory_mib("VmHWM")
        told = multiprocessing.Queue()
        watching = probes(node)
        with attacker(send_bomb, node, options.mib, told):
            status, text, seconds = told.get(timeout=PATIENCE)
        for probe in watching:
            probe.end()
        peak = node.memory_mib("VmHWM")
        note(f"{options.mib} MiB of {{}}: {status} after {seconds:.1f} s; {text}")
        note(f"resident memory: {before:.0f} MiB before, {peak:.0f} MiB at most")
        bound = 2 * 256 + before  # limits.bodyMemory, and what the C library keeps of it
        case("what JSON becomes is counted before it is made", peak < bound, f"{peak:.0f} of {bound:.0f} MiB")
        case("a body that would become too much is refused with the limit's name",
             status == 413 and "limits.bodyMemory" in text, text)
        status, _, _ = node.ask("POST", "/v1/queues/q0/messages", "sender", b'{"body": "x"}')
        case("the next send is taken", status == 201, str(status))
    finally:
        node.stop()


# ---- statistics

def request_bytes(node, method, path, token, body=b""):
    return (f"{method} {path} HTTP/1.1\r\nHost: {node.address}\r\nAuthorization: Bearer {node.tokens[token]}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            ).encode() + body


def read_all(lines):
    """The statuses of the answers, counted."""
    statuses = {}
    for line in lines:
        some = line.recv(1 << 20)
        status = some[9:12].decode()
        statuses[status] = statuses.get(status, 0) + 1
        while line.recv(1 << 20):
            pass
        line.close()
    return statuses


def overtake(node, count, told):
    """Sends all of the attacker's requests, then one of the administrator. Tells how many of the attacker's were
    answered when the administrator's answer was seen first, and all statuses."""
    lines = [socket.create_connection(node.at, PATIENCE) for _ in range(count + 1)]
    *attacks, first = lines
    for line in attacks:
        line.sendall(request_bytes(node, "GET", "/v1/queues?stats=1", "attacker"))
    first.sendall(request_bytes(node, "PATCH", "/v1/queues/q0", "admin", b"{}"))
    chosen = selectors.DefaultSelector()
    for line in lines:
        chosen.register(line, selectors.EVENT_READ)
    ready = []
    while first not in ready:
        ready = [key.fileobj for key, _ in chosen.select()]
    chosen.close()
    told.put((len(ready) - 1, read_all([first]), read_all(attacks)))


def attack_stats(options):
    node = Node(options.sluice, [])
    try:
        for i in range(options.queues):
            node.ask("PUT", f"/v1/queues/q{i}", "admin", b"{}")
        node.ask("GET", "/metrics", "admin")
        told = multiprocessing.Queue()
        watching, enough, seen, rounds = probes(node), options.requests // 4, [], []
        # A busy machine may look so late that all are answered. A node that lets the administrator wait never answers
        # it before a quarter of the others, so that one round shows that it does not.
        while len(rounds) < ROUNDS and (not seen or seen[-1] >= enough):
            with attacker(overtake, node, options.requests, told):
                before, *statuses = told.get(timeout=PATIENCE)
            seen.append(before)
            rounds.append(statuses)
        ready = [probe.end() for probe in watching][0]
        note(f"{options.requests} requests for the stats of {options.queues} queues, and one of the administrator; "
             f"answered before the administrator's, by rounds: {seen}; statuses: {rounds[-1]}")
        case("an administrator's call does not wait for another client's",
             seen[-1] < enough and rounds[-1][0] == {"200": 1}, str(seen))
        case("every request is answered", all(sum(round[1].values()) == options.requests for round in rounds),
             str(rounds[-1]))
        case("the node stays ready", 200 in ready.statuses, str(ready.statuses))
    finally:
        node.stop()


# ---- streams

def attack_streams(options):
    node = Node(options.sluice, ["limits.streams=8"])
    lines = []

    def open_stream(token):
        line = http.client.HTTPConnection(*node.at, timeout=PATIENCE)
        line.request("GET", "/v1/queues/q0/events?from=now", headers=node.head(token))
        lines.append(line)
        return line.getresponse().status

    try:
        node.ask("PUT", "/v1/queues/q0", "admin", b"{}")
        held = [open_stream("attacker") for _ in range(8)]
        case("one client may have every stream while no other client wants one", held == [200] * 8, str(held))
        case("... and not one more", open_stream("attacker") == 429)
        others = [open_stream("admin") for _ in range(4)]
        case("another client gets its share of the streams", others == [200] * 4, str(others))
        case("... and no more than its share", open_stream("admin") == 429)
    finally:
        for line in lines:
            line.close()
        node.stop()


# ---- half-sent heads

def send_heads(node, count, opened):
    """Keeps so many connections with half a head open, and opens another for each that is closed."""
    chosen = selectors.DefaultSelector()
    while True:
        while len(chosen.get_map()) < count:
            line = socket.socket()
            line.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                line.connect(node.at)
            chosen.register(line, selectors.EVENT_READ | selectors.EVENT_WRITE)
            if len(chosen.get_map()) % 256 == 0:
                break
        for key, events in chosen.select(0.01):
            gone = False
            try:
                if events & selectors.EVENT_WRITE:
                    key.fileobj.send(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n")
                    chosen.modify(key.fileobj, selectors.EVENT_READ)
                    opened.value += 1
                if events & selectors.EVENT_READ:
                    gone = not key.fileobj.recv(4096)
            except OSError:
                gone = True
            if gone:
                chosen.unregister(key.fileobj)
                key.fileobj.close()


def attack_heads(options):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # Without shares only time would help, and there is none.
    slow = ["limits.idle=1h", "limits.headTimeout=1h"] if options.patient else []
    node = Node(options.sluice, [f"limits.connections={options.most}", *slow])
    try:
        node.ask("PUT", "/v1/queues/q0", "admin", b"{}")
        opened = multiprocessing.Value("L", 0)
        with attacker(send_heads, node, options.connections, opened):
            # The node takes no more than it may have: what comes after that waits, or takes another's place.
            while opened.value < min(options.connections, options.most):
                time.sleep(0.01)
            began = time.monotonic()
            try:
                status = node.ask("GET", "/v1/queues/q0", "admin", source="127.0.0.2")[0]
            except OSError as error:
                status = type(error).__name__
            seconds = time.monotonic() - began
            case("another address is answered while one holds half-sent heads", status == 200,
                 f"{status} after {seconds * 1000:.0f} ms")
            watching = probes(node, "127.0.0.2")
            time.sleep(options.seconds)
            watching = [probe.end() for probe in watching]
        note(f"{options.connections} half-sent heads, {opened.value} were opened in all")
        case("the node stays ready for others", 200 in watching[0].statuses, str(watching[0].statuses))
    finally:
        node.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sluice")
    parser.add_argument("attack", choices=["json", "stats", "streams", "heads"])
    parser.add_argument("--mib", type=int, default=84)
    parser.add_argument("--requests", type=int, default=1100)
    parser.add_argument("--queues", type=int, default=200)
    parser.add_argument("--connections", type=int, default=11000)
    parser.add_argument("--most", type=int, default=10000, help="limits.connections")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--patient", action="store_true", help="half-sent heads have an hour to be completed")
    options = parser.parse_args()
    multiprocessing.set_start_method("fork")
    note(f"load average {os.getloadavg()[0]:.1f}")
    {"json": attack_json, "stats": attack_stats, "streams": attack_streams, "heads": attack_heads}[options.attack](options)
    print(f"1..{len(CASES)}")
    return 0 if all(CASES) else 1


if __name__ == "__main__":
    sys.exit(main())
