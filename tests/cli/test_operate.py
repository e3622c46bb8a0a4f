# SPDX-License-Identifier: Apache-2.0
"""Operating a node: settings, tokens, TLS, metrics, logs, reloading and stopping, as a process over real HTTP(S)."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import warnings

from harness import DENIED, INVALID, PATIENCE, PROGRAM, case, contains, holds, main, same, until

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
JSON = {"Content-Type": "application/json"}


class Node:
    """sluice serve on a free port, ended with the block. What it logs is in a file."""

    def __init__(self, sluice, *options, environment=None, trust=None, certificate=None):
        self.log_path = os.path.join(sluice.folder, "node.log")
        self.log_file = open(self.log_path, "wb")
        self.tls = None
        if trust:
            self.tls = ssl.create_default_context(cafile=trust)
            if certificate:
                self.tls.load_cert_chain(*certificate)
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--listen", "127.0.0.1:0", "--json", *options], stdout=subprocess.PIPE,
            stderr=self.log_file, stdin=subprocess.DEVNULL, cwd=sluice.folder, env=sluice.on_store | (environment or {}))
        line = self.process.stdout.readline()
        holds(line, f"it did not start: {self.log()}")
        self.hello = json.loads(line)
        self.port = int(self.hello["address"].rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *what):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self.log_file.close()

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def connect(self, context=None):
        if self.tls or context:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=context or self.tls)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(self, method, path, body=None, token=None, context=None):
        line = self.connect(context)
        headers = dict(JSON) if body is not None else {}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            line.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = line.getresponse()
            return answer.status, answer.read().decode()
        finally:
            line.close()

    def signal(self, number):
        self.process.send_signal(number)

    def ends(self):
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode


def write(sluice, name, text):
    path = os.path.join(sluice.folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def new_token(sluice, scope, queue, name):
    made = json.loads(sluice.ok("token", "new", "--scope", scope, "--queue", queue, "--name", name, "--json").out)
    return made["token"], made["line"]


def certificate(sluice, name, authority=None):
    """A key and a certificate for 127.0.0.1: signed by itself, or by the authority."""
    key, cert = (os.path.join(sluice.folder, name + end) for end in (".key", ".crt"))
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
               key, "-out", cert, "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    if authority:
        command += ["-CA", authority[0], "-CAkey", authority[1], "-addext", "basicConstraints=critical,CA:FALSE"]
    made = subprocess.run(command, capture_output=True)
    holds(made.returncode == 0, made.stderr.decode())
    return cert, key


# ---- settings

@case
def check_shows_every_setting_and_where_it_is_from(sluice):
    path = write(sluice, "s.conf", "listen = 127.0.0.1:7001\n[log]\nlevel = warning # quieter\n")
    run = sluice.run("serve", "--config", path, "--set", "limits.idle=5s", "--check", "--json",
                     env={"SLUICE_LOG_FORMAT": "json"})
    same(run.status, 0, run)
    shown = {row["key"]: (row["value"], row["source"]) for row in json.loads(run.out)["settings"]}
    same(shown["listen"], ("127.0.0.1:7001", path + ":1"))
    same(shown["log.level"], ("warning", path + ":3"))
    same(shown["log.format"], ("json", "environment SLUICE_LOG_FORMAT"))
    same(shown["limits.idle"], ("5s", "--set"))
    same(shown["store"], (sluice.store, "environment SLUICE_STORE"))
    same(shown["shutdown.deadline"], ("10s", "default"))
    # What it prints is a file it would take.
    text = sluice.ok("serve", "--config", path, "--check").out
    again = write(sluice, "again.conf", text)
    sluice.ok("serve", "--config", again, "--check")


@case
def wrong_settings_are_refused_with_file_and_line(sluice):
    path = write(sluice, "s.conf", "listen = 127.0.0.1:7001\n\n[limits]\nidle = soon\n")
    sluice.refused(INVALID, "serve", "--config", path, says=f"{path}:4: limits.idle \"soon\"", field="config")
    sluice.refused(INVALID, "serve", "--config", "/none", says="/none: cannot be read", field="config")
    sluice.refused(DENIED, "serve", "--listen", "0.0.0.0:0", says="--insecure", field="listen")
    sluice.refused(INVALID, "serve", "--set", "bogus=1", says="there is no setting bogus", field="bogus")
    sluice.refused(INVALID, "token", "new", "--scope", "fly", "--queue", "*", says="fly", field="token")


@case
def check_refuses_what_serving_would(sluice):
    sluice.refused(INVALID, "serve", "--check", "--store", "s3:/foo", says="s3:/foo", field="store")
    sluice.refused(INVALID, "serve", "--check", "--store", "file:///nonexistent/dir/x",
                   says="there is no folder /nonexistent/dir", field="store")
    sluice.refused(INVALID, "serve", "--check", "--store", "http://127.0.0.1:7333", says="is a node already", field="store")
    sluice.refused(INVALID, "serve", "--check", "--set", "advertise=localhost", says="http://host:port", field="advertise")
    run = sluice.ok("serve", "--check", "--listen", "127.0.0.1:7001").out
    name = socket.gethostname()[:64]
    holds(re.search(rf"^node +=  +# default: {re.escape(name)}-7001$", run, re.M), f"it says what the name will be: {run}")
    holds(re.search(r"^advertise +=  +# default: http://127.0.0.1:7001$", run, re.M), run)


@case
def the_pages_know_every_setting(sluice):
    keys = [row["key"] for row in json.loads(sluice.ok("serve", "--check", "--json").out)["settings"]]
    for page in ("docs/serve.md", "docs/man/sluice-serve.1"):
        with open(os.path.join(ROOT, page)) as file:
            text = file.read()
        for key in keys:
            holds(key in text, f"{page} does not know {key}")


# ---- tokens and reloading

@case
def tokens_are_read_again_on_sighup(sluice):
    sluice.create("mail-out")
    ci, line = new_token(sluice, "send", "mail-*", "ci")
    boss, boss_line = new_token(sluice, "admin", "*", "boss")
    holds(ci not in line and "sha256:" in line, f"the line has only the hash: {line}")
    tokens = write(sluice, "tokens", f"# ours\n{line}\n")
    with Node(sluice, "--tokens", tokens) as node:
        send = ("POST", "/v1/queues/mail-out/messages", {"body": "x"})
        same(node.ask(*send)[0], 401)
        same(node.ask(*send, token=ci)[0], 201)
        status, text = node.ask("GET", "/v1/queues/mail-out/stats", token=ci)
        same(status, 403)
        contains(text, "scope read")
        same(node.ask("GET", "/metrics", token=boss)[0], 401)
        write(sluice, "tokens", boss_line + "\n")
        node.signal(signal.SIGHUP)
        until(lambda: node.ask("GET", "/metrics", token=boss)[0] == 200, "the new token is known")
        same(node.ask(*send, token=ci)[0], 401)
        # A file with a mistake changes nothing, and the log says what is wrong.
        write(sluice, "tokens", "nonsense\n")
        node.signal(signal.SIGHUP)
        until(lambda: "reload-failed" in node.log(), "it says so")
        contains(node.log(), "tokens:1:")
        same(node.ask("GET", "/metrics", token=boss)[0], 200)
        holds(ci not in node.log() and boss not in node.log(), "no secret is in the log")


@case
def a_sighup_never_takes_authentication_away(sluice):
    """With any part of a half-written file, no client gets in that could not before."""
    boss, line = new_token(sluice, "admin", "*", "boss")
    other, other_line = new_token(sluice, "admin", "*", "other")
    tokens = write(sluice, "tokens", line + "\n")
    whole = f"log.level = info\ntokens = {tokens}\n"
    path = write(sluice, "s.conf", whole)
    no_tokens = {"empty": "", "truncated": whole[:whole.index("tokens")], "no value": "tokens =\n", "a section without lines": "[tokens]\n",
                 "another setting alone": "log.requests = yes\n", "told to be insecure": "insecure = yes\n"}
    with Node(sluice, "--config", path) as node:
        for failures, (what, text) in enumerate(no_tokens.items(), 1):
            write(sluice, "s.conf", text)
            node.signal(signal.SIGHUP)
            until(lambda: node.log().count("event=reload-failed") == failures, f"it is refused: {what}: {node.log()}")
            same((node.ask("GET", "/v1/queues")[0], node.ask("GET", "/v1/queues", token=boss)[0]), (401, 200), what)
        same(node.log().count("level=error event=reload-failed"), len(no_tokens))
        same(node.log().count("a reload cannot remove the tokens; restart the node"), len(no_tokens))
        holds("event=request" not in node.log(), "what else the file said was not taken over either")
        for half in (whole[:-3], None):  # a path that was cut; no file
            failures = node.log().count("event=reload-failed")
            write(sluice, "s.conf", half) if half else os.remove(path)
            node.signal(signal.SIGHUP)
            until(lambda: node.log().count("event=reload-failed") > failures, f"it is refused: {node.log()}")
            same((node.ask("GET", "/v1/queues")[0], node.ask("GET", "/v1/queues", token=boss)[0]), (401, 200), half)
        write(sluice, "s.conf", whole)
        write(sluice, "tokens", other_line + "\n")  # other tokens it takes
        node.signal(signal.SIGHUP)
        until(lambda: "event=reloaded" in node.log(), "it was reloaded")
        same((node.ask("GET", "/v1/queues", token=boss)[0], node.ask("GET", "/v1/queues", token=other)[0]), (401, 200))


@case
def a_sighup_may_begin_authentication_and_then_not_end_it(sluice):
    boss, line = new_token(sluice, "admin", "*", "boss")
    path = write(sluice, "s.conf", "")
    with Node(sluice, "--config", path) as node:
        same(node.ask("GET", "/v1/queues")[0], 200)
        write(sluice, "s.conf", f"[tokens]\n{line}\n")
        node.signal(signal.SIGHUP)
        until(lambda: "event=reloaded" in node.log(), "it was reloaded")
        same((node.ask("GET", "/v1/queues")[0], node.ask("GET", "/v1/queues", token=boss)[0]), (401, 200))
        write(sluice, "s.conf", "")
        node.signal(signal.SIGHUP)
        until(lambda: "event=reload-failed" in node.log(), "it is refused")
        same((node.ask("GET", "/v1/queues")[0], node.ask("GET", "/v1/queues", token=boss)[0]), (401, 200))


@case
def log_level_and_limits_change_on_sighup_and_other_settings_need_a_restart(sluice):
    path = write(sluice, "s.conf", "limits.body = 1MiB\n")
    with Node(sluice, "--config", path) as node:
        same(node.ask("GET", "/v1/queues")[0], 200)
        holds("event=request" not in node.log(), "requests are not logged unasked")
        write(sluice, "s.conf", "limits.body = 2MiB\nlimits.requestsPerSecond = 1\nlog.requests = yes\n")
        node.signal(signal.SIGHUP)
        until(lambda: "event=reloaded" in node.log(), "it was reloaded")
        contains(node.log(), "event=restart-needed key=limits.body")
        statuses = [node.ask("GET", "/v1/queues")[0] for _ in range(10)]
        holds(429 in statuses, f"the rate is limited: {statuses}")
        until(lambda: "status=429" in node.log(), "and requests are logged")
        contains(node.log(), "route=/v1/queues", "client=127.0.0.1", "method=GET", "ms=")


@case
def a_log_line_is_one_json_object(sluice):
    sluice.create("tasks")
    environment = {"SLUICE_LOG_FORMAT": "json", "SLUICE_LOG_REQUESTS": "yes"}
    with Node(sluice, environment=environment) as node:
        node.ask("POST", "/v1/queues/tasks/messages", {"body": "the-body-itself"})
        node.ask("GET", "/v1/queues/%22%0Aevent=x/stats")
        node.ask("GET", "/healthz")  # too many ask that for a line each
        node.signal(signal.SIGTERM)
        same(node.ends(), 0)
        lines = [json.loads(line) for line in node.log().splitlines()]
        same(lines[0]["event"], "started")
        events = [line["event"] for line in lines if not line["event"].startswith("ownership-")]  # as the machine is fast
        same(sorted(events), ["request", "request", "started", "stopping"])
        first, second = sorted((line for line in lines if line["event"] == "request"), key=lambda line: line["status"])
        same((first["route"], first["queue"], first["status"]), ("/v1/queues/{queue}/messages", "tasks", 201))
        same(second["status"], 400)
        holds("the-body-itself" not in node.log(), "bodies are not logged")


# ---- TLS

@case
def tls_1_2_has_forward_secrecy_and_no_cbc(sluice):
    cert, key = certificate(sluice, "ciphers")
    with Node(sluice, "--tls-certificate", cert, "--tls-key", key, trust=cert) as node:
        def taken(ciphers):
            context = ssl.create_default_context(cafile=cert)
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers(ciphers + ":@SECLEVEL=0")
            try:
                return node.ask("GET", "/healthz", context=context)[0] == 200
            except (ssl.SSLError, ConnectionError):
                return False

        same(taken("ECDHE+AESGCM"), True)
        for weak in ("kRSA+AESGCM", "kRSA+AES", "ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES128-SHA",
                     "ECDHE-RSA-AES256-SHA384:ECDHE-ECDSA-AES256-SHA384:ECDHE-ECDSA-AES128-SHA256",
                     "CAMELLIA", "DHE-RSA-AES128-SHA"):
            same((weak, taken(weak)), (weak, False))


@case
def a_node_with_tls_takes_a_new_certificate_on_sighup(sluice):
    cert, key = certificate(sluice, "one")
    with Node(sluice, "--tls-certificate", cert, "--tls-key", key, trust=cert) as node:
        same(node.hello["scheme"], "https")
        same(node.ask("GET", "/healthz")[0], 200)
        old = ssl.create_default_context(cafile=cert)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that 1.1 is old is the point
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        try:
            node.ask("GET", "/healthz", context=old)
            holds(False, "TLS 1.1 is refused")
        except (ssl.SSLError, ConnectionError):
            pass
        other, other_key = certificate(sluice, "two")
        kept = node.connect()
        kept.request("GET", "/healthz")
        same(kept.getresponse().read() != b"", True)
        shutil.copy(other_key, key)
        node.signal(signal.SIGHUP)  # half of it is there
        until(lambda: "reload-failed" in node.log(), "a key of another certificate is refused")
        same(node.ask("GET", "/healthz")[0], 200)
        shutil.copy(other, cert)
        node.signal(signal.SIGHUP)
        until(lambda: "event=reloaded" in node.log(), "it was reloaded")
        same(node.ask("GET", "/healthz", context=ssl.create_default_context(cafile=other))[0], 200)
        kept.request("GET", "/healthz")  # a client that is connected stays
        same(kept.getresponse().status, 200)
        kept.close()


@case
def clients_prove_their_identity_when_the_node_asks(sluice):
    ours, ours_key = certificate(sluice, "ours")
    cert, key = certificate(sluice, "node")
    client = certificate(sluice, "client", authority=(ours, ours_key))
    other = certificate(sluice, "other")
    options = ("--tls-certificate", cert, "--tls-key", key, "--set", f"tls.clientCa={ours}")
    with Node(sluice, *options, trust=cert, certificate=client) as node:
        same(node.ask("GET", "/healthz")[0], 200)
        for proof in (None, other):
            context = ssl.create_default_context(cafile=cert)
            if proof:
                context.load_cert_chain(*proof)
            try:
                status = node.ask("GET", "/healthz", context=context)[0]
                holds(False, f"a client without the right certificate was answered: {status}")
            except (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected):
                pass


@case
def certificates_that_do_not_fit_are_refused_at_start(sluice):
    cert, _ = certificate(sluice, "one")
    _, key = certificate(sluice, "two")
    sluice.refused(INVALID, "serve", "--listen", "127.0.0.1:0", "--tls-certificate", cert, "--tls-key", key,
                   says="is not the key of", field="tls")
    sluice.refused(INVALID, "serve", "--listen", "127.0.0.1:0", "--tls-certificate", key, "--tls-key", key,
                   says="is not a certificate", field="tls")


# ---- metrics

SAMPLE = re.compile(r'^([a-z_]+)(\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*\})? (\S+)$')


def parse(text):
    """Samples by name and labels; every name was introduced, histograms are whole."""
    kinds, samples = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            holds(name not in kinds, f"{name} is introduced once")
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            found = SAMPLE.match(line)
            holds(found, f"not a sample: {line}")
            name, labels, value = found.groups()
            family = name if name in kinds else re.sub("_(bucket|sum|count)$", "", name)
            holds(family in kinds, f"{name} was introduced")
            same(kinds[family] == "counter", family.endswith("_total"), family)
            holds((name, labels or "") not in samples, f"{name}{labels} is there once")
            samples[name, labels or ""] = float(value)
    for (name, labels), value in samples.items():
        if name.endswith("_count") and kinds.get(name[:-6]) == "histogram":
            last = labels[:-1] + ',le="+Inf"}' if labels else '{le="+Inf"}'
            same(samples[name[:-6] + "_bucket", last], value, f"{name}{labels}")
    return samples


def work_a_little(node):
    """Everything that is counted, once at least."""
    do = lambda path, body=None: node.ask("POST", "/v1/queues/" + path, body or {})
    same(node.ask("PUT", "/v1/queues/tasks", {"visibilityTimeout": "1h"})[0], 201)
    same(do("tasks/upgrade")[0], 200)
    for i in range(4):
        same(do("tasks/messages", {"body": str(i)})[0], 201)
    held = json.loads(do("tasks/receive", {"max": 4})[1])["messages"]
    tokens = [m["token"] for m in held]
    same(do(f"tasks/messages/{held[3]['id']}/signals", {"kind": "ask"})[0], 200)
    same(do("tasks/signals/ack", {"token": tokens[3], "number": 1})[0], 200)
    same(do("tasks/ack", {"token": tokens[0]})[0], 200)
    same(do("tasks/ack", {"token": tokens[0]})[0], 409)
    same(do("tasks/fail", {"token": tokens[1], "reason": "no"})[0], 200)
    same(do("tasks/release", {"token": tokens[2], "delay": "1h"})[0], 200)
    same(do("tasks/renew", {"token": tokens[3], "visibility": "10s"})[0], 200)
    same(do("tasks/renew", {"token": tokens[3], "visibility": "10ms"})[0], 200)
    until(lambda: json.loads(node.ask("GET", "/v1/queues/tasks/stats")[1])["locked"] == 0, "the lock has expired")
    same(len(json.loads(do("tasks/receive", {"wait": "20s"})[1])["messages"]), 1)
    same(node.ask("GET", "/nowhere")[0], 404)
    line = node.connect()
    line.request("GET", "/v1/queues/tasks/events?from=0")
    line.getresponse().fp.readline()
    line.close()


@case
def metrics_say_what_happened(sluice):
    with Node(sluice) as node:
        work_a_little(node)
        # A request is counted when its answer has left.
        text = until(lambda: (lambda text: text if 'status="404"' in text else "")(node.ask("GET", "/metrics")[1]),
                     "the last request was counted")
        samples = parse(text)
        for name, value in (("sent", 4), ("acked", 1), ("failed", 1), ("released", 1)):
            same(samples[f"sluice_messages_{name}_total", ""], value, name)
        same(samples["sluice_locks_renewed_total", ""], 2)
        same(samples["sluice_late_acks_total", ""], 1)
        same(samples["sluice_settles_refused_total", '{outcome="ack",reason="terminal"}'], 1)
        same(samples["sluice_locks_expired_total", '{queue="tasks"}'], 1)
        same(samples["sluice_signals_total", '{queue="tasks",kind="ask",end="acked"}'], 1)
        same(samples["sluice_signals_pending", '{queue="tasks"}'], 0)
        same(samples["sluice_queue_sent_total", '{queue="tasks"}'], 4)
        same(samples["sluice_queue_messages", '{queue="tasks",state="delayed"}'] >= 1, True)
        same(samples["sluice_http_requests_total",
                     '{method="POST",route="/v1/queues/{queue}/messages",status="201"}'], 4)
        same(samples["sluice_http_requests_total", '{method="",route="none",status="404"}'], 1)
        holds(samples["sluice_commit_duration_seconds_count", ""] >= 8, "commits are measured")
        holds(samples["sluice_entry_ops_count", ""] >= 8, "entries are measured")
        holds(samples["sluice_store_request_duration_seconds_count", '{call="append"}'] >= 8, "appends are measured")
        holds(samples["process_resident_memory_bytes", ""] > 1 << 20, "memory")
        holds(samples["process_open_fds", ""] > 5, "files")
        same(samples["sluice_store_up", ""], 1)
        tool = shutil.which("promtool")
        if tool:
            said = subprocess.run([tool, "check", "metrics"], input=text.encode(), capture_output=True)
            same((said.returncode, said.stderr), (0, b""), "promtool check metrics")
    with Node(sluice) as node:  # what it reads again did not happen now
        same(json.loads(node.ask("GET", "/v1/queues/tasks/stats")[1])["sent"], 4)
        samples = parse(node.ask("GET", "/metrics")[1])
        holds(not any(name == "sluice_signals_total" for name, _ in samples), "an end of before was counted again")


@case
def alerts_and_dashboard_name_metrics_that_exist(sluice):
    rules = os.path.join(ROOT, "packaging/prometheus/sluice-alerts.yml")
    with open(os.path.join(ROOT, "packaging/grafana/sluice.json")) as file:
        board = json.load(file)
    texts = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    texts += [v["definition"] for v in board["templating"]["list"] if v["type"] == "query"]
    ids = [panel["id"] for panel in board["panels"]]
    same(len(ids), len(set(ids)), "panels have numbers of their own")
    with open(rules) as file:
        texts += [line for line in file if re.match(r"\s+expr:", line)]
    with Node(sluice, "--bus", "nats://127.0.0.1:1") as node:  # no server is there
        work_a_little(node)
        known = {name for name, _ in parse(node.ask("GET", "/metrics")[1])}
    for text in texts:
        names = re.findall(r"\b(?:sluice|process)_[a-z_]+", text)
        holds(names or "up{" in text, f"a query without a metric: {text}")
        for name in names:
            holds(name in known, f"{name} is not in /metrics: {text}")
    tool = shutil.which("promtool")
    if tool:
        said = subprocess.run([tool, "check", "rules", rules], capture_output=True)
        same(said.returncode, 0, said.stdout.decode() + said.stderr.decode())


ALERTS_OF_SIGNALS = """
rule_files: [RULES]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:  # in "mute" no worker answers, in "busy" one does; both nodes say the same of "mute"
      - {series: 'sluice_signals_pending{queue="mute",instance="a"}', values: "2x40"}
      - {series: 'sluice_signals_pending{queue="mute",instance="b"}', values: "2x40"}
      - {series: 'sluice_signals_pending{queue="busy",instance="a"}', values: "3x40"}
      - {series: 'sluice_signals_pending{queue="idle",instance="a"}', values: "0x40"}
      - {series: 'sluice_signals_total{queue="busy",kind="steer",end="acked",instance="a"}', values: "0+5x40"}
      - {series: 'sluice_signals_total{queue="busy",kind="ask",end="missed",instance="a"}', values: "0+1x40"}
      - {series: 'sluice_signals_total{queue="mute",kind="steer",end="expired",instance="a"}', values: "0x20 1x20"}
    alert_rule_test:
      - {eval_time: 2m, alertname: SluiceSignalsNotTaken, exp_alerts: []}
      - {eval_time: 30m, alertname: SluiceSignalsNotTaken, exp_alerts: [{exp_labels: {severity: warning, queue: mute}}]}
      - {eval_time: 15m, alertname: SluiceSignalsExpired, exp_alerts: []}
      - eval_time: 30m
        alertname: SluiceSignalsExpired
        exp_alerts: [{exp_labels: {severity: warning, queue: mute, kind: steer}}]
"""


# Only "jobs" lacks a worker: "kept" is a dead-letter queue, "held" is paused, "busy" has a worker.
ALERTS_OF_WORKERS = """
rule_files: [RULES]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'sluice_queue_messages{queue="jobs",state="ready"}', values: "5x90"}
      - {series: 'sluice_queue_messages{queue="held",state="ready"}', values: "5x90"}
      - {series: 'sluice_queue_messages{queue="busy",state="ready"}', values: "5x90"}
      - {series: 'sluice_queue_messages{queue="kept",state="ready",dlq="true"}', values: "5x90"}
      - {series: 'sluice_queue_oldest_message_age_seconds{queue="jobs"}', values: "0+60x90"}
      - {series: 'sluice_queue_oldest_message_age_seconds{queue="held"}', values: "0+60x90"}
      - {series: 'sluice_queue_oldest_message_age_seconds{queue="busy"}', values: "1x90"}
      - {series: 'sluice_queue_oldest_message_age_seconds{queue="kept",dlq="true"}', values: "0+60x90"}
      - {series: 'sluice_queue_workers{queue="jobs"}', values: "0x90"}
      - {series: 'sluice_queue_workers{queue="held"}', values: "0x90"}
      - {series: 'sluice_queue_workers{queue="busy"}', values: "1x90"}
      - {series: 'sluice_queue_workers{queue="kept"}', values: "0x90"}
      - {series: 'sluice_queue_waiting_workers{queue="jobs"}', values: "0x90"}
      - {series: 'sluice_queue_waiting_workers{queue="held"}', values: "0x90"}
      - {series: 'sluice_queue_waiting_workers{queue="busy"}', values: "0x90"}
      - {series: 'sluice_queue_waiting_workers{queue="kept"}', values: "0x90"}
      - {series: 'sluice_queue_paused{queue="jobs"}', values: "0x90"}
      - {series: 'sluice_queue_paused{queue="held"}', values: "1x90"}
      - {series: 'sluice_queue_paused{queue="busy"}', values: "0x90"}
      - {series: 'sluice_queue_paused{queue="kept"}', values: "0x90"}
    alert_rule_test:
      - eval_time: 40m
        alertname: SluiceQueueWithoutWorkers
        exp_alerts: [{exp_labels: {severity: warning, queue: jobs}}]
      - {eval_time: 40m, alertname: SluiceQueueStale, exp_alerts: [{exp_labels: {severity: warning, queue: jobs}}]}
      - {eval_time: 40m, alertname: SluiceQueuePaused, exp_alerts: []}
      - {eval_time: 80m, alertname: SluiceQueuePaused, exp_alerts: [{exp_labels: {severity: info, queue: held}}]}
"""


# Only the leader counts. A shard that gets its owner within two minutes raises nothing.
ALERTS_OF_OWNERS = """
rule_files: [RULES]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'sluice_cluster_unowned_events{instance="a"}', values: "0x5 7x1 0x10 1319x30"}
      - {series: 'sluice_cluster_unowned_events{instance="b"}', values: "0x50"}
    alert_rule_test:
      - {eval_time: 9m, alertname: SluiceEventsWithoutOwner, exp_alerts: []}
      - {eval_time: 30m, alertname: SluiceEventsWithoutOwner, exp_alerts: [{exp_labels: {severity: warning}}]}
"""


def try_rules(sluice, wanted):
    tool = shutil.which("promtool")
    if not tool:
        return
    with open(os.path.join(ROOT, "packaging/prometheus/sluice-alerts.yml")) as file:
        rules = re.sub(r"\n +annotations:\n(?: {10}.*\n?)+", "\n", file.read())  # the texts are not compared
    path = write(sluice, "rules.yml", rules)
    tests = write(sluice, "tests.yml", wanted.replace("RULES", path))
    said = subprocess.run([tool, "test", "rules", tests], capture_output=True, text=True)
    same(said.returncode, 0, said.stdout + said.stderr)


@case
def an_alert_tells_of_signals_that_no_worker_takes(sluice):
    try_rules(sluice, ALERTS_OF_SIGNALS)


@case
def an_alert_tells_of_events_in_shards_without_an_owner(sluice):
    try_rules(sluice, ALERTS_OF_OWNERS)


@case
def an_alert_misses_no_worker_in_a_dead_letter_queue_or_a_paused_one(sluice):
    try_rules(sluice, ALERTS_OF_WORKERS)


# ---- the service manager, and the end

@case
def the_unit_is_sound_and_the_settings_beside_it_too(sluice):
    """Whatever this machine has in /etc and /var: their folders are ours here."""
    def ours(name):
        with open(os.path.join(ROOT, "packaging/systemd", name)) as file:
            return re.sub("/(etc|var/lib)/sluice", sluice.folder, file.read())

    with open(os.path.join(ROOT, "packaging/systemd/sluice.service.in")) as file:
        text = file.read()
    unit = write(sluice, "sluice.service", text.replace("@bindir@/sluice", PROGRAM))
    holds(not re.search("^Environment=SLUICE_", text, re.M), "what the unit says would go before what the file says")
    conf = write(sluice, "sluice.conf", ours("sluice.conf"))
    run = sluice.run("serve", "--config", conf, "--check", "--json", env={"SLUICE_STORE": ""})
    same(run.status, 0, run)
    shown = {row["key"]: (row["value"], row["source"]) for row in json.loads(run.out)["settings"]}
    store = shown["store"]
    holds(store[0] == f"file://{sluice.folder}/store" and store[1].startswith(conf), f"the store is the file's: {store}")
    every = write(sluice, "every.conf", re.sub(r"^#(\w)", r"\1", ours("sluice.conf"), flags=re.M))
    sluice.refused(INVALID, "serve", "--config", every, "--check", says=f"{sluice.folder}/tokens: cannot be read")
    tool = shutil.which("systemd-analyze")
    if tool:
        run = lambda *words: subprocess.run([tool, *words], capture_output=True, text=True, env={"HOME": sluice.folder})
        said = run("verify", "--man=no", unit)
        same((said.returncode, said.stderr), (0, ""), "systemd-analyze verify")
        said = run("security", "--offline=yes", "--threshold=20", unit)
        same(said.returncode, 0, said.stdout[-300:] + said.stderr)


class Manager:
    """The other end of sd_notify."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(PATIENCE)

    def next(self, skip=b"WATCHDOG=1"):
        while True:
            word = self.socket.recv(4096)
            if word != skip:
                return word


@case
def the_service_manager_hears_of_it(sluice):
    manager = Manager(sluice.folder)
    environment = {"NOTIFY_SOCKET": manager.path, "WATCHDOG_USEC": "300000"}
    with Node(sluice, environment=environment) as node:
        same(manager.next(), b"READY=1")
        same([manager.next(skip=b"") for _ in range(3)], [b"WATCHDOG=1"] * 3)
        node.signal(signal.SIGHUP)
        contains(manager.next().decode(), "RELOADING=1", "MONOTONIC_USEC=")
        same(manager.next(), b"READY=1")
        node.signal(signal.SIGTERM)
        same(manager.next(), b"STOPPING=1")
        same(node.ends(), 0)


@case
def while_it_drains_it_serves_and_says_that_it_is_not_ready(sluice):
    sluice.create("tasks")
    with Node(sluice, "--set", "shutdown.drain=60s") as node:
        same(node.ask("GET", "/readyz")[0], 200)
        node.signal(signal.SIGTERM)
        until(lambda: node.ask("GET", "/readyz")[0] == 503, "it is not ready any more")
        contains(node.ask("GET", "/readyz")[1], "stopping")
        same(node.ask("GET", "/healthz")[0], 200)
        same(node.ask("POST", "/v1/queues/tasks/messages", {"body": "x"})[0], 201)
        node.signal(signal.SIGTERM)  # a second one does not wait
        same(node.ends(), 128 + signal.SIGTERM)


@case
def one_that_waits_is_answered_with_nothing_when_it_stops(sluice):
    sluice.create("tasks")
    with Node(sluice) as node:
        answers = []
        waiter = threading.Thread(target=lambda: answers.append(
            node.ask("POST", "/v1/queues/tasks/receive", {"wait": "20s"})))
        waiter.start()
        until(lambda: json.loads(node.ask("GET", "/v1/node")[1])["waiting"] == 1, "a receive that waits")
        node.signal(signal.SIGINT)
        same(node.ends(), 0)
        waiter.join(PATIENCE)
        same([(status, json.loads(text)) for status, text in answers], [(200, {"messages": []})])


main()
