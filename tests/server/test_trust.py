# SPDX-License-Identifier: Apache-2.0
"""What a node of a cluster does for a small token, and what it tells other machines."""
from harness import case, contains, holds, main, same
from serving import Node, Stream, make_tokens


def start(sluice, name, tokens, *options):
    return Node(sluice, "--node", name, "--tokens", tokens, *options)


@case
def a_token_for_some_queues_neither_drains_nor_ends_a_node(sluice):
    tokens, keys = make_tokens(sluice, boss="scope=admin queue=*", some="scope=admin queue=a-*")
    with start(sluice, "a", tokens) as node:
        for order in ("drain", "undrain", "leave"):
            answer = node.raw("POST", f"/v1/cluster/{order}", {}, headers=keys["some"])
            same(answer.status, 403, f"{order}: {answer}")
            contains(answer.json["detail"], "scope admin", "all queues (*)")
        holds(not node.raw("GET", "/v1/cluster", headers=keys["boss"]).json["draining"], "it is not drained")
        same(node.raw("POST", "/v1/cluster/leave", {}, headers=keys["boss"]).status, 204)
        same(node.process.wait(timeout=60), 0, "the end of the node")


@case
def the_events_of_the_cluster_leave_out_queues_that_the_token_may_not_read(sluice):
    tokens, keys = make_tokens(sluice, boss="scope=admin queue=*", some="scope=read queue=a-*")
    with start(sluice, "a", tokens) as node:
        for queue in ("b-first", "a-second"):
            node.does(201, "PUT", f"/{queue}", headers=keys["boss"])
            node.does(201, "POST", f"/{queue}/messages", {"body": "x"}, headers=keys["boss"])
        heard = {}
        for key in keys:
            stream = Stream(node.address, "/v1/cluster/events", keys[key])
            heard[key] = [data["queue"] for _, data, _ in until_queue(stream, "a-second")]
            stream.close()
        same(heard, {"boss": ["b-first", "a-second"], "some": ["a-second"]})


def until_queue(stream, queue):
    """The events about queues, up to the first of this one."""
    found = []
    while not found or found[-1][1]["queue"] != queue:
        event = stream.next()
        holds(event is not None, f"the stream ended: {found}")
        if event[1] and event[1].get("queue"):
            found.append(event)
    return found


main()
