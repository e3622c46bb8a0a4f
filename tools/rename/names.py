#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renames identifiers from private metaphors to the field's words. Run in the root of the tree, then moves.py, then
make format. Not applied yet: it was tried on the tree and compiled but for a few names in tests. When it is applied,
both scripts go.

A rule has a pattern of whole identifiers. NAMES hold in code, comments, documents and build files, since
such names have no other meaning. TAGS follow "struct" or "enum". CODE holds in code only, optionally
under some paths: these names are English words too."""
import re
import subprocess
import sys

TAGS = [  # (pattern, replacement, paths)
    ("crew", "sim_worker", "tests/simqueue"),
    ("far_hand", "remote_client", "tests/conformance"),
    ("haul", "peek_batch", "src/local/peek.c"),
    ("audit_book", "audit_row", ""),
    ("seat", "watched_socket", "src/net"),
    ("asker", "caller", "tests"),
    ("crew", "parallel_run", "src/local/parallel.c"),
    ("crew", "http_batch", "src/net/http.c"),
    ("crew", "thread_pool", ""),
    ("hand", "pool_thread", "src/node/thread_pool.c"),
    ("desk", "shard_runner", ""),
    ("company", "inline_policy", ""),
    ("later", "async_call", ""),
    ("quest", "multi_receive", ""),
    ("post", "shard_wait", "src/local/multi_receive.c"),
    ("memory", "recalled_id", "src/local/multi_receive.c"),
    ("memory", "sent_row", "src/local/send.c"),
    ("post", "outgoing_letter", "src/shard"),
    ("errand", "owner_search", "src/owner/owner.c"),
    ("errand", "async_work", "src/api"),
    ("errand", "sim_call", "tests"),
    ("job", "async_job", "src/api"),
    ("job", "work_job", "src/cli"),
    ("trip", "send_attempts", ""),
    ("parcel", "outgoing", "src/api"),
    ("parcel", "chaos_batch", "tests/chaos"),
    ("along", "receive_with_acks", ""),
    ("hand_out", "deliver", ""),
    ("reign", "shard_ownership", ""),
    ("there", "forward_target", "src/server"),
    ("tomb", "tombstone", ""),
    ("tombs", "tombstones", ""),
    ("remains", "deleted_queues", ""),
    ("courier", "http_async", ""),
    ("lanes", "http_tls_pool", ""),
    ("plain", "http_plain", "src|tests/net"),
    ("wires", "socket_table", ""),
    ("turns", "fifo_semaphore", ""),
    ("turn", "job_result", "src/api"),
    ("lines", "connections", "src/net|tests/net"),
    ("lines", "line_reader", "src/cli"),
    ("line", "http_connection", "src/net/http.c"),
    ("line", "connection", "src/net|tests/net"),
    ("line", "queue_jobs", "src/api"),
    ("hangup", "disconnect_watch", ""),
    ("greeting", "peer_challenge", ""),
    ("tally", "handle_counters", "src/api|src/server"),
    ("tally", "chaos_counts", "tests/chaos"),
    ("room", "memory_budget", "src/server|tests/server"),
    ("verdict", "death_policy", "src/queue"),
    ("verdict", "token_check", "src/server"),
    ("verdict", "ownership_move", "src/api"),
    ("verdict", "findings", "tests"),
    ("grave", "dead_entry", ""),
    ("books", "cost_ledger", ""),
    ("backlog", "request_queue", "src/node"),
    ("row", "limiter_row", "src/server/limiter.c"),
    ("row", "watch_row", "src/net/disconnect_watch.c"),
    ("row", "setting_row", "src/queue/config.c"),
    ("row", "s3_answer_row", "src/store/s3/answer.c"),
    ("grant", "token_grant", "src/server/tokens.c"),
    ("place", "field_place", "src/server/fields.c"),
    ("kept", "kept_texts", "src/server"),
    ("kept", "kept_event", "src/local/events.c"),
    ("sending", "remote_send", "src/remote/messages.c"),
    ("receiving", "remote_receive", "src/remote/messages.c"),
    ("settling", "remote_settle", "src/remote/messages.c"),
    ("sending", "send_input", "src/cli"),
    ("giving_back", "answer_release", "src/server/receive.c"),
    ("route", "shard_route", "src/local/queues.c"),
    ("pool", "call_pool", "src/server|tests/server"),
    ("pool", "worker_pool", "src/cli"),
    ("tokens", "token_input", "src/cli/cmd_outcome.c"),
    ("request", "outcome_request", "src/cli/cmd_outcome.c"),
    ("moment", "calendar_time", "src/cli/text.c"),
    ("moment", "http_time", "src/store/s3/auth/times.c"),
    ("walk", "ini_walk", "src/store/s3/auth/ini.c"),
    ("walk", "xml_walk", "src/store/s3/xml.c"),
    ("watch", "work_watch", "src/cli/cmd_work.c"),
    ("watch", "stats_watch", "src/cli/stats_watch.c"),
    ("listing", "object_listing", "src/store/file/object.c"),
    ("shop", "fixture", "tests"),
    ("hand", "client", "tests/conformance"),
    ("hand", "writer", "tests/journal"),
    ("hand", "client", "tests/shard"),
    ("hand", "held_lock", "tests/simqueue"),
    ("slate", "shared_record", "tests/chaos"),
    ("ghost", "reference", "tests"),
    ("stranger", "imposter", "tests"),
    ("arena", "heap_region", "tests"),
]

NAMES = [  # (pattern, replacement)
    # the shard's runner
    (r"desk_way_(\w+)", r"async_runner_\1"),
    (r"desk_carry_fn", "runner_move_fn"),
    (r"desk_carry", "runner_move_dead_letters"),
    (r"desk_look_fn", "runner_inspect_fn"),
    (r"desk_look", "runner_inspect"),
    (r"desk_tally", "runner_counters"),
    (r"desk_later", "runner_async"),
    (r"desk_(\w+)_later", r"runner_\1_async"),
    (r"desk_pass_on", "runner_notify_next"),
    (r"desk_(\w+)", r"runner_\1"),
    (r"(\w+)_desk", r"\1_runner"),
    (r"desks_of", "runners_of"),
    (r"DESKS", "RUNNERS"),
    # asynchronous calls
    (r"later_room", "answer_budget"),
    (r"later_(\w+)", r"async_\1"),
    (r"LATER_(ACK|FAIL|RELEASE|RENEW)", r"ASYNC_\1"),
    (r"(send|receive|driver|owner_find|errand)_later", r"\1_async"),
    (r"driver_later_too", "driver_async_too"),
    # the thread pool
    (r"crew_member", "pool_task"),
    (r"crew_remove", "task_remove"),
    (r"crew_kick", "task_schedule"),
    (r"crew_kick_quietly", "task_schedule_quietly"),
    (r"crew_due", "task_schedule_at"),
    (r"crew_due_quietly", "task_schedule_at_quietly"),
    (r"crew_slow", "task_may_block"),
    (r"crew_lean", "task_may_depend"),
    (r"crew_linger", "task_may_sleep"),
    (r"crew_company", "thread_pool_inline_policy"),
    (r"CREW_NEVER", "TASK_NEVER"),
    (r"CREW_THREADS_MAX", "POOL_THREADS_MAX"),
    (r"driver_crew", "driver_pool"),
    (r"crew_(\w+)", r"thread_pool_\1"),
    # requests run inline
    (r"company_came", "inline_policy_arrived"),
    (r"company_wanted", "inline_policy_requested"),
    (r"company_answered", "inline_policy_answered"),
    (r"company_dropped", "inline_policy_dropped"),
    (r"company_lend", "inline_policy_may_run"),
    (r"company_lent_back", "inline_policy_ended"),
    (r"company_until", "join_until"),
    (r"expect_company", "expect_joiners"),
    (r"COMPANY_(PUT_US|SHARE|WAIT_MAX)", r"JOIN_\1"),
    (r"COMPANY_(\w+)", r"INLINE_\1"),
    # receives over many shards
    (r"receive_begin_quest", "receive_begin_multi"),
    (r"begin_quest", "begin_multi_receive"),
    (r"quest_ended", "multi_receive_ended"),
    (r"quest_(\w+)", r"multi_receive_\1"),
    (r"QUEST_BUCKETS", "MULTI_RECEIVE_BUCKETS"),
    (r"is_twin", "has_same_id"),
    # calls on their way
    (r"trip_(\w+)", r"send_attempts_\1"),
    (r"TRIP_PART", "ATTEMPT_PART"),
    (r"free_parcels", "free_outgoing"),
    (r"haul_weight", "batch_weight"),
    (r"haul_len", "batch_len_within"),
    (r"haul_fit", "batch_reserve"),
    (r"haul_blocks", "batch_delivery_blocks"),
    (r"haul_bound", "batch_claim_max"),
    (r"haul_note", "batch_note_weight"),
    (r"haul_most", "batch_bytes_most"),
    (r"HAUL_BYTES_MAX", "BATCH_BYTES_MAX"),
    (r"HAUL_FREELY", "BATCH_FREELY"),
    (r"along_receive", "receive_with_acks"),
    (r"along_cancel", "receive_with_acks_cancel"),
    (r"along_new", "receive_with_acks_new"),
    (r"hand_out_good", "deliver_drop_stale"),
    (r"hand_out_some", "deliver_some"),
    (r"hand_out", "deliver_batch"),
    # dead letters and deleted queues
    (r"porter_(\w+)", r"upkeep_\1"),
    (r"carry_all", "move_all"),
    (r"carry_from", "move_from"),
    (r"carry_one", "move_one"),
    (r"CARRY_AGAIN_MS", "MOVE_AGAIN_MS"),
    (r"LAST_CARRY_MS", "LAST_MOVE_MS"),
    (r"LIFE_CARRY", "LIFE_MOVE"),
    (r"letter_bring_body", "dead_letter_copy_body"),
    (r"moves_letters", "moves_dead_letters"),
    (r"shard_letters", "shard_dead_letters"),
    (r"shard_next_letter", "shard_next_dead_letter"),
    (r"shard_letter_(\w+)", r"shard_dead_letter_\1"),
    (r"POST_(NOTHING|READING|READY)", r"OUTGOING_\1"),
    (r"post_(poke|not_forgotten|state)", r"outgoing_\1"),
    (r"grave_dig", "dead_list_add"),
    (r"grave_(link|unlink|open)", r"dead_list_\1"),
    (r"graves_len", "dead_list_len"),
    (r"graves", "dead_list"),
    (r"load_grave", "load_dead_entry"),
    (r"no_graves", "no_dead_list"),
    (r"catalog_bury", "catalog_mark_deleted"),
    (r"catalog_remains", "catalog_deleted"),
    (r"tombs_(\w+)", r"tombstones_\1"),
    (r"remains_tally", "deleted_queues_counts"),
    (r"remains_(\w+)", r"deleted_queues_\1"),
    # ownership
    (r"OWNER_ELSEWHERE", "OWNER_REMOTE"),
    (r"(forget|set)_elsewhere", r"\1_owner_address"),
    (r"is_elsewhere", "has_owner_address"),
    (r"reigns_new", "ownerships_new"),
    (r"there_find", "forward_target_find"),
    (r"there_add", "forward_target_add"),
    # the public header
    (r"sluice_look", "sluice_queues_status"),
    (r"sluice_sights_done", "sluice_queues_status_done"),
    (r"sluice_sight", "sluice_queue_status"),
    (r"SLUICE_SEE_(\w+)", r"SLUICE_STATUS_\1"),
    # the HTTP client
    (r"courier_wire", "http_async_connection"),
    (r"courier_place_new", "http_async_host_new"),
    (r"courier_place", "http_async_host"),
    (r"courier_(\w+)", r"http_async_\1"),
    (r"lanes_(new|free|do)", r"http_tls_pool_\1"),
    (r"plain_greet", "http_plain_challenge"),
    (r"plain_(new|free|do)", r"http_plain_\1"),
    (r"wires_(\w+)", r"socket_table_\1"),
    (r"turns_(take|give|init|done|take_free)", r"fifo_semaphore_\1"),
    (r"turn_waiter", "semaphore_waiter"),
    (r"hangup_sit", "disconnect_watch_add"),
    (r"hangup_rise", "disconnect_watch_remove"),
    (r"hangup_watch", "disconnect_watch_begin"),
    (r"hangup_forget", "disconnect_watch_end"),
    (r"hangup_gone", "socket_is_gone"),
    (r"hangup_(\w+)", r"disconnect_watch_\1"),
    (r"peer_greeting", "peer_challenge_of"),
    (r"greeting_(\w+)", r"challenge_\1"),
    (r"GREETING_(\w+)", r"CHALLENGE_\1"),
    (r"line_(new|free|expect|heard)", r"connection_\1", "src/net|tests/net"),
    (r"lines_(init|done|cut_late|admit|unadmit|config)", r"connections_\1", "src/net|tests/net"),
    (r"lines_make_room", "connections_make_space"),
    (r"LINE_PEER_MAX", "CONNECTION_PEER_MAX"),
    # liveness, counters, budgets
    (r"pulse_(\w+)", r"liveness_\1"),
    (r"PULSE_BYTES", "LIVENESS_BYTES"),
    (r"shard_tally", "shard_counters"),
    (r"tally_(each|fn|totals|store|watch)", r"counters_\1"),
    (r"manners_(start|end)", r"live_settings_\1"),
    (r"room_(take|set|used|left|share|init|done)", r"budget_\1"),
    (r"room_part", "budget_part"),
    (r"ROOM_SMALL", "BUDGET_SMALL"),
    (r"answer_room", "answer_budget_of"),
    (r"take_room", "take_budget"),
    (r"take_room_now", "take_budget_now"),
    (r"refuse_room", "refuse_budget"),
    (r"ROOM_NAP_(\w+)", r"FULL_NAP_\1"),
    (r"TURN_(OVER|WAIT|FULL)", r"JOB_\1"),
    (r"TURN_ROOM", "JOB_SPACE"),
    # the store and the journal
    (r"store_part", "store_seal"),
    (r"REQUEST_PART", "REQUEST_SEAL"),
    (r"STAGE_PARTING", "STAGE_SEALING"),
    (r"ask_part", "ask_seal"),
    (r"file_log_part", "file_log_seal"),
    (r"log_part_held", "log_seal_held"),
    (r"(fault|file|meter)_part", r"\1_seal"),
    (r"TIME_DAWN", "TIME_UNKNOWN"),
    (r"store_is_far", "store_is_high_latency"),
    (r"config_far", "config_high_latency"),
    (r"FAR_(\w+)", r"HIGH_LATENCY_\1"),
    (r"books_(journal_submit|journal_respond|result)", r"cost_ledger_\1"),
    (r"s3_judge", "s3_classify"),
    (r"s3_verdict", "s3_class"),
    (r"session_verdict", "session_outcome"),
    (r"judge_other", "decide_other"),
    (r"judge_framing", "check_framing"),
    # the command line
    (r"face_(\w+)", r"work_ui_\1"),
    (r"work_face", "work_ui"),
    (r"heart_(\w+)", r"heartbeat_\1"),
    # tests
    (r"hand_(run|rise|wake|sleep)", r"pool_thread_\1", "src/node"),
    (r"hand_(\w+)", r"client_\1", "tests/conformance"),
    (r"hand_(\w+)", r"writer_\1", "tests/journal"),
    (r"(far|logs)_hand", r"\1_writer", "tests/journal"),
    (r"hands_(\w+)", r"drivers_\1", "tests/conformance"),
    (r"HANDS_MAX", "CLIENTS_MAX", "tests/conformance"),
    (r"HANDS_MAX", "HELD_LOCKS_MAX", "tests/simqueue"),
    (r"hands_len", "held_len", "tests/simqueue"),
    (r"shop_hire", "fixture_writer"),
    (r"shop_moment", "fixture_instant"),
    (r"shop_(\w+)", r"fixture_\1"),
    (r"slate_(\w+)", r"shared_record_\1"),
    (r"SLATE_(\w+)", r"SHARED_RECORD_\1"),
    (r"ghost_(\w+)", r"reference_\1"),
    (r"stranger_(\w+)", r"imposter_\1"),
    (r"arena_(\w+)", r"heap_region_\1"),
    (r"ARENA_LEN", "HEAP_REGION_LEN"),
    (r"verdict_fail", "findings_add"),
    (r"VERDICT_TEXT_MAX", "FINDINGS_TEXT_MAX"),
    (r"errand_async", "sim_call_async"),
    (r"errands_(\w+)", r"sim_calls_\1"),
    (r"errand_later", "sim_call_async"),
    (r"errand_(\w+)", r"sim_call_\1"),
    (r"ERRANDS_MAX", "SIM_CALLS_MAX"),
    (r"ERRAND_(\w+)", r"SIM_CALL_\1"),
]

CODE = [  # (pattern, replacement, paths)
    ("haul", "batch", "src/local/peek.c"),
    ("twin", "same_id", "src/journal"),
    ("twin", "second", "src/store/file"),
    ("heir", "successor", "src/shard"),
    ("grave", "dead_entry", "src/queue"),
    ("view_grave", "view_dead_entry", "src/queue"),
    ("judge", "authorize", "src/server/auth.c"),
    ("judge", "check_head", "src/server/server.c"),
    ("judge", "decide_object", "src/journal/sweep.c"),
    ("judge", "classify_answer", "src/remote/ask.c"),
    ("judge", "ownership_next", "src/owner/owner.c"),
    ("judge", "failure_policy", "src/queue"),
    ("judge", "job_end", "src/cli/work_job.c"),
    ("judge", "find_winner", "src/store/probe.c"),
    ("judge", "decide", "tests"),
    ("delete_judge", "delete_result", "src/store/s3"),
    ("verdict", "outcome", "src/journal"),
    ("verdict", "body_error", "src/local/bodies.c"),
    ("verdict", "move", "src/owner/owner.c"),
    ("verdict", "answer_class", "src/store/s3|tests/s3"),
    ("books", "rows", "src/cli"),
    ("books_cap", "rows_cap", "src/cli"),
    ("GREETING", "CHALLENGING", "src/net"),
    ("along", "with_acks", "src/api"),
    ("face", "base", "src/api"),
    ("heart", "heartbeat", "src/cli"),
    ("logs_hand", "logs_next", "src/store/file"),
    ("hand", "waiting", "src/node/driver.c"),
    ("HAND_ON", "UNLESS_LOST", "src/store"),
    ("send_errand", "begin_search", "src/api"),
    ("tally_note", "counters_note", ""),
    ("say_tally", "print_counts", "src/cli"),
    ("company", "joiners", "src/journal|tests/journal"),
    ("queue_turn", "queue_first_shard", ""),
    ("lent", "runs_inline", "src/node|tests/node"),
    ("LANES", "TLS_CALLS_MAX", "src/server"),
    ("turn", "run", "src/node/crew|src/node/watcher.c|src/upkeep/deleted_queues.c|src/api/later"),
    ("turn", "shard", "src/local/events.c"),
    ("turn_send", "run_send", "src/api"),
    ("turn_settle", "run_settle", "src/api"),
    ("turn_receive", "run_receive", "src/api"),
    ("turn_run", "run_call", "src/api"),
    ("seat", "slot", "tests/net"),
    ("seats", "slots", "tests/net"),
    ("boss", "admin", "tests/server"),
    ("tally", "counts", "tests|bench"),
    ("manners", "settings", "tests"),
    ("MANNERS", "SETTINGS", "tests"),
    ("asker", "caller", "tests"),
    ("askers", "callers", "tests"),
    ("twin", "same_id", "tests"),
    ("far_hand", "remote_client", "tests/conformance"),
    ("hammer_tally", "hammer_counts", "tests|bench"),
    ("history_judge", "history_check", "tests"),
    ("judge_ends", "check_ends", "tests"),
    ("judge_queue", "check_queue", "tests"),
    ("judge_own", "check_own", "tests"),
    ("JUDGE_PATIENCE_MS", "CHECK_PATIENCE_MS", "tests"),
    ("check_verdict", "check_findings", "tests"),
    ("same_books", "same_costs", "tests"),
    ("STRANGER", "IMPOSTER", "tests"),
    ("arena", "region", "tests"),
    ("CREW_MAX", "SIM_WORKERS_MAX", "tests"),
    ("draw_crew", "draw_workers", "tests"),
    ("init_crew", "init_workers", "tests"),
    ("client_carry", "client_move", "tests"),
    ("carrier_carry", "mover_move", "tests"),
    ("own_later", "own_async", "tests"),
    ("desk", "runner", ""),
    ("desks", "runners", ""),
    ("at_desk", "at_runner", ""),
    ("later", "async", "src/api|src/server|src/node|src/net|src/cli|tests/api|tests/server|tests/fuzz|tests/node|tests/support"),
    ("crew", "workers", "tests/simqueue"),
    ("crew", "pool", ""),
    ("crews", "pools", ""),
    ("CREW", "POOL", "src|tests"),
    ("company", "policy", "src/node|tests/node"),
    ("quest", "multi", "src|tests"),
    ("quests", "multis", "src|tests"),
    ("quester", "wait_multi", "src/api"),
    ("twin", "same_id", "src/api"),
    ("twins", "same_ids", "src/api"),
    ("heir", "successor", "src/api"),
    ("tale", "recalled", "src/api"),
    ("posts", "shard_waits", "src/local/multi_receive.c"),
    ("trip", "attempts", "src/api"),
    ("parcel", "outgoing", "src/api"),
    ("parcels", "outgoing", "src/api"),
    ("parcel", "batch", "tests/chaos"),
    ("errand", "work", "src/api"),
    ("errand", "trial", "tests/net|tests/node"),
    ("errand", "call", "tests"),
    ("errands", "calls", "tests"),
    ("reign", "ownership", "src/api"),
    ("reigns", "ownerships", "src/api"),
    ("elsewhere", "owner_address", "src/api"),
    ("there", "forward_to", "src/server/relay.c"),
    ("porter", "upkeep", "src/api"),
    ("carry", "move", "src/api"),
    ("carried", "moved", "src/api|src/node"),
    ("remains", "deleted", "src/api"),
    ("tomb", "tombstone", "src/api"),
    ("tombs", "tombstones", "src/api"),
    ("sights", "statuses", "src|tests"),
    ("courier", "async_http", "src|tests"),
    ("lanes", "tls_pool", "src/net|src/server"),
    ("plain", "plain_http", "src/remote/remote.c|src/remote/ask.c|src/remote/remote.h"),
    ("wires", "sockets", "src/net"),
    ("seat", "slot", "src/net"),
    ("seats", "slots", "src/net"),
    ("hangup", "disconnects", "src/net|tests/net"),
    ("greeting", "challenge", "src|tests"),
    ("tally", "counters", "src/api|src/server|src/shard|src/node"),
    ("room", "budget", "src/api|src/server|tests/server|tests/api"),
    ("far", "high_latency", "src/store|src/journal|src/node|tests/sim|tests/simqueue|tests/support|tests/journal"),
    ("far", "remote", "tests/conformance"),
    ("face", "ui", "src/cli"),
    ("books", "ledger", "src/shard|src/node"),
    ("verdict", "findings", "tests"),
    ("slate", "shared", "tests/chaos"),
    ("ghost", "reference", "tests"),
    ("stranger", "imposter", "tests"),
    ("shop", "fixture", "tests"),
    ("hand", "client", "tests/conformance"),
    ("hands", "clients", "tests/conformance"),
    ("hand", "writer", "tests/journal"),
    ("hand", "held", "tests/simqueue"),
    ("hands", "held", "tests/simqueue"),
    ("keeper", "timer", "src/node"),
]

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_][A-Za-z0-9_]*|.', re.S)
IDENT = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z_][A-Za-z0-9_]*+(?!\.[ch]\b)" if sys.version_info >= (3, 11) else r"(?<![A-Za-z0-9_])[A-Za-z_][A-Za-z0-9_]*(?![A-Za-z0-9_]|\.[ch]\b)")
NAME_RULES = [(re.compile(rule[0] + r"\Z"), rule[1], rule[2] if len(rule) > 2 else "") for rule in NAMES]


def under(path, paths):
    return not paths or any(path.startswith(p) for p in paths.split("|"))


def name(word, path):
    for pattern, new, paths in NAME_RULES:
        if pattern.match(word) and under(path, paths):
            return pattern.sub(new, word)
    return word


def names_in(text, path):
    return IDENT.sub(lambda m: name(m.group(0), path), text)


def c_text(path, text):
    tags = {}
    for old, new, paths in TAGS:
        if old not in tags and under(path, paths):
            tags[old] = new
    bare = {}
    for old, new, paths in CODE:
        if old not in bare and under(path, paths):
            bare[old] = new
    tag = re.compile(r"\b(struct|enum) (" + "|".join(map(re.escape, tags)) + r")\b") if tags else None
    if tag:
        text = tag.sub(lambda m: f"{m[1]} {tags[m[2]]}", text)
    out = []
    include = False
    for m in TOKEN.finditer(text):
        word = m.group(0)
        if word.startswith(("//", "/*")):
            word = names_in(word, path)
        elif word[0].isalpha() or word[0] == "_":
            before = "".join(out[-1:])
            word = bare[word] if word in bare and before not in ("struct ", ) else name(word, path)
        out.append(word)
    return "".join(out)


def main():
    files = subprocess.check_output(["git", "ls-files"], text=True).split("\n")
    for path in filter(None, files):
        if path.startswith("tools/rename"):
            continue
        if path.endswith((".c", ".h")):
            change = lambda text: c_text(path, text)
        elif path.startswith(("docs/", "tests/", "tools/")) or path.endswith(("meson.build", ".md")):
            if path.startswith("tests/fuzz/corpus"):
                continue
            change = lambda text: names_in(text, path)
        else:
            continue
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except UnicodeDecodeError:
            continue
        new = change(text)
        if new != text:
            with open(path, "w", encoding="utf-8") as file:
                file.write(new)


main()
