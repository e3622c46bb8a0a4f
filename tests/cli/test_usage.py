# SPDX-License-Identifier: Apache-2.0
"""The command line itself: help, mistakes, the default store, completion."""
import os
import re
import subprocess

from harness import INVALID, NOT_FOUND, case, contains, holds, main, on_a_store, same
from terminal import Terminal, on_terminal

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMANDS = ["queue create", "queue list", "queue show", "queue set", "queue pause", "queue resume", "queue purge",
            "queue delete", "send", "receive", "ack", "fail", "release", "renew", "work", "peek", "show", "stats",
            "events", "redrive", "cancel", "signal", "signals", "collect", "audit", "doctor", "import", "upgrade", "serve",
            "token new", "bench", "schema check", "completion", "version", "help", "workers", "worker pause",
            "worker resume", "worker drain", "worker evict", "workflow list", "workflow show", "cluster status",
            "cluster plan", "cluster drain", "cluster undrain", "cluster leave", "cluster events", "cluster coord-switch"]


@case
def every_command_has_help(sluice):
    overview = sluice.ok("help").out
    same(sluice.ok("--help").out, overview)
    for command in COMMANDS:
        contains(overview, f"  {command}")
        text = sluice.ok("help", *command.split()).out
        contains(text, f"Usage: sluice {command}", "--store URL")
        same(sluice.ok(*command.split(), "--help").out, text)
        same(sluice.ok(*command.split(), "-h").out, text)
        holds(max(len(line) for line in text.splitlines()) < 90, f"long lines in the help of {command}")
    contains(sluice.ok("help", "queue").out, "queue create")
    same(sluice.ok("queue", "--help").out, sluice.ok("help", "queue").out)
    holds(sluice.untouched(), "help made a store")


@case
def the_overview_has_each_command_once_in_groups(sluice):
    groups = [part.splitlines() for part in sluice.ok("help").out.split("\n\n")[2:]]
    groups = [(lines[0], lines[1:]) for lines in groups if not lines[0].startswith("Options")][:6]
    same([title for title, _ in groups],
         ["Queues:", "Send and work:", "Look:", "Act on messages and workers:", "Operate:", "Measure and build:"])
    names = []
    for title, lines in groups:
        rows = [re.fullmatch(r"  (\S+(?: \S+)?) {2,}(\S.*)", line) for line in lines]
        holds(all(rows), f"a name without a space behind it: {title} {lines}")
        same(len({row.start(2) for row in rows}), 1, f"columns of the summaries: {title}")
        names += [row[1] for row in rows]
    same(sorted(names), sorted(COMMANDS), "the commands")


@case
def the_man_pages_know_every_command(sluice):
    pages = ""
    for name in sorted(os.listdir(f"{ROOT}/docs/man")):
        if name.endswith(".1"):
            with open(f"{ROOT}/docs/man/{name}", encoding="utf-8") as page:
                pages += page.read()
    for command in COMMANDS:
        contains(pages.replace("\\-", "-"), command)
        for line in sluice.ok("help", *command.split()).out.splitlines():
            if line.startswith("  --"):
                contains(pages.replace("\\-", "-"), line.split()[0])


@case
def a_command_of_two_words_may_be_one_argument(sluice):
    same(sluice.ok("help", "queue purge").out, sluice.ok("help", "queue", "purge").out)
    sluice.ok("queue create", "tasks")
    same(sluice.ok("queue list", "-q").out, "tasks\n")


@case
def no_command_is_a_usage_error(sluice):
    result = sluice.run()
    same((result.status, result.out), (INVALID, ""))
    contains(result.err, "Usage: sluice")


@case
def mistakes_are_named(sluice):
    for words, says in [(["sned", "q"], ['"sned"', '"send"']), (["frobnicate"], ["frobnicate", "sluice help"]),
                        (["queue"], ["queue", "sluice help queue"]), (["queue", "crate"], ["queue create"]),
                        (["help", "sned"], ["send"]), (["send"], ["QUEUE is missing"]),
                        (["send", "q", "a", "b"], ['unexpected argument "b" (quote the body if it has spaces): sluice send']),
                        (["stats", "a", "b"], ['unexpected argument "b": sluice stats']), (["doctor", "x", "y"], ['"y"']),
                        (["list"], ['"queue list"']), (["ls"], ['"queue list"']), (["create", "q"], ['"queue create"']),
                        (["purge", "q"], ['"queue purge"']), (["delete", "q"], ['"queue delete"']),
                        (["enqueue", "q", "x"], ['did you mean "send"?']), (["help", "enqueue"], ['"send"']),
                        (["receive", "q", "--visibility", "48h"], ["must be between 1ms and 24h"]),
                        (["send", "q", "x", "--prioritty", "1"], ["--prioritty", "--priority"]),
                        (["send", "q", "x", "--zzz"], ["--zzz", "sluice help send"]),
                        (["send", "q", "x", "-Z"], ["-Z"]), (["--zzz", "stats"], ["--zzz"]),
                        (["receive", "q", "--max"], ["--max needs a value", "--max N"]),
                        (["stats", "--watch=yes"], ["--watch takes no value"]),
                        (["stats", "--store", ""], ["--store"]), (["completion", "fish"], ["fish", "bash, zsh"])]:
        sluice.refused(INVALID, *words, says=says)
    holds(sluice.untouched(), "a mistake made a store")


@case
def options_may_stand_anywhere_before_two_dashes(sluice):
    sluice.create("tasks")
    sluice.ok("--quiet", "send", "--priority=4", "tasks", "--header=a=b", "x", "-Hc=d", "-H", "e=f")
    message = sluice.ok("--json", "receive", "--max=1", "tasks").lines()[0]
    same((message["priority"], message["headers"]), (4, {"a": "b", "c": "d", "e": "f"}))


@case
def the_store_may_be_a_path_a_url_or_the_environments(sluice):
    there = sluice.path("there")
    sluice.ok("queue", "create", "one", "--store", there)
    same(sluice.ok("queue", "list", "-q", "--store", f"file://{there}").out, "one\n")
    same(sluice.ok("queue", "list", "-q", env={"SLUICE_STORE": there}).out, "one\n")
    same(sluice.ok("queue", "list", "-q").out, "")


@case
def the_default_store_is_made_with_its_parents(sluice):
    home = sluice.path("home")
    os.mkdir(home)
    env = {"SLUICE_STORE": "", "HOME": home}
    sluice.ok("queue", "create", "one", env=env)
    holds(os.path.isdir(f"{home}/.local/share/sluice"), "it is somewhere else")
    same(sluice.ok("queue", "list", "-q", env=env).out, "one\n")
    data = sluice.path("data")
    sluice.ok("queue", "create", "two", env=env | {"XDG_DATA_HOME": data})
    holds(os.path.isdir(f"{data}/sluice"), "XDG_DATA_HOME is not heard")
    same(sluice.ok("queue", "list", "-q", env=env | {"XDG_DATA_HOME": "data"}).out, "one\n")


@case
def the_version_is_told(sluice):
    version = sluice.json("version")
    same(list(version), ["version"])
    for words in (["version"], ["--version"], ["-V"], ["--quiet", "--version"]):
        same(sluice.ok(*words).out, f"sluice {version['version']}\n")
    same(sluice.ok("--version", "--json").lines(), [version])
    contains(sluice.ok("help").out, "--version")


def words_for(sluice, *typed):
    out = sluice.ok("completion", "words", "--", str(len(typed)), "sluice", *typed).out
    return [line.split("\t")[0] for line in out.splitlines()]


@case
def completion_knows_commands_options_and_queues(sluice):
    same(words_for(sluice, "re"), ["receive", "release", "renew", "redrive"])
    contains(words_for(sluice, ""), "queue", "send", "stats")
    same(words_for(sluice, "queue", "p"), ["pause", "purge"])
    same(words_for(sluice, "send", "q", "--pri"), ["--priority"])
    same(words_for(sluice, "receive", ""), [])
    holds(sluice.untouched(), "completion made a store")
    sluice.create("tasks")
    sluice.create("other")
    same(words_for(sluice, "receive", ""), ["other", "tasks"])
    same(words_for(sluice, "queue", "show", "t"), ["tasks"])
    same(words_for(sluice, "queue", "create", ""), [])
    same(words_for(sluice, "queue", "set", "tasks", "vis"), ["visibilityTimeout="])
    same(words_for(sluice, "peek", "tasks", "--state", "d"), ["delayed", "dead", "dead-lettered"])
    same(words_for(sluice, "send", "tasks", "--lines", ""), [":files"])
    same(words_for(sluice, "help", "queue", "l"), ["list"])
    same(words_for(sluice, "queue", "create", "x", "orderingMode="), ["orderingMode=fifo", "orderingMode=lifo"])
    same(words_for(sluice, "queue", "set", "tasks", "failureStrategy.deadLetterQueue=o"),
         ["failureStrategy.deadLetterQueue=other"])
    same(words_for(sluice, "serve", "--set", "log.l"), ["log.level="])
    same(words_for(sluice, "token", "new", "--scope", "read,s"), ["read,send", "read,signal"])
    same(words_for(sluice, "signal", "tasks", "id", ""), ["steer", "ask", "interrupt"])
    same(words_for(sluice, "signal", "tasks", "id", "interrupt", "--then", ""), ["cancel", "retry", "dead-letter"])
    same(words_for(sluice, "peek", "tasks", "--state", "f"), ["finished"])
    for option in ("--tokens", "--tls-key", "--config", "--store"):
        same(words_for(sluice, "serve", option, "x"), [":files"])
    same(words_for(sluice, "stats", "--store=/t"), [":files"])
    same(words_for(sluice, "--ver"), ["--version"])
    same(words_for(sluice, "--store", sluice.store, "receive", "o"), ["other"])


@case
def completion_scripts_are_those_that_are_installed(sluice):
    for shell, path in [("bash", "sluice.bash"), ("zsh", "_sluice")]:
        with open(f"{ROOT}/completions/{path}", encoding="utf-8") as file:
            same(sluice.ok("completion", shell).out, file.read(), path)


@case
def bash_completes_with_the_script(sluice):
    sluice.create("tasks")
    bin = sluice.path("bin")
    os.mkdir(bin)
    os.symlink(os.environ["SLUICE"], f"{bin}/sluice")
    script = """source <(sluice completion bash)
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _sluice 2>/dev/null; echo "${COMPREPLY[*]}"; }
try sluice rec; try sluice receive ta; try sluice queue cr; try sluice send tasks --gr
try sluice queue create x orderingMode = l; try sluice queue create x orderingMode =; try sluice serve --set log.l"""
    run = subprocess.run(["bash", "-c", script], env=sluice.env | {"PATH": f"{bin}:{os.environ['PATH']}"},
                         capture_output=True, text=True, check=True)
    same(run.stdout, "receive\ntasks\ncreate\n--group\nlifo\nfifo lifo\nlog.level=\n")


@case
def help_lists_only_options_that_the_command_takes(sluice):
    for words in (["send"], ["ack"], ["queue", "show"]):
        contains(sluice.ok("help", *words).out, "--timeout D")
    for words in (["stats"], ["work"], ["queue", "list"], ["cluster", "status"], []):
        holds("  --timeout D" not in sluice.ok("help", *words).out, f"{words}")
    same(sluice.ok("help", "collect").out.count("--timeout D"), 1)


@case
def a_wrong_setting_of_bench_is_an_invalid_request(sluice):
    sluice.refused(INVALID, "bench", "foo=1", says='"foo" is not one of')
    run = sluice.run("bench", "visibilityTimeout=30")
    same([run.status, run.out], [INVALID, ""])


@case
@on_a_store
def doctor_says_that_a_new_queue_is_new(sluice):
    sluice.ok("queue", "create", "fresh")
    lines = [line for line in sluice.ok("doctor").out.splitlines() if "queue fresh" in line]
    holds(len(lines) == 1 and "lost" not in lines[0] and "warning" not in lines[0], f"{lines}")


@case
def what_was_probably_meant_is_named(sluice):
    for words, says in ((["send", "q", "x", "--prio", "3"], "did you mean --priority?"),
                        (["queue", "create", "q", "visibility=30s"], "did you mean visibilityTimeout?"),
                        (["worker", "stop", "q", "w"], 'did you mean "worker drain"?'),
                        (["kick", "q"], 'did you mean "redrive"?'), (["top"], 'did you mean "stats --watch"?'),
                        (["jobs"], 'did you mean "peek"?'),
                        (["fail", "q", "T", "--delay", "5m"], "sluice release --delay"),
                        (["events", "q", "--since", "1h"], "--from"), (["peek", "q", "--watch"], "sluice stats --watch"),
                        (["token", "new", "--scope", "write"], 'one of read, send, work, signal, admin'),
                        (["import", "q", "redis://h"], "write beanstalkd://HOST:PORT/TUBE, or a file of JSON lines"),
                        (["serve", "--set", "foo=1"], "docs/serve.md lists them")):
        sluice.refused(INVALID, *words, says=says)
    sluice.ok("queue", "create", "q")
    sluice.refused(NOT_FOUND, "worker", "pause", "q", "nope",
                   says='queue q has no registered worker nope; "sluice workers q" lists them')


@case
def tables_and_screens_fit_a_narrow_terminal(sluice):
    long = "orders-of-the-customers-in-europe-and-asia-with-a-long-name-x1"
    for queue in (long, "short"):
        sluice.ok("queue", "create", queue)
        sluice.send(queue, "x")
    for columns in (60, 80, 120):
        seen = "".join(on_terminal(sluice, *words, columns=columns, NO_COLOR="1")
                       for words in (["queue", "list"], ["stats"]))
        lines = seen.replace("\r", "").split("\n")
        holds(all(len(line) <= columns for line in lines), f"{columns}: {seen}")
        holds("..." in seen, f"{columns}: {seen}")
    terminal = Terminal(sluice, "work", "short", "sleep", "60", columns=60, NO_COLOR="1")
    terminal.wait_for("running")
    holds("MESSAGE" in terminal.seen and "BODY" not in terminal.seen, terminal.seen)  # it would wrap, and leave a line behind
    terminal.program.kill()
    terminal.end()


main()
