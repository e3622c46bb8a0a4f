#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Moves files to the folders and names of docs/architecture.md, and follows them in includes, build files and
documents. Run in the root of the tree."""
import os
import re
import subprocess

# (old, new): of each the .c and the .h, where they exist
MOVES = """
src/node/desk                 src/node/runner
src/node/desk_answer          src/node/runner_answer
src/node/desk_config          src/node/runner_config
src/node/crew                 src/node/thread_pool
src/node/company              src/node/inline_policy
src/node/finish               src/upkeep/finish_shard
src/api/porter                src/upkeep/upkeep
src/api/remains               src/upkeep/deleted_queues
src/api/catalog               src/catalog/catalog
src/api/wire                  src/wire/wire
src/api/wire_failures         src/wire/failures
src/api/wire_text             src/wire/text
src/api/failures              src/local/failures
src/api/owner                 src/owner/owner
src/api/peer                  src/owner/peer
src/api/forward               src/owner/forward
src/api/remote                src/remote/remote
src/api/remote_ask            src/remote/ask
src/api/remote_doctor         src/remote/doctor
src/api/remote_events         src/remote/events
src/api/remote_look           src/remote/status
src/api/remote_messages       src/remote/messages
src/api/remote_queues         src/remote/queues
src/api/acks                  src/local/acks
src/api/along                 src/local/receive_with_acks
src/api/batch                 src/local/batch
src/api/bodies                src/local/bodies
src/api/direct                src/local/direct
src/api/errors                src/local/errors
src/api/events                src/local/events
src/api/hand_out              src/local/deliver
src/api/inside                src/local/inside
src/api/later                 src/local/async
src/api/later_desk            src/local/async_runner
src/api/later_pool            src/local/async_pool
src/api/life                  src/local/life
src/api/look                  src/local/peek
src/api/names                 src/local/names
src/api/pulse                 src/local/liveness
src/api/quest                 src/local/multi_receive
src/api/queue_change          src/local/queue_change
src/api/queue_info            src/local/queue_info
src/api/queues                src/local/queues
src/api/receive               src/local/receive
src/api/redrive               src/local/redrive
src/api/send                  src/local/send
src/api/sights                src/local/status
src/api/tally                 src/local/counters
src/api/together              src/local/parallel
src/api/transport             src/local/transport
src/api/trip                  src/local/send_attempts
src/net/courier               src/net/http_async
src/net/lanes                 src/net/http_tls_pool
src/net/plain                 src/net/http_plain
src/net/wires                 src/net/socket_table
src/net/turns                 src/net/fifo_semaphore
src/net/lines                 src/net/connections
src/net/hangup                src/net/disconnect_watch
src/net/greeting              src/net/peer_challenge
src/net/sigv4                 src/store/s3/auth/sigv4
src/store/s3/credentials      src/store/s3/auth/credentials
src/store/s3/ini              src/store/s3/auth/ini
src/store/s3/json             src/store/s3/auth/json
src/store/s3/metadata         src/store/s3/auth/metadata
src/store/s3/process          src/store/s3/auth/process
src/store/s3/profile          src/store/s3/auth/profile
src/store/s3/secret           src/store/s3/auth/secret
src/store/s3/sts              src/store/s3/auth/sts
src/store/s3/times            src/store/s3/auth/times
src/store/fault               tests/support/fault_store
src/server/room               src/server/memory_budget
src/server/look               src/server/reads
src/server/pool               src/server/call_pool
src/shard/post                src/shard/outgoing
src/shard/books               src/shard/cost_ledger
src/shard/tally               src/shard/counters
src/cli/work_face             src/cli/work_ui
src/cli/work_heart            src/cli/work_heartbeat
tests/api/along               tests/api/receive_with_acks
tests/api/quest               tests/api/multi_receive
tests/api/remains             tests/api/deleted_queues
tests/chaos/slate             tests/chaos/shared_record
tests/conformance/spec/hands_desk tests/conformance/spec/drivers_runner
tests/conformance/spec/hands_http tests/conformance/spec/drivers_http
tests/journal/shop            tests/journal/fixture
tests/journal/turns           tests/journal/writers
tests/net/lines               tests/net/connections
tests/server/pool             tests/server/call_pool
tests/net/courier             tests/net/http_async
tests/net/hangup              tests/net/disconnect_watch
tests/net/plain               tests/net/http_plain
tests/net/turns               tests/net/fifo_semaphore
tests/net/sigv4               tests/s3/sigv4
tests/node/company            tests/node/inline_policy
tests/node/crew               tests/node/thread_pool
tests/node/later              tests/node/async
tests/server/along            tests/server/receive_with_acks
tests/server/later            tests/server/async
tests/server/room             tests/server/memory_budget
tests/server/forward_room     tests/server/forward_budget
tests/server/stranger         tests/server/imposter
tests/shard/books             tests/shard/cost_ledger
tests/shard/letters           tests/shard/dead_letters
tests/sim/arena               tests/sim/heap_region
tests/simqueue/errand         tests/simqueue/sim_call
tests/simqueue/ghost          tests/simqueue/reference
tests/simqueue/carrier        tests/simqueue/mover
tests/simqueue/check_letters  tests/simqueue/check_dead_letters
"""


def main():
    moved = {}
    for line in filter(None, MOVES.split("\n")):
        old, new = line.split()
        for ending in (".c", ".h"):
            if os.path.exists(old + ending):
                os.makedirs(os.path.dirname(new), exist_ok=True)
                subprocess.check_call(["git", "mv", old + ending, new + ending])
                moved[old + ending] = new + ending
    files = subprocess.check_output(["git", "ls-files"], text=True).split("\n")
    for path in filter(None, files):
        if not path.endswith((".c", ".h", ".md", ".build", ".py", ".1")) and not path.startswith("tools/"):
            continue
        try:
            with open(path, encoding="utf-8") as file:
                text = was = file.read()
        except UnicodeDecodeError:
            continue
        folder = os.path.dirname(path)
        for old, new in moved.items():
            if old not in text and os.path.basename(old) not in text:
                continue
            text = re.sub(r"(?<![\w/])" + re.escape(old) + r"\b", new, text)
            if path.endswith((".c", ".h")):
                inside = old.removeprefix("src/"), new.removeprefix("src/")
                text = text.replace(f'#include "{inside[0]}"', f'#include "{inside[1]}"')
                if old.startswith("src/"):  # "(node/desk.h)" in a comment
                    text = re.sub(r"(?<![\w/])" + re.escape(inside[0]) + r"\b", inside[1], text)
                for base in ({os.path.dirname(old), os.path.dirname(new)} if not old.startswith("src/") else ()):
                    if folder == base:
                        text = text.replace(f'#include "{os.path.basename(old)}"', f'#include "{os.path.basename(new)}"')
            if path.endswith("meson.build"):
                same = os.path.dirname(old) == folder and os.path.dirname(new) == folder
                if same:
                    text = text.replace(f"'{os.path.basename(old)}'", f"'{os.path.basename(new)}'")
                for prefix in ("../net/", "s3/", ""):
                    rel = os.path.relpath(old, folder)
                    if os.path.relpath(new, folder).startswith("../..") is False:
                        text = text.replace(f"'{rel}'", f"'{os.path.relpath(new, folder)}'")
        if text != was:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


main()
