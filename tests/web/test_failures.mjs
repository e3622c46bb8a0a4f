// SPDX-License-Identifier: Apache-2.0
// Why a message failed is on the page: reason, worker and time of every failed attempt.
import { holds, run, same, until } from "./harness.mjs";
import { DIES_AT_ONCE, changes, holder, kill, shows } from "./steps.mjs";

const RETRIES_ONCE = {
  "failureStrategy.maxRetries": 1,
  "failureStrategy.backoff.initial": "0ms",
};

async function failTwice(node, queue) {
  await node.create(queue, RETRIES_ONCE);
  const id = await node.send(queue, { body: "x" });
  for (const [worker, reason] of [
    ["first-worker", "HTTP 502"],
    ["second-worker", "disk full"],
  ]) {
    const { token } = await node.receive(queue, worker);
    await node.settle(queue, "fail", token, { reason });
  }
  return id;
}

const cells = (page, section, cell) =>
  page.locator(`section[aria-label="${section}"] tbody ${cell}`).allTextContents();

const withWords = (page, words) => page.locator(".wide:visible", { hasText: words }).first();

await run({
  async a_history_names_the_reason_and_the_worker_of_each_failure({ page, node }) {
    const id = await failTwice(node, "told");
    await page.visit(`#/queues/told/message/${id}`);
    const history = page.locator("section[aria-label=History]");
    await history.locator("tr", { hasText: "dead, no attempt left: disk full" }).waitFor();
    await history.locator("tr", { hasText: "failed: HTTP 502; next attempt" }).waitFor();
    same(
      await cells(page, "History", "td.worker"),
      ["", "first-worker", "first-worker", "second-worker", "second-worker"],
      "the workers of the history",
    );
  },

  async an_activity_names_the_reason_and_the_worker_of_each_failure({ page, node }) {
    await failTwice(node, "active");
    await page.visit("#/queues/active/activity");
    await withWords(page, "failed: HTTP 502").waitFor();
    const row = page.locator("tr", { hasText: "dead, no attempt left: disk full" });
    await shows(row.locator("td.worker"), "second-worker");
  },

  async an_activity_leaves_out_notes_on_order_and_shows_one_kind({ page, node }) {
    await node.create("noisy", RETRIES_ONCE);
    for (const body of ["x", "y", "z"]) await node.send("noisy", { body });
    const held = [];
    for (const worker of ["w1", "w2", "w3"]) held.push(await node.receive("noisy", worker));
    await node.settle("noisy", "ack", held[2].token);
    await node.settle("noisy", "fail", held[1].token, { reason: "no ink" });
    await page.visit("#/queues/noisy/activity");
    await withWords(page, "failed: no ink").waitFor();
    const note = page.locator("tbody tr", { hasText: "ordering-best-effort" });
    same(await note.count(), 0, "notes on order");
    const pick = page.getByLabel("Events", { exact: true }).and(page.locator("select"));
    await pick.selectOption("all");
    await note.first().waitFor();
    await pick.selectOption("failures");
    const marks = page.locator("tbody .mark");
    await until(async () => (await marks.count()) === 1, "one failure");
    await withWords(page, "failed: no ink").waitFor();
    await pick.selectOption("outcomes");
    await until(async () => (await marks.count()) === 2, "two outcomes");
    await page.reload(); // the address has the choice
    await until(async () => (await marks.count()) === 2, "two outcomes again");
  },

  async a_message_page_lists_every_failed_attempt({ page, node }) {
    const id = await failTwice(node, "listed");
    await page.visit(`#/queues/listed/message/${id}`);
    await until(async () => (await cells(page, "Failures", "tr")).length === 2, "two failures");
    same(await cells(page, "Failures", "td.reason"), ["HTTP 502", "disk full"], "the reasons");
    same(
      await cells(page, "Failures", "td.worker"),
      ["first-worker", "second-worker"],
      "the workers",
    );
    const note = page.locator("main .banner");
    await note.waitFor();
    const words = await note.textContent();
    holds(
      /^Dead\. Attempt 2 was the last, at .* by second-worker: disk full$/.test(words),
      `the note says ${words}`,
    );
  },

  async failures_that_the_node_lists_are_shown_without_events({ page, node }) {
    await node.create("kept", DIES_AT_ONCE);
    const id = await kill(node, "kept", { body: "x" });
    const failures = [
      { attempt: 1, at: 1767225600000, worker: "w7", reason: "lock-expired", kind: "lock-expired" },
      { attempt: 2, at: 1767225601000, worker: "w8", reason: "no such user", kind: "failed" },
    ];
    await changes(page, `**/v1/queues/kept/messages/${id}`, (message) =>
      Object.assign(message, { failures }),
    );
    page.expected.push("ERR_");
    await page.route("**/v1/queues/kept/events*", (route) => route.abort());
    await page.visit(`#/queues/kept/message/${id}`);
    await until(async () => (await cells(page, "Failures", "tr")).length === 2, "two failures");
    same(
      await cells(page, "Failures", "td.reason"),
      ["the lock expired: the worker did not answer in time", "no such user"],
      "the reasons",
    );
  },

  async failures_of_one_cause_are_one_row_with_their_sum({ page, node }) {
    await node.create("causes", {
      "failureStrategy.mode": "dead-letter",
      "failureStrategy.deadLetterQueue": "causes-dead",
    });
    const reasons = [
      ...Array.from({ length: 4 }, (_, i) => `SMTP 550: no mailbox for user ${i}`),
      ...Array.from({ length: 3 }, (_, i) => `SMTP 421: no mailbox for user ${i}`),
      `cannot open "/var/spool/a": it's busy`,
      `cannot open "/var/spool/b": it's busy`,
      "no address",
    ];
    for (const reason of reasons) {
      await node.send("causes", { body: "x" });
      const { token } = await node.receive("causes", "mailer");
      await node.settle("causes", "fail", token, { reason });
    }
    await until(async () => (await node.stats("causes-dead")).ready === 10, "the letters arrive");
    for (const [queue, before] of [
      ["causes", ""],
      ["causes-dead", "died in causes: "],
    ]) {
      await page.visit(`#/queues/${queue}`);
      const panel = page.locator("section[aria-label='Recent failures']");
      await panel.getByText("10 failed attempts in the newest events.").waitFor();
      same(
        await panel.locator("td.reason > span").allTextContents(),
        [
          "SMTP 550: no mailbox for user …",
          "SMTP 421: no mailbox for user …",
          "cannot open …: it's busy",
          "no address",
        ].map((words) => before + words),
        `the causes in ${queue}`,
      );
      same(await panel.locator("td.number").allTextContents(), ["4", "3", "2", "1"], "how often");
      same(
        await panel.locator("td.reason small").allTextContents(),
        [reasons[3], reasons[6], reasons[8], ""].map((words) => words && `last: ${before}${words}`),
        "the last of each",
      );
      const workers = await panel.locator("td.worker").allTextContents();
      same(workers, ["mailer", "mailer", "mailer", "mailer"], "the last workers");
    }
  },

  async failures_that_are_not_read_yet_are_not_said_to_be_none({ page, node }) {
    await node.create("unread", DIES_AT_ONCE);
    await kill(node, "unread", { body: "x" });
    const late = await holder(page, "**/v1/queues/unread", "GET"); // it is asked before the events
    late.begin();
    await page.visit("#/queues/unread");
    const panel = page.locator("section[aria-label='Recent failures']");
    await until(() => late.held.length > 0, "the page asks");
    await shows(panel.locator("p"), "Loading");
    await late.letGo();
    await panel.getByText("no address").waitFor();
    await node.create("faultless");
    await page.visit("#/queues/faultless");
    await panel.getByText("No recent failures.").waitFor();
  },

  async a_dead_letter_names_its_queue_and_its_reason_first({ page, node }) {
    await node.create("origin", {
      "failureStrategy.mode": "dead-letter",
      "failureStrategy.deadLetterQueue": "origin-dead",
    });
    await kill(node, "origin", { body: "x" });
    await page.visit("#/queues/origin-dead/ready");
    await page.locator("tbody .row-link").click();
    const note = page.locator("main .banner");
    await note.waitFor();
    const words = await note.textContent();
    holds(
      /^Dead letter\. Died in origin at .* after 0 retries: no address$/.test(words),
      `the note says ${words}`,
    );
  },

  async a_finished_message_shows_the_attempts_that_it_took({ page, node }) {
    await node.create("taken", RETRIES_ONCE);
    const id = await node.send("taken", { body: "x" });
    const first = await node.receive("taken", "w");
    await node.settle("taken", "fail", first.token, { reason: "busy" });
    const second = await node.receive("taken", "w");
    await node.settle("taken", "ack", second.token);
    await page.visit(`#/queues/taken/message/${id}`);
    const attempts = page.locator(".facts div", { hasText: "Attempts" }).locator("dd");
    await shows(attempts, "2");
  },

  async a_finished_message_shows_when_and_by_which_worker({ page, node }) {
    await node.create("remembered", { retention: "1d" });
    const id = await node.send("remembered", { body: "x" });
    const { token } = await node.receive("remembered", "the-worker");
    await node.settle("remembered", "ack", token);
    await page.visit(`#/queues/remembered/message/${id}`);
    const fact = (label) => page.locator(".facts div", { hasText: label }).locator("dd");
    await shows(page.locator("main .head .badge"), "processed");
    await shows(fact("Last worker"), "the-worker");
    await shows(fact("Attempts"), "1");
    holds(/ago\)$/.test(await fact("Finished").textContent()), "the time of its end");
  },

  async a_body_that_is_nested_too_deep_is_shown_as_text({ page, node }) {
    await node.create("deep");
    const body = `${"[".repeat(200000)}${"]".repeat(200000)}`;
    const id = await node.send("deep", { body });
    await page.visit(`#/queues/deep/message/${id}`);
    await page.locator("pre.body[data-kind=text]").waitFor();
    await page.getByText("nested more than 64 levels: shown as text").waitFor();
    same(await page.getByRole("button", { name: "JSON" }).count(), 0, "offers of JSON");
    await page.visit("#/queues/deep/ready");
    await page.locator(".preview", { hasText: "[[[[" }).waitFor();
    const shallow = await node.send("deep", { body: '[[{"a":"[[[["}]]' });
    await page.visit(`#/queues/deep/message/${shallow}`);
    await page.locator("pre.body[data-kind=json]").waitFor();
  },
});
