// SPDX-License-Identifier: Apache-2.0
// The workflows of a queue, and the bus and the flags of a node.
import { holds, run, same, until } from "./harness.mjs";
import { DIES_AT_ONCE, shows, streams } from "./steps.mjs";

const ID = "order/77 & more"; // the address has to be encoded

async function begin(node, queue) {
  await node.create(queue, DIES_AT_ONCE);
  const ids = [];
  for (const workflowLast of [false, true])
    ids.push(await node.send(queue, { body: "x", workflow: ID, workflowLast }));
  return ids;
}

const fact = (page, label) =>
  page.locator("section[aria-label=About] .facts div", { hasText: label }).locator("dd");

await run({
  async a_workflow_is_listed_and_opened_with_its_messages({ page, node }) {
    const [first, second] = await begin(node, "flows");
    await page.visit("#/queues/flows");
    await page.getByRole("button", { name: "Pause" }).waitFor();
    await page.keyboard.press("w");
    const row = page.locator("tbody tr", { hasText: ID });
    await shows(row.locator(".badge"), "open");
    await shows(row.locator("td[data-label=Unfinished]"), "2");
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: ID, level: 1 }).waitFor();
    const tasks = page.locator("section[aria-label=Messages] tbody tr");
    await until(async () => (await tasks.count()) === 2, "two messages");
    same(await tasks.locator(".row-link").allTextContents(), [first, second], "its messages");
    same(await tasks.locator(".badge").allTextContents(), ["ready", "ready"], "their states");
    await tasks.first().locator(".row-link").click();
    await page.locator(".facts").getByRole("link", { name: ID }).click();
    await page.getByRole("heading", { name: ID, level: 1 }).waitFor();
    await page.keyboard.press("u");
    await row.waitFor();
  },

  async a_workflow_is_stopped_and_its_bar_is_what_ended({ page, node }) {
    await begin(node, "stopped-flow");
    await page.visit(`#/queues/stopped-flow/workflow/${encodeURIComponent(ID)}`);
    await shows(fact(page, "Unfinished"), "2");
    const colour = (key) =>
      page.locator(`.piece-${key}`).evaluate((one) => getComputedStyle(one).backgroundColor);
    same(await colour("open"), "rgba(0, 0, 0, 0)", "the part of the bar that is unfinished");
    await page.getByRole("button", { name: "Stop…" }).click();
    await page.getByRole("dialog").getByText("2 unfinished.").waitFor();
    await page.getByLabel("Reason").fill("wrong input");
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await shows(fact(page, "Cancelled"), "2");
    await shows(fact(page, "Unfinished"), "0");
    same(await page.getByRole("button", { name: "Stop…" }).isVisible(), false, "offers to stop");
    holds((await colour("cancelled")) !== "rgba(0, 0, 0, 0)", "the part that is cancelled");
  },

  async a_workflow_follows_what_happens_to_its_messages({ page, node }) {
    const [first, second] = await begin(node, "followed");
    await page.visit(`#/queues/followed/workflow/${encodeURIComponent(ID)}`);
    await streams(page);
    await shows(fact(page, "Unfinished"), "2");
    await node.settle("followed", "ack", (await node.receive("followed", "w1")).token);
    await shows(fact(page, "Processed"), "1");
    const { token } = await node.receive("followed", "w2");
    const tasks = page.locator("section[aria-label=Messages] tbody tr");
    await shows(tasks.locator(".worker"), "w2");
    await node.settle("followed", "fail", token, { reason: "no stock" });
    await shows(page.locator(".head .badge"), "failed");
    await shows(fact(page, "Dead"), "1");
    same(await tasks.locator(".row-link").allTextContents(), [second], "messages that are listed");
    const history = page.locator("section[aria-label=History] tbody tr");
    await history.filter({ hasText: "dead, no attempt left: no stock" }).waitFor();
    await history.filter({ hasText: first }).filter({ hasText: "processed" }).waitFor();
    await shows(history.first().locator(".mark"), "workflow-failed");
  },

  async a_workflow_that_does_not_exist_says_so({ page, node }) {
    await begin(node, "few");
    page.expected.push("404");
    await page.visit("#/queues/few/workflow/none");
    await page.getByText('queue few has no workflow "none"').waitFor();
  },

  async a_bus_that_is_away_is_told_on_every_page({ page, startNode, makeFolder }) {
    const node = await startNode(makeFolder(), "--bus", "nats://127.0.0.1:1");
    await begin(node, "silent");
    await until(
      async () => (await node.ask("GET", "readyz")).bus.degraded,
      "the node misses the bus",
    );
    await page.visit("", node);
    await shows(
      page.locator("#outage-text"),
      /^No event has reached the bus for .+, and \d+ wait: .+\.$/,
    );
    await page.locator("#outage.warn").waitFor();
    await page.keyboard.press("g");
    await page.keyboard.press("n");
    const box = page.locator("section[aria-label=Bus]");
    await shows(box.locator(".badge"), "degraded");
    await box.getByText("Degraded for").waitFor();
    await shows(box.locator(".facts div", { hasText: "Dropped" }).locator("dd"), "0 events");
  },

  async a_bus_that_is_reached_shows_its_lag({ page, node }) {
    const bus = { degraded: false, degradedMs: 0, lagEvents: 7, lagMs: 1200, dropped: 3 };
    await page.route("**/readyz", (route) => route.fulfill({ json: { status: "ready", bus } }));
    await page.visit("#/node");
    const box = page.locator("section[aria-label=Bus]");
    await shows(box.locator(".badge"), "connected");
    await shows(box.locator(".facts div", { hasText: "Lag" }).locator("dd"), "7 events, 1 s");
    await shows(box.locator(".facts div", { hasText: "Dropped" }).locator("dd"), "3 events");
    same(await page.locator("#outage").isVisible(), false, "whether it is shown as a fault");
  },

  async the_flags_of_a_node_are_shown({ page, startNode, makeFolder }) {
    const node = await startNode(makeFolder(), "--set", "flags.dispatch=shadow");
    await page.visit("#/node", node);
    const flag = (name) => page.locator(".flags li", { hasText: `flags.${name}` });
    await shows(flag("dispatch").locator(".badge"), "shadow");
    await shows(flag("stream").locator(".badge"), "on");
    same(await page.locator(".flags li").count(), 4, "flags");
    same(await page.locator("section[aria-label=Bus]").isVisible(), false, "a box without a bus");
  },
});
