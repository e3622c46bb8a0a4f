# SPDX-License-Identifier: Apache-2.0
"""Objects of a store, removed behind the program's back: files of a directory, or keys of a bucket."""
import datetime
import hashlib
import hmac
import http.client
import os
import shutil
import urllib.parse
import xml.etree.ElementTree

from harness import ON_S3, PATIENCE, Wrong

XMLNS = "{http://s3.amazonaws.com/doc/2006-03-01/}"


def ask_s3(method, path, query=""):
    """One signed request without a body: the answer's bytes."""
    place = urllib.parse.urlsplit(os.environ["AWS_ENDPOINT_URL_S3"])
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    nothing = hashlib.sha256(b"").hexdigest()
    headers = {"host": place.netloc, "x-amz-content-sha256": nothing, "x-amz-date": now}
    names = ";".join(headers)
    canonical = "\n".join([method, path, query, *(f"{k}:{v}" for k, v in headers.items()), "", names, nothing])
    scope = f"{now[:8]}/us-east-1/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + os.environ["AWS_SECRET_ACCESS_KEY"]).encode()
    for part in [*scope.split("/"), text]:
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    headers["authorization"] = (f"AWS4-HMAC-SHA256 Credential={os.environ['AWS_ACCESS_KEY_ID']}/{scope}, "
                                f"SignedHeaders={names}, Signature={key.hex()}")
    line = http.client.HTTPConnection(place.netloc, timeout=PATIENCE)
    line.request(method, path + ("?" + query if query else ""), headers=headers)
    answer = line.getresponse()
    body = answer.read()
    line.close()
    if answer.status >= 300:
        raise Wrong(f"{method} {path}: {answer.status} {body[:300]!r}")
    return body


def bucket_keys(bucket, prefix):
    query = f"list-type=2&max-keys=1000&prefix={urllib.parse.quote(prefix, safe='')}"
    rows = xml.etree.ElementTree.fromstring(ask_s3("GET", "/" + bucket, query))
    return [row.text for row in rows.iter(XMLNS + "Key")]


def remove(sluice, under="", having=""):
    """Removes what the store holds under a name, and whose name has a part in it. The names removed."""
    removed = []
    if ON_S3:
        bucket, prefix = sluice.store.removeprefix("s3://").split("/", 1)
        for key in bucket_keys(bucket, f"{prefix}/{under}"):
            if having in key:
                ask_s3("DELETE", f"/{bucket}/{key}")
                removed.append(key)
        return removed
    for folder, folders, files in os.walk(os.path.join(sluice.store, under)):
        for name in files:
            path = os.path.join(folder, name)
            if having in path:
                os.unlink(path)
                removed.append(path)
    if not having:
        for name in os.listdir(os.path.join(sluice.store, under)):
            shutil.rmtree(os.path.join(sluice.store, under, name), ignore_errors=True)
    return removed
