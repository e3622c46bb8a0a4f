# SPDX-License-Identifier: Apache-2.0
"""Between the program and the S3 server: hands requests on, and does what a case wants with some."""
import contextlib
import http.client
import http.server
import os
import threading
import urllib.parse


class Between(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def before(self):
        """The answer that a case makes up (status, headers, bytes); None: the server's."""
        return None

    def ask(self, body):
        line = http.client.HTTPConnection(urllib.parse.urlsplit(os.environ["AWS_ENDPOINT_URL_S3"]).netloc)
        line.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            line.putheader(name, value)
        line.endheaders(body)
        got = line.getresponse()
        answer = got.status, got.getheaders(), got.read()
        line.close()
        return answer

    def hand_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, headers, answer = self.before() or self.ask(body)
        with contextlib.suppress(ConnectionError):  # a client that has given up
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = hand_on

    def log_message(self, *words):
        pass


@contextlib.contextmanager
def between(handler):
    """The environment in which the program asks the handler instead of the server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {"AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{server.server_port}"}
    finally:
        server.shutdown()
        server.server_close()
