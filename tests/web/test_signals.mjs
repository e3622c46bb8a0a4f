// SPDX-License-Identifier: Apache-2.0
// Signals to running messages: what the page of a message shows of them, and how it is stopped.
import { run, same, until } from "./harness.mjs";
import { NEWEST, shows, tabNumber } from "./steps.mjs";

const signals = (page) => page.locator("section[aria-label=Signals] tbody tr");
const badgeOf = (page) => page.locator(".head .badge");

// A message that a worker holds.
async function running(node, queue, message = { body: "x" }) {
  await node.create(queue, NEWEST);
  await node.send(queue, message);
  return node.receive(queue, "busy");
}

const ack = (node, queue, token, number, answer) =>
  node.ask("POST", `v1/queues/${queue}/signals/ack`, { token, number, answer });

async function stop(page, fill) {
  await page.getByRole("button", { name: "Stop…" }).click();
  const dialog = page.getByRole("dialog", { name: /^Stop \d+ messages?$/ });
  await fill(dialog);
  await dialog.getByRole("button", { name: "Stop", exact: true }).click();
}

await run({
  async the_signals_of_a_message_are_listed_with_their_answers({ page, node }) {
    const { id, token } = await running(node, "steered");
    await page.visit(`#/queues/steered/message/${id}`);
    await page.locator("pre.body").waitFor();
    same(await signals(page).count(), 0, "signals before the first");
    const to = `v1/queues/steered/messages/${id}/signals`;
    await node.ask("POST", to, { kind: "steer", payload: { speed: 3 } });
    await node.ask("POST", to, { kind: "ask", payload: "how far?" });
    await signals(page).nth(1).waitFor();
    await shows(signals(page).nth(0).locator(".badge"), "pending");
    await signals(page).nth(0).getByText('{"speed":3}').waitFor();
    await signals(page).nth(1).getByText("how far?").waitFor();
    const heads = await page.locator("section[aria-label=Signals] thead th").allTextContents();
    same(heads.filter((words) => words === ""), [], "columns without a name");
    await ack(node, "steered", token, 1, "faster now");
    const first = signals(page).filter({ hasText: "steer" });
    await shows(first.locator(".badge"), "acked");
    await first.getByText("faster now").waitFor();
    await first.getByText('{"speed":3}').waitFor(); // the page has seen it
    await page.reload();
    await first.getByText("not kept after its end").waitFor();
    const history = page.locator("section[aria-label=History] tbody tr");
    await history.filter({ hasText: "ask 2 sent" }).waitFor();
    await history.filter({ hasText: "steer 1 acknowledged by the worker" }).waitFor();
  },

  async a_long_payload_stays_in_its_column({ page, node }) {
    const { id } = await running(node, "wordy");
    const payload = { parameter: "x".repeat(200) }; // no place to break a line
    await node.ask("POST", `v1/queues/wordy/messages/${id}/signals`, { kind: "steer", payload });
    await page.visit(`#/queues/wordy/message/${id}`);
    const cell = signals(page).locator("td.wide").first();
    await cell.getByText("parameter").waitFor();
    const over = await cell.evaluate((node) => node.scrollWidth - node.clientWidth);
    same(over, 0, "pixels outside of the cell");
  },

  async a_pending_signal_is_withdrawn({ page, node }) {
    const { id } = await running(node, "withdrawn");
    await node.ask("POST", `v1/queues/withdrawn/messages/${id}/signals`, { kind: "ask", payload: "?" });
    await page.visit(`#/queues/withdrawn/message/${id}`);
    await signals(page).getByRole("button", { name: "Withdraw" }).click();
    await shows(signals(page).locator(".badge"), "withdrawn");
    same(await signals(page).getByRole("button", { name: "Withdraw" }).isVisible(), false, "a button");
  },

  async a_running_message_is_stopped_with_a_reason_and_no_grace({ page, node }) {
    const { id } = await running(node, "halted-now");
    await page.visit(`#/queues/halted-now/message/${id}`);
    await stop(page, async (dialog) => {
      same(await dialog.locator("code").allTextContents(), [id], "what the dialog names");
      await dialog.getByLabel("Reason").fill("a wrong address");
      await dialog.getByLabel("At once, without a grace").check();
      same(await dialog.getByLabel("Grace", { exact: true }).isDisabled(), true, "a grace beside it");
    });
    await shows(badgeOf(page), "cancelled");
    const reason = page.locator("dl.facts div", { hasText: "Reason" }).locator("dd");
    await shows(reason, "a wrong address");
    same((await node.stats("halted-now")).cancelled, 1, "cancelled messages");
    await page.getByRole("button", { name: "Stop…" }).waitFor({ state: "hidden" });
  },

  async a_grace_lets_the_worker_finish({ page, node }) {
    const { id, token } = await running(node, "patient");
    await page.visit(`#/queues/patient/message/${id}`);
    await stop(page, (dialog) => dialog.getByLabel("Grace", { exact: true }).fill("1h"));
    await shows(signals(page).locator(".badge"), "pending");
    await signals(page).getByText("interrupt").waitFor();
    await node.settle("patient", "ack", token);
    await shows(badgeOf(page), "processed");
  },

  async a_grace_that_is_none_is_refused_in_the_dialog({ page, node }) {
    const { id } = await running(node, "refused");
    page.expected.push("400");
    await page.visit(`#/queues/refused/message/${id}`);
    await stop(page, (dialog) => dialog.getByLabel("Grace", { exact: true }).fill("25h"));
    await page.getByRole("dialog").locator(".problem", { hasText: "grace" }).waitFor();
    same((await node.stats("refused")).locked, 1, "a message that is still locked");
  },

  async selected_messages_are_stopped_in_the_list({ page, node }) {
    const one = await running(node, "several");
    await node.send("several", { body: "y" });
    const two = await node.receive("several", "busy");
    await page.visit("#/queues/several/locked");
    await page.getByLabel("Select all on this page").check();
    await stop(page, (dialog) => dialog.getByLabel("At once, without a grace").check());
    await shows(tabNumber(page, "locked"), "0");
    await until(async () => (await node.stats("several")).cancelled === 2, `${one.id}, ${two.id} ended`);
  },

  async progress_is_shown_wherever_the_job_is({ page, node }) {
    const { id, token } = await running(node, "slow", { body: "x", workflow: "resize" });
    await node.ask("POST", "v1/queues/slow/renew", { token, progress: 40, progressText: "resizing" });
    await page.visit(`#/queues/slow/message/${id}`);
    await shows(page.locator(".progress span"), /^40 %, resizing/);
    await page.visit("#/queues/slow/locked");
    await page.locator("tbody small", { hasText: "40 %, resizing" }).waitFor();
    await page.visit("#/queues/slow/workers");
    await page.locator(".lock", { hasText: "40 %, resizing" }).waitFor();
    await page.visit("#/queues/slow/workflow/resize");
    await page.locator("tbody tr", { hasText: id }).getByText("40 %").waitFor();
  },

  async a_result_is_shown_with_the_finished_message({ page, node }) {
    const { id, token } = await running(node, "useful");
    await node.ask("POST", "v1/queues/useful/ack", { token, result: { width: 640 } });
    await page.visit(`#/queues/useful/message/${id}`);
    await shows(badgeOf(page), "processed");
    await shows(page.locator("section[aria-label=Result] pre"), '{\n  "width": 640\n}');
    await shows(page.locator("section[aria-label=Body] pre"), "x"); // retainBody
  },

  async finished_messages_are_listed_found_and_opened({ page, node }) {
    await node.create("past", NEWEST);
    const ids = [];
    for (const body of ["one", "two", "three"]) ids.push(await node.send("past", { body }));
    for (const result of ["1", "2"]) {
      const { token } = await node.receive("past", "busy");
      await node.ask("POST", "v1/queues/past/ack", { token, result });
    }
    await node.ask("POST", "v1/queues/past/cancel", { ids: [ids[2]], reason: "too late" });
    await page.visit("#/queues/past/summary");
    await page.keyboard.press("f");
    const row = (id) => page.locator("tbody tr", { hasText: id });
    await shows(row(ids[0]).locator(".badge"), "processed");
    const heads = await page.locator("thead th").allTextContents();
    same(heads.slice(2), ["Body", "Attempt", "Outcome", "Worker", "Finished"], "the columns");
    await row(ids[0]).getByText("result 1").waitFor();
    await shows(row(ids[2]).locator(".badge"), "cancelled");
    await row(ids[2]).getByText("too late").waitFor();
    await page.getByLabel("Outcome").selectOption("cancelled");
    await until(async () => (await page.locator("tbody tr").count()) === 1, "one was cancelled");
    await page.getByLabel("Outcome").selectOption("");
    await page.getByLabel("Find", { exact: true }).fill("two");
    await page.keyboard.press("Enter");
    await until(async () => (await page.locator("tbody tr").count()) === 1, "one has the text");
    await page.locator("tbody .row-link").click();
    await shows(page.locator("section[aria-label=Body] pre"), "two");
    await shows(badgeOf(page), "processed");
  },
});
