# SPDX-License-Identifier: Apache-2.0
"""Stores that are damaged, forbidden, or not stores at all; and stores shared by many processes."""
import glob
import json
import os
import shutil
import subprocess

from harness import CORRUPT, INVALID, NOT_FOUND, case, contains, holds, main, on_a_store, same

LOOKING = [["stats", "q"], ["peek", "q"], ["audit", "q"], ["queue", "show", "q"]]
TOUCHING = [["receive", "q"], ["send", "q", "x"], ["queue", "pause", "q"], ["queue", "purge", "q", "--yes"],
            ["redrive", "q"]]


def damage(sluice, marker):
    """Flips one bit of the journal, inside a body that others follow."""
    (path,) = glob.glob(f"{sluice.store}/q/*/0/log/@*.1")
    with open(path, "r+b") as segment:
        content = segment.read()
        segment.seek(content.index(marker))
        segment.write(bytes([marker[0] ^ 1]))
    sluice.reopen()


@case
def a_corrupt_store_is_told_and_left_alone(sluice):
    sluice.create("q")
    for number in range(5):
        sluice.send("q", f"body-{number}")
    damage(sluice, b"body-2")
    before = sluice.fingerprint()
    for words in LOOKING + TOUCHING:
        error = sluice.refused(CORRUPT, *words, says="q")
        same(error["error"], "CORRUPT")
    events = sluice.run("events", "q", "--json")  # those before the damage may come: they are good
    same(events.status, CORRUPT)
    holds(len(events.lines()) <= 2, "events from beyond the damage")
    same(sluice.fingerprint(), before)


@case
def a_corrupt_queue_hides_no_other(sluice):
    sluice.create("q")
    for number in range(3):
        sluice.send("q", f"body-{number}")
    damage(sluice, b"body-1")
    sluice.create("well")
    for words in (["stats"], ["queue", "list"]):
        result = sluice.run(*words, "--json")
        same(result.status, CORRUPT)
        same([line["queue"] for line in result.lines()], ["well"])
    result = sluice.run("doctor", "--json")
    holds(result.status != 0, "the doctor saw nothing")
    same([line["check"] for line in result.lines() if line["result"] == "failed"], ["queue q"])


@case
def a_path_that_is_no_folder_is_refused(sluice):
    path = sluice.path("file", "x")
    for words in (["stats"], ["send", "q", "x", "--create"], ["queue", "create", "q"]):
        sluice.refused(2, *words, "--store", path, says=path)
    sluice.refused(2, "stats", "--store", sluice.path("no/such/parent"), says="parent")
    result = sluice.run("doctor", "--store", path)
    holds(result.status != 0, "the doctor saw nothing")
    contains(result.out, "failed")
    with open(path, encoding="utf-8") as file:
        same(file.read(), "x")


@case
def a_url_that_is_not_known_is_refused(sluice):
    for url in ("ftp://example.com/x", "nats://example.com/0"):
        sluice.refused(2, "stats", "--store", url, says=url)


@case
def a_url_without_its_scheme_is_no_directory(sluice):
    for url, meant in [("localhost:7401", "http://localhost:7401"), ("127.0.0.1:7402", "http://127.0.0.1:7402"),
                       ("node.example:7333/", "http://node.example:7333/"), ("s3:bucket/p", "s3://bucket/p"),
                       ("s3:/bucket", "s3://bucket"), ("https:/host", "https://host"), ("http:host:1", "http://host:1"),
                       ("file:/var/x", "file:///var/x"), ("mem:x", "mem:"), ("a:b", "./a:b")]:
        for words in (["stats"], ["send", "q", "x", "--create"], ["doctor"]):
            told = sluice.run(*words, "--store", url)
            same(told.status, INVALID, str(told))
            contains(told.err, f'"{url}"', meant)
        sluice.refused(INVALID, "queue", "create", "q", env={"SLUICE_STORE": url}, says=[url, meant], field="store")
        holds(not os.path.exists(os.path.join(sluice.folder, url.split("/")[0])), f"{url} became a directory")


@case
def a_path_may_have_a_colon(sluice):
    for path in ("./a:b", sluice.path("c:d"), "file://" + sluice.path("e:f")):
        sluice.ok("queue", "create", "q", "--store", path)
        same(sluice.ok("queue", "list", "-q", "--store", path).out, "q\n")
    holds(os.path.isdir(sluice.path("a:b")), "it is somewhere else")


@case
def only_commands_that_write_create_a_store(sluice):
    there, home = sluice.path("none"), {"SLUICE_STORE": "", "HOME": sluice.path("home")}
    os.mkdir(home["HOME"])
    for env in ({"SLUICE_STORE": there}, home):
        where = there if env["SLUICE_STORE"] else home["HOME"] + "/.local/share/sluice"
        for words in (["stats"], ["queue", "list"]):
            result = sluice.ok(*words, env=env)
            same(result.out, "")
            contains(result.err, f"the store {where} does not exist yet")
            same(sluice.ok(*words, "--json", env=env).out, "")
        for words in (["stats", "q"], ["peek", "q"], ["show", "q", "x"], ["events", "q"], ["audit", "q"],
                      ["queue", "show", "q"], ["receive", "q"], ["send", "q", "x"], ["ack", "q", "3f9a01cc-0-17-" + "0" * 32],
                      ["queue", "pause", "q"], ["redrive", "q"], ["work", "q", "--", "true"]):
            result = sluice.run(*words, env=env)
            same(result.status, NOT_FOUND, str(result))
        result = sluice.run("doctor", env=env)
        same(result.status, NOT_FOUND, str(result))
        contains(result.out, f"the store {where} does not exist yet")
        holds(not os.path.exists(where) and not os.path.exists(home["HOME"] + "/.local"), "a look made a store")
        sluice.ok("send", "q", "x", "--create", env=env)
        holds(os.path.isdir(where), "there is none still")


def unprivileged(sluice, *arguments):
    """Runs as an unprivileged user when we are root, because root may do everything."""
    def drop():
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
    program = os.path.join(sluice.folder, "sluice")  # the build may lie where that user may not read
    if not os.path.exists(program):
        shutil.copy(os.environ["SLUICE"], program)
    return subprocess.run([program, *arguments], env=sluice.env, capture_output=True, text=True,
                          preexec_fn=drop, check=False)


@case
@on_a_store
def a_store_without_permission_is_refused(sluice):
    sluice.create("q")
    sluice.send("q", "x")
    os.chmod(sluice.folder, 0o755)
    for mode in (0o500, 0o000):
        os.chmod(sluice.store, mode)
        for words in (["stats", "q"], ["send", "q", "y"], ["queue", "create", "other"]):
            result = unprivileged(sluice, *words, "--json")
            holds(result.returncode in (7, 10), f"{words}: status {result.returncode} {result.stderr}")
            same(result.stdout, "")
            contains(json.loads(result.stderr)["message"], "store")
        os.chmod(sluice.store, 0o755)
    same(sluice.stats("q")["ready"], 1)
    same(sluice.ok("queue", "list", "-q").out, "q\n")


@case
def many_processes_share_a_store(sluice):
    sluice.create("q", "failureStrategy.backoff.initial=1ms")
    senders = [sluice.start("send", "q", "--lines", sluice.path(f"lines-{number}", "".join(
        f"{number}-{line}\n" for line in range(200)))) for number in range(4)]
    for sender in senders:
        sender.communicate(timeout=60)
        same(sender.returncode, 0)
    seen = []
    while len(seen) < 800:
        receivers = [sluice.start("receive", "q", "--max", "70", "--wait", "5s", "--json") for _ in range(4)]
        outs = [receiver.communicate(timeout=60)[0] for receiver in receivers]
        messages = [json.loads(line) for out in outs for line in out.splitlines()]
        holds(messages, "nothing came")
        seen += [message["body"] for message in messages]
        sluice.ok("ack", "q", *[message["token"] for message in messages])
    same(len(set(seen)), 800)
    audit = sluice.json("audit", "q")
    same([audit[key] for key in ("messages", "processed", "heldByTwo", "ackedTwice")], [800, 800, 0, 0])


main()
