# SPDX-License-Identifier: Apache-2.0
"""http:// and https:// as the store: a node that is killed, that wants a token, that has a certificate of its own."""
import contextlib
import http.server
import json
import re
import secrets
import shutil
import signal
import socket
import socketserver
import ssl
import subprocess
import threading

from harness import DENIED, INVALID, PATIENCE, PROGRAM, UNAVAILABLE, Skipped, case, contains, holds, main, same, until

LINES = 3000
KILLS = 4


class Node:
    """A node on the case's store, on the address it had before.

    Its port is below those that the system assigns, so no socket gets it while the node is away.
    """

    def __init__(self, sluice, *options):
        self.sluice, self.options, self.process = sluice, options, None
        until(self.start_somewhere, "a free port")

    def start_somewhere(self):
        self.address = f"127.0.0.1:{12000 + secrets.randbelow(18000)}"
        return self.start()

    def start(self):
        self.process = subprocess.Popen([PROGRAM, "serve", "--listen", self.address, "--node", "one", "--json",
                                         *self.options], cwd=self.sluice.folder, env=self.sluice.on_store,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if self.process.stdout.readline():
            return True
        self.end()  # another process has the port
        return False

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(timeout=PATIENCE)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def env(self, scheme="http", **more):
        return {"SLUICE_STORE": f"{scheme}://{self.address}"} | more


def take_some(sluice, env):
    """Receives and acknowledges; how many there were."""
    messages = sluice.ok("receive", "q", "--max", "200", "--wait", "1s", "--json", env=env).lines()
    if messages:
        sluice.ok("ack", "q", *[message["token"] for message in messages], env=env)
    return len(messages)


@case
def a_node_that_is_killed_loses_nothing_and_does_nothing_twice(sluice):
    sluice.create("q", "visibilityTimeout=30s")
    lines = sluice.path("lines", "".join(f"{number}\n" for number in range(LINES)))
    with Node(sluice) as node:
        env = node.env()
        sender = threading.Thread(target=lambda: sluice.ok("send", "q", "--lines", lines, env=env))
        sender.start()
        for _ in range(KILLS):
            node.end(signal.SIGKILL)
            restart = threading.Thread(target=node.start)
            restart.start()
            take_some(sluice, env)
            restart.join()
            take_some(sluice, env)
        sender.join()
        until(lambda: take_some(sluice, env) == 0 and sluice.json("stats", "q", env=env)["processed"] == LINES,
              "every message is processed", seconds=2 * PATIENCE)
        audit = sluice.json("audit", "q", env=env)
    same([audit[key] for key in ("messages", "processed", "heldByTwo", "ackedTwice")], [LINES, LINES, 0, 0])


@case
def a_token_is_wanted_and_never_shown(sluice):
    good = sluice.json("token", "new", "--scope", "admin", "--queue", "*")
    sender = sluice.json("token", "new", "--scope", "send", "--queue", "q")
    tokens = sluice.path("tokens", f"{good['line']}\n{sender['line']}\n")
    with Node(sluice, "--tokens", tokens) as node:
        for env in (node.env(), node.env(SLUICE_TOKEN="wrong-token")):
            error = sluice.refused(DENIED, "queue", "create", "q", env=env, says="SLUICE_TOKEN")
            holds("wrong-token" not in error["message"], "the token was shown")
        sluice.refused(DENIED, "stats", says="the node rejected the token in SLUICE_TOKEN",
                       env=node.env(SLUICE_TOKEN="wrong-token"))
        result = sluice.run("doctor", env=node.env())
        same(result.status, DENIED)
        contains(result.out, "access", "SLUICE_TOKEN")
        env = node.env(SLUICE_TOKEN=good["token"])
        sluice.ok("queue", "create", "q", env=env)
        contains(sluice.ok("doctor", env=env).out, "new: its journal is empty, and nothing was sent yet")
        sluice.ok("send", "q", "x", env=node.env(SLUICE_TOKEN=sender["token"]))
        sluice.refused(DENIED, "receive", "q", says="work", env=node.env(SLUICE_TOKEN=sender["token"]))
        contains(sluice.ok("doctor", env=env).out, "the token is accepted", "queue q")
        error = sluice.refused(INVALID, "stats", says="SLUICE_TOKEN",
                               env={"SLUICE_STORE": f"http://{good['token']}@{node.address}"})
        holds(good["token"] not in error["message"], "the token was shown")


def self_signed(sluice):
    """Key and certificate, for 127.0.0.1."""
    if not shutil.which("openssl"):
        raise Skipped("there is no openssl to make a certificate with")
    key, certificate = sluice.path("key.pem"), sluice.path("certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return key, certificate


@case
def a_certificate_of_ones_own_is_trusted_when_named(sluice):
    key, certificate = self_signed(sluice)
    with Node(sluice, "--tls-certificate", certificate, "--tls-key", key) as node:
        contains(error_of_tls_to(sluice, node.address), "securely", "SLUICE_CA")
        sluice.refused(UNAVAILABLE, "queue", "list", says="https://", env=node.env("http"))
        missing = sluice.path("missing.pem")
        sluice.refused(INVALID, "queue", "list", says=f"SLUICE_CA: cannot read {missing}", field="SLUICE_CA",
                       env=node.env("https", SLUICE_CA=missing))
        env = node.env("https", SLUICE_CA=certificate)
        sluice.ok("queue", "create", "q", env=env)
        sluice.ok("send", "q", "x", env=env)
        same(sluice.ok("receive", "q", "--json", env=env).lines()[0]["body"], "x")
        same([event["type"] for event in sluice.ok("events", "q", "--json", env=env).lines()],
             ["message-enqueued", "message-claimed"])


PLAIN = "{0} does not speak TLS; use http://{0}"
CLOSED = "{0} closed the connection during the TLS handshake; if it does not speak TLS, use http://{0}"


def error_of_tls_to(sluice, address):
    """How https:// to this address is refused; asked again where a busy machine let the time run out before."""
    def message():
        error = sluice.refused(UNAVAILABLE, "stats", env={"SLUICE_STORE": f"https://{address}"})
        return None if re.search(r" within \d+ ms", error["message"]) else error["message"]

    return until(message, "a refusal in time", seconds=2 * PATIENCE)


@case
def tls_to_a_node_without_it_is_refused_with_the_url_to_use(sluice):
    """The client's first record has random bytes, which decide whether the node answers it or hangs up."""
    with Node(sluice) as node:
        message = error_of_tls_to(sluice, node.address)
        holds("not speak TLS" in message and message.endswith(f"use http://{node.address}"), message)


@case
def tls_to_a_plain_server_is_refused_with_the_url_to_use(sluice):
    for answer, sentence in ((b"HTTP/1.1 400 Bad Request\r\n\r\n", PLAIN), (b"", CLOSED)):
        class Plain(socketserver.BaseRequestHandler):
            def handle(self):
                self.request.recv(1 << 16)
                self.request.sendall(answer)

        with served(socketserver.ThreadingTCPServer, Plain) as address:
            same(error_of_tls_to(sluice, address), sentence.format(address))


@case
def a_certificate_that_is_not_trusted_is_met_once_by_each_command(sluice):
    key, certificate = self_signed(sluice)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    alerts = []

    class Secure(socketserver.BaseRequestHandler):
        def handle(self):
            try:
                context.wrap_socket(self.request, server_side=True).close()
            except ssl.SSLError as error:
                alerts.append(error.reason)
            except OSError:  # the client gave up
                pass

    with served(socketserver.ThreadingTCPServer, Secure) as address:
        result = sluice.run("stats", env={"SLUICE_STORE": f"https://{address}"})
        same(result.status, UNAVAILABLE, str(result))
    same(alerts, ["TLSV1_ALERT_UNKNOWN_CA"], str(result))


@contextlib.contextmanager
def served(server, handler):
    with server(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        try:
            yield "127.0.0.1:%d" % running.server_address[1]
        finally:
            running.shutdown()
            thread.join()


@case
def a_url_that_leads_to_no_node_is_named(sluice):
    for status in (404, 200):
        class Other(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        with served(http.server.ThreadingHTTPServer, Other) as address:
            url = f"http://{address}"
            says = [url, "is not a Sluice node; check the URL (a node listens on 7333 by default)"]
            sluice.refused(INVALID, "stats", says=says + ["answered 404"] * (status == 404), env={"SLUICE_STORE": url})


HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\x7f\r"
COMMANDS = (["stats"], ["stats", "q"], ["queue", "list"], ["queue", "show", "q"], ["queue", "create", "q"],
            ["queue", "pause", "q"], ["send", "q", "x"], ["receive", "q"], ["ack", "q", "3f9a01cc-0-17-" + "0" * 32],
            ["peek", "q"], ["show", "q", "3f9a01cc-0-17"], ["cancel", "q", "3f9a01cc-0-17"], ["redrive", "q"],
            ["workers", "q"], ["workflow", "list", "q"], ["workflow", "show", "q", "w"], ["signals", "q"],
            ["cluster", "status"], ["cluster", "plan"], ["doctor"], ["upgrade", "q", "--check"])


@case
def a_hostile_node_sends_nothing_to_the_terminal(sluice):
    """Neither in an error nor in an answer, also if the output goes into a pipe and then into a pager."""
    said = [HOSTILE] * 2
    counts = dict.fromkeys(("open", "done", "failed", "cancelled", "run", "begun", "seen", "leaseMs", "epoch", "shards"), 1)
    texts = dict.fromkeys(("id", "name", "state", "backend", "leader", "node", "degradedWhy", "flags", "queue", "status",
                           "url", "version", "worker", "reason", "body"), HOSTILE)
    answer = counts | texts | {"degraded": True, "draining": True, "members": [texts], "queues": [HOSTILE], "tasks": [],
                               "settings": {"failureStrategy": {"deadLetterQueue": HOSTILE}}, "workflows": [texts | counts],
                               "messages": [texts], "workers": [texts], "signals": [texts], "nodes": [texts]}
    problem = {"type": "about:blank", "title": HOSTILE, "status": 409, "code": "CONFLICT", "reason": "x", "field": "q",
               "detail": " ".join(said)}
    for status, body in ((409, problem), (200, answer)):
        class Hostile(http.server.BaseHTTPRequestHandler):
            def reply(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                data = b"{}" if self.path.startswith("/healthz") else json.dumps(body).encode()
                self.send_response(200 if self.path.startswith("/healthz") else status)
                for name, value in (("Sluice-Node", "hostile"), ("Content-Type", "application/json"),
                                    ("Content-Length", str(len(data)))):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = reply

            def log_message(self, *_):
                pass

        with served(http.server.ThreadingHTTPServer, Hostile) as address:
            for words in COMMANDS:
                told = sluice.run(*words, env={"SLUICE_STORE": f"http://{address}"})
                holds("is not a Sluice node" not in told.err, str(told))
                holds(not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", told.out + told.err), f"{status} {words}: {told}")


@case
def a_command_says_what_it_waits_for(sluice):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connects, and never answers
        url = "http://127.0.0.1:%d" % silent.getsockname()[1]
        for words in (["stats"], ["send", "q", "x"], ["doctor"]):
            told = sluice.run(*words, env={"SLUICE_STORE": url})
            same(told.waits, [f"sluice: no answer from {url} for 2s; trying for up to 4s\n"], str(told))
            same(told.status, UNAVAILABLE, str(told))
        same(sluice.run("stats", "--quiet", env={"SLUICE_STORE": url}).waits, [])
        same(sluice.run("stats", "--json", env={"SLUICE_STORE": url}).waits, [])


@case
def a_node_that_is_not_there_is_named(sluice):
    with Node(sluice) as node:
        env = node.env()
    sluice.refused(UNAVAILABLE, "queue", "list", says=node.address, env=env)
    sluice.refused(INVALID, "serve", says="a node already", field="store", env=env)


main(at_once=4)
