# SPDX-License-Identifier: Apache-2.0
"""The HTTP client of the tests that start nodes."""
import http.client
import json


class Remote:
    """A node that is known by its address. trust: what its certificate is checked by; None: it has no TLS."""

    def __init__(self, address, trust=None):
        self.address, self.trust = address, trust

    def connect(self, timeout):
        if self.trust:
            return http.client.HTTPSConnection(self.address, timeout=timeout, context=self.trust)
        return http.client.HTTPConnection(self.address, timeout=timeout)

    def text(self, method, path, body=None, request=None, timeout=25):
        line = self.connect(timeout)
        try:
            send(line, method, path, body, request)
            answer = line.getresponse()
            return answer.status, answer.read().decode()
        finally:
            line.close()

    def ask(self, method, path, body=None, request=None, timeout=25):
        status, text = self.text(method, path, body, request, timeout)
        return status, json.loads(text) if text else None


def send(line, method, path, body=None, request=None):
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if request:
        headers["Sluice-Request"] = request
    line.request(method, path, json.dumps(body) if body is not None else None, headers)
