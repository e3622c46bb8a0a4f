// SPDX-License-Identifier: Apache-2.0
// What is wrong comes first: dead messages, paused queues, a store or a node that does not work.
import { holds, run, same, until } from "./harness.mjs";
import { DIES_AT_ONCE, LIST, changes, kill, shows } from "./steps.mjs";

const rowOf = (page, queue) =>
  page.locator("tbody tr").filter({ has: page.getByRole("link", { name: queue, exact: true }) });

// The colour of an element's text is the red of the page.
const isRed = (locator) =>
  locator.evaluate((node) => {
    const sample = document.createElement("i");
    sample.style.color = "var(--dead)";
    document.body.append(sample);
    const red = getComputedStyle(sample).color;
    sample.remove();
    return getComputedStyle(node).color === red;
  });

const LETTERS = (to) => ({
  "failureStrategy.mode": "dead-letter",
  "failureStrategy.deadLetterQueue": to,
});

await run({
  async dead_messages_and_paused_queues_are_red_and_at_the_top({ page, startNode, makeFolder }) {
    const node = await startNode(makeFolder());
    for (const queue of ["a-healthy", "b-healthy"]) await node.create(queue);
    await node.create("x-dies", DIES_AT_ONCE);
    await node.create("y-paused");
    await page.visit("", node);
    await page.getByText("No dead messages and no paused queues.").waitFor();
    await kill(node, "x-dies", { body: "x" });
    await node.ask("POST", "v1/queues/y-paused/pause");
    const dead = page.locator(".trouble-dead");
    const paused = page.locator(".trouble-paused");
    await shows(dead.locator("strong"), "1 dead message");
    await shows(paused.locator("strong"), "1 queue is paused");
    holds(await isRed(dead.locator("strong")), "dead messages are not red");
    holds(await isRed(paused.locator("strong")), "paused queues are not red");
    const top = async (selector) => (await page.locator(selector).boundingBox()).y;
    holds((await top(".health")) < (await top(".charts")), "health is not above the charts");
    await until(
      async () => (await page.locator(".row-link").allTextContents())[1] === "y-paused",
      "the queues with a problem are the first rows",
    );
    same(
      await page.locator(".row-link").allTextContents(),
      ["x-dies", "y-paused", "a-healthy", "b-healthy"],
      "the order of the rows",
    );
    await shows(rowOf(page, "x-dies").locator(".badge:visible"), "1 dead");
    await shows(rowOf(page, "y-paused").locator(".badge:visible"), "paused");
  },

  async a_dead_letter_queue_is_marked_and_its_messages_count_as_dead({ page, startNode, makeFolder }) {
    const node = await startNode(makeFolder());
    await node.create("orders", LETTERS("graveyard"));
    await node.create("mail", LETTERS("graveyard"));
    await kill(node, "orders", { body: "x" });
    await page.visit("", node);
    const row = rowOf(page, "graveyard");
    await shows(row.locator(".letters-mark:visible"), "dead-letter queue");
    await row.getByText("of mail and orders").waitFor();
    await shows(row.locator(".cell-dead a"), "1");
    await shows(row.locator(".status .badge"), "1 dead letter");
    await shows(page.locator(".trouble-dead strong"), "1 dead message");
    await shows(rowOf(page, "orders").locator(".status .badge"), "1 dead-lettered");
    await page.locator(".trouble-dead").getByRole("link", { name: "graveyard" }).click();
    await page.locator(".letters-mark:visible").waitFor();
    await page.locator(".banner.bad", { hasText: "1 dead letter. Show it" }).waitFor();
  },

  async the_first_view_of_a_queue_is_a_summary({ page, node }) {
    await node.create("seen-first", DIES_AT_ONCE);
    const id = await kill(node, "seen-first", { body: "x" });
    await node.send("seen-first", { body: "y" });
    await page.visit("#/queues/seen-first");
    await page.locator(".tab-summary[aria-current]").waitFor();
    await page.getByRole("figure").filter({ hasText: "Per second" }).waitFor();
    const failures = page.locator("section[aria-label='Recent failures'] tbody tr");
    await failures.getByText("no address").waitFor();
    await failures.getByRole("link", { name: id }).waitFor();
    const fact = (name) =>
      page
        .locator("section[aria-label=Messages] .facts div")
        .filter({ hasText: name })
        .locator("dd");
    await shows(fact("Sent"), "2");
    await shows(fact("Waiting"), "1");
    await shows(fact("Dead in this queue"), "1");
    await page.locator("section[aria-label=Settings]", { hasText: "kept here as dead" }).waitFor();
    await page.locator(".banner.bad", { hasText: "1 dead message. Show it" }).waitFor();
  },

  async a_node_that_is_away_leaves_dimmed_data_and_the_time_it_was_seen({ page, startNode, makeFolder }) {
    const node = await startNode(makeFolder());
    await node.create("dimmed");
    await page.visit("", node);
    await page.locator(".row-link", { hasText: "dimmed" }).waitFor();
    const alarm = page.locator("#outage");
    same(await alarm.isVisible(), false, "whether an outage is shown while the node is there");
    page.expected.push("ERR_", "502");
    await node.kill();
    await alarm.waitFor();
    await shows(page.locator("#outage-text"), "The node does not answer.");
    await until(
      async () =>
        /^Last seen .+ ago, at \d\d:\d\d:\d\d\. Trying again\.$/.test(
          await page.locator("#outage-seen").textContent(),
        ),
      "the page says when the node was seen",
    );
    const opacity = () => page.locator("main").evaluate((at) => getComputedStyle(at).opacity);
    holds(Number(await opacity()) < 1, "the old data is not dimmed");
    await page.locator(".row-link", { hasText: "dimmed" }).waitFor(); // it is still there
    await node.start();
    await alarm.waitFor({ state: "hidden" });
    same(await opacity(), "1", "the opacity of fresh data");
  },

  async a_store_that_takes_no_writes_is_told_on_every_page({ page, node }) {
    await node.create("readable");
    page.expected.push("503");
    await page.route("**/readyz", (route) =>
      route.fulfill({
        status: 503,
        contentType: "application/problem+json",
        body: JSON.stringify({ status: 503, detail: "the disk is full" }),
      }),
    );
    await page.visit("#/queues/readable");
    await shows(page.locator("#outage-text"), "The store takes no writes: the disk is full.");
    same(
      await page.locator("body.stale").count(),
      0,
      "whether data that is fresh is dimmed",
    );
  },

  async a_worker_that_waits_for_messages_is_shown({ page, node }) {
    await node.create("idle");
    await page.visit("#/queues/idle/workers");
    await page.getByText("No active workers").waitFor();
    const got = node.ask("POST", "v1/queues/idle/receive", { wait: "20s", worker: "patient" });
    const row = page.locator("tbody tr", { hasText: "patient" });
    await row.getByText("waiting for messages").waitFor();
    await node.send("idle", { body: "x" });
    same((await got).messages.length, 1, "messages received");
    await row.getByText("working", { exact: true }).waitFor();
  },

  async a_registered_worker_is_paused_after_a_confirmation({ page, node }) {
    await node.create("fleet", { dispatch: "tickets" });
    await node.ask("POST", "v1/queues/fleet/workers", {
      worker: "pod-1",
      capacity: 4,
      labels: "kind=gpu",
    });
    await page.visit("#/queues/fleet/workers");
    const row = page.locator("tbody tr", { hasText: "pod-1" });
    await row.getByText("kind=gpu").waitFor();
    await row.getByRole("button", { name: "Pause" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Pause" }).click();
    await row.getByText("paused", { exact: true }).waitFor();
    const { workers } = await node.ask("GET", "v1/queues/fleet/workers");
    same(workers[0].mode, "paused", "the worker's mode");
    await row.getByRole("button", { name: "Resume" }).waitFor();
  },

  async a_registered_worker_is_drained_and_evicted({ page, node }) {
    await node.create("drained", { dispatch: "tickets" });
    await node.ask("POST", "v1/queues/drained/workers", { worker: "pod-2", capacity: 1 });
    await node.send("drained", { body: "x" });
    const { messages } = await node.ask("POST", "v1/queues/drained/receive", { worker: "pod-2" });
    same(messages.length, 1, "messages received");
    await page.visit("#/queues/drained/workers");
    const row = page.locator("tbody tr", { hasText: "pod-2" });
    const order = async (name) => {
      await row.getByRole("button", { name }).click();
      await page.getByRole("dialog").getByRole("button", { name }).click();
    };
    await row.getByRole("button", { name: "Evict" }).waitFor();
    const { height } = await row.boundingBox();
    holds(height < 60, `the row of a worker has ${height} px`);
    await order("Drain");
    await row.getByText("draining", { exact: true }).waitFor();
    await order("Evict");
    const of = async () => (await node.ask("GET", "v1/queues/drained/stats")).ready;
    await until(async () => (await of()) === 1, "its message is ready again");
  },

  async a_queue_with_messages_and_no_worker_is_told({ page, node }) {
    await node.create("waits");
    await node.send("waits", { body: "x" });
    await changes(page, LIST, (list) => {
      for (const { stats } of list.queues.filter(({ name }) => name === "waits"))
        stats.oldestAgeMs += 120000; // it has waited for two minutes
    });
    await page.visit("");
    const line = page.locator(".trouble", { hasText: "no worker" }).first();
    await line.getByText("waits", { exact: true }).waitFor();
  },

  async no_worker_is_missed_in_a_dead_letter_queue({ page, startNode, makeFolder }) {
    const node = await startNode(makeFolder());
    await node.create("source", LETTERS("source-dead"));
    await kill(node, "source", { body: "x" });
    await until(async () => (await node.stats("source-dead")).ready === 1, "the letter arrives");
    await node.create("waits");
    await node.send("waits", { body: "x" });
    await changes(page, LIST, (list) => {
      list.queues = list.queues.filter(({ name }) => name !== "source"); // a token may hide it
      for (const { stats } of list.queues) stats.oldestAgeMs += 120000;
    });
    await page.visit("", node);
    await shows(page.locator(".trouble-untaken strong"), "1 queue has messages and no worker");
    await page.locator(".trouble-untaken").getByText("waits", { exact: true }).waitFor();
    await page.locator(".trouble-dead").getByText("source-dead", { exact: true }).waitFor();
    await rowOf(page, "source-dead").locator(".letters-mark:visible").waitFor();
  },

  async a_dead_letter_on_its_way_is_a_problem_after_a_minute({ page, node }) {
    let age = 2000;
    await node.create("outgoing", LETTERS("outgoing-dead"));
    await changes(page, LIST, (list) => {
      const { stats } = list.queues.find(({ name }) => name === "outgoing");
      Object.assign(stats, { outbound: 7, outboundAgeMs: age });
    });
    await page.visit("#/queues/outgoing");
    const moved = page.locator(".amounts div", { hasText: "Moved to the dead-letter" });
    await shows(moved.locator("dd"), "7");
    same(await page.locator(".dead-note").isVisible(), false, "dead messages are told over Dead 0");
    same(await page.locator(".head .badges .badge").count(), 0, "badges");
    age = 90000;
    await node.send("outgoing", { body: "x" }); // the page asks again
    await shows(page.locator(".head .badges .badge"), "7 not moved");
    await page.visit("");
    await shows(page.locator(".trouble-stuck strong"), "7 dead letters do not arrive");
    same(await page.locator(".trouble-dead").filter({ hasText: "outgoing" }).count(), 0, "counted as dead");
  },

  async a_queue_that_cannot_be_read_is_told_first({ page, node }) {
    await node.create("torn");
    await changes(page, LIST, (list) => {
      for (const row of list.queues.filter(({ name }) => name === "torn")) {
        delete row.stats;
        Object.assign(row, { code: "CORRUPT", detail: "entry 7 fails its check" });
      }
    });
    await page.visit("");
    const line = page.locator(".trouble").first();
    await shows(line.locator("strong"), "1 queue cannot be read");
    await line.getByText("entry 7 fails its check").waitFor();
  },

  async an_empty_store_shows_three_commands_to_copy({ page, startNode, makeFolder }) {
    const node = await startNode(makeFolder());
    await page.visit("", node);
    const commands = page.locator(".start code");
    await commands.first().waitFor();
    const store = node.pages.replace(/\/$/, "");
    same(
      await commands.allTextContents(),
      [
        `sluice --store ${store} queue create mail`,
        `sluice --store ${store} send mail 'hello'`,
        `sluice --store ${store} work mail -- cat`,
      ],
      "the commands",
    );
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByRole("button", { name: "Copy: Create a queue" }).click();
    await page.locator(".toast", { hasText: "Copied" }).waitFor();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    same(copied, `sluice --store ${store} queue create mail`, "what was copied");
    await node.create("mail");
    await page.locator(".row-link", { hasText: "mail" }).waitFor();
    same(await page.locator(".start").isVisible(), false, "whether the commands are still there");
  },
});
