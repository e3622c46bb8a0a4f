# SPDX-License-Identifier: Apache-2.0
"""A client of a NATS server that publishes messages which no node would write."""
import socket


def publish(url, messages):
    """Publishes rows of subject, headers, body, and returns once the server has them."""
    host, _, port = url.partition("://")[2].partition("?")[0].partition(",")[0].partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as line:
        text = b'CONNECT {"verbose":false,"headers":true}\r\n'
        for subject, headers, body in messages:
            head = b"NATS/1.0\r\n" + b"".join(f"{name}: {value}\r\n".encode() for name, value in headers.items()) + b"\r\n"
            text += f"HPUB {subject} {len(head)} {len(head) + len(body)}\r\n".encode() + head + body + b"\r\n"
        line.sendall(text + b"PING\r\n")
        answer = b""
        while b"PONG\r\n" not in answer:
            some = line.recv(65536)
            if not some:
                raise OSError(f"the server ended the connection: {answer[-200:]}")
            answer += some
