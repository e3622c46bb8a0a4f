// SPDX-License-Identifier: Apache-2.0
// The page of the cluster: nodes, health, leader, and the map of shards by owner.
import { holds, run, same, until } from "./harness.mjs";
import { shows } from "./steps.mjs";

const NAMES = ["alpha", "beta", "gamma"];

async function withCluster({ startNode, makeFolder }, work) {
  const folder = makeFolder();
  const nodes = [];
  for (const name of NAMES) nodes.push(await startNode(folder, "--node", name));
  await work(nodes);
}

const rowOf = (page, name) => page.locator("tbody tr").filter({ hasText: name }).first();

async function use(nodes, queue, shards) {
  for (let i = 0; i < 3 * shards; i++)
    await nodes[i % nodes.length].ask("POST", `v1/queues/${queue}/messages`, {
      body: "x",
      group: `g${i}`,
    });
}

await run({
  async nodes_leader_and_shards_are_shown_and_a_killed_node_turns_red({ page, startNode, makeFolder }) {
    await withCluster({ startNode, makeFolder }, async (nodes) => {
      const [first] = nodes;
      await first.ask("PUT", "v1/queues/wide", { shards: 12 });
      await until(async () => {
        const { members } = await first.ask("GET", "v1/cluster");
        return members.filter(({ status }) => status === "healthy").length === 3;
      }, "three healthy nodes");
      await until(async () => {
        await use(nodes, "wide", 12);
        const { shards, leader } = await first.ask("GET", "v1/cluster");
        return leader && shards.length === 12 && shards.some(({ owner }) => owner === "alpha");
      }, "a plan, and shards that alpha owns");
      await page.visit("#/cluster", first);
      for (const name of NAMES) await shows(rowOf(page, name).locator(".badge.good").first(), "healthy");
      same(await page.locator("tbody .badge:text-is('leads'):visible").count(), 1, "leaders");
      same(await page.locator(".shard").count(), 12, "squares");
      const numbers = await page.locator(".shard").allTextContents();
      same(numbers, [...Array(12).keys()].map(String), "the numbers of the shards");
      same(await page.locator(".owner-name").allTextContents(), NAMES, "the legend");
      const title = await page.locator(".shard:not(.guessed)").first().getAttribute("title");
      holds(/^wide\/\d+: owned by \w+, epoch \d+/.test(title), title);
      const plan = page.locator(".facts div", { hasText: "Plan" }).locator("dd");
      await shows(plan, /^number \d+ of epoch \d+, with \d+ moves?/);
      // The keyboard leads here, too.
      await page.keyboard.press("g");
      await page.keyboard.press("q");
      await page.keyboard.press("g");
      await page.keyboard.press("c");
      await page.getByRole("heading", { name: "Cluster", exact: true }).waitFor();
      if (process.env.SLUICE_TEST_PICTURE)
        await page.screenshot({ path: process.env.SLUICE_TEST_PICTURE, fullPage: true });
      await nodes[2].kill();
      await until(
        async () =>
          (await rowOf(page, "gamma").count()) === 0 ||
          (await rowOf(page, "gamma").locator(".badge.bad").count()) === 1,
        "gamma is red, or gone",
      );
    });
  },

  async each_queue_is_one_line_with_its_messages({ page, startNode, makeFolder }) {
    const node = await startNode(makeFolder(), "--node", "alone");
    for (const [queue, messages] of [
      ["a-few", 2],
      ["b-none", 1],
      ["c-many", 5],
    ]) {
      await node.ask("PUT", `v1/queues/${queue}`, { shards: 4 });
      for (let i = 0; i < messages; i++) await node.send(queue, { body: "x", group: `g${i}` });
    }
    await node.settle("b-none", "ack", (await node.receive("b-none", "w")).token);
    await page.visit("#/cluster", node);
    const lines = page.locator(".shard-row");
    const line = (queue) => lines.filter({ hasText: queue });
    await shows(line("c-many").locator(".depth"), /^5 waiting or open/);
    await shows(line("b-none").locator(".depth"), /^0 waiting or open/);
    for (const box of await lines.all()) {
      const { height } = await box.boundingBox();
      holds(height < 40, `a line of ${height} px`);
    }
    const names = () => lines.locator("h3").allTextContents();
    same(await names(), ["a-few", "b-none", "c-many"], "the order by name");
    await page.getByLabel("Order of the queues").selectOption("depth");
    same(await names(), ["c-many", "a-few", "b-none"], "the order by messages");
    same(await page.locator("details table").isVisible(), false, "every shard is listed at once");
  },

  async a_node_of_no_cluster_says_so({ page, startNode, makeFolder }) {
    const folder = makeFolder();
    const node = await startNode(folder, "--coord", "none");
    page.expected.push("409");
    await page.visit("#/cluster", node);
    await page.getByText("this node is no member of a cluster").waitFor();
  },
});
