# SPDX-License-Identifier: Apache-2.0
"""sluice work against a node whose answers get lost, and what its jobs are told."""
import http.client
import http.server
import json
import threading

from harness import PATIENCE, case, main, same

HANDLE_TIMEOUT = 30  # seconds after which a call of the command line gives up


class Proxy:
    """Passes requests on to a node. lose(path, body) tells of each whether its answer is lost."""

    def __init__(self, url, lose):
        host, port = url.removeprefix("http://").split(":")

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def pass_on(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                node = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
                headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                node.request(self.command, self.path, body, headers)
                answer = node.getresponse()
                content = answer.read()
                node.close()
                if lose(self.path, body):
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("content-length", "date", "connection", "server"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = pass_on

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def node_of(sluice):
    """The URL of a node on the case's store; it ends with the case."""
    node = sluice.start("serve", "--listen", "127.0.0.1:0", "--json")
    return "http://" + json.loads(node.stdout.readline())["address"]


def job_with_lost_answers(sluice, verb, script, *settings):
    """One job whose outcome is applied while every answer to it is lost until the first call gives up."""
    sluice.create("tasks", *settings)
    sluice.send("tasks", "x")
    lost = set()

    def lose(path, body):
        token = body if path.endswith("/" + verb) else b""
        if token and len(lost) == 0:
            timer = threading.Timer(HANDLE_TIMEOUT + 2, lost.add, ["over"])
            timer.daemon = True
            timer.start()
            lost.add("begun")
        return bool(token) and "over" not in lost

    with Proxy(node_of(sluice), lose) as url:
        worker = sluice.run("work", "tasks", "--once", "--json", "--", "sh", "-c", script, env={"SLUICE_STORE": url})
    rows = [json.loads(line) for line in worker.out.splitlines()]
    return worker.status, [row["status"] for row in rows if row["type"] == "job"]


@case
def a_finished_job_whose_answer_was_lost_is_processed(sluice):
    same(job_with_lost_answers(sluice, "ack", "exit 0"), (0, ["processed"]))


@case
def a_failed_job_whose_answer_was_lost_is_retried(sluice):
    same(job_with_lost_answers(sluice, "fail", "exit 3", "failureStrategy.backoff.initial=1h",
                               "failureStrategy.backoff.max=1h"), (1, ["retrying"]))


main()
