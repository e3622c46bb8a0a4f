// SPDX-License-Identifier: Apache-2.0
// A node whose store is a Redis server. Runs under with-redis.
import { run } from "./harness.mjs";
import { shows } from "./steps.mjs";

await run({
  async a_store_that_may_lose_messages_is_named({ page, startNode, makeFolder }) {
    const place = `${process.env.SLUICE_TEST_REDIS}&prefix=web${process.pid}`;
    const row = page.locator("dl.facts div").filter({ has: page.getByText("Durability", { exact: true }) });
    const less = await startNode(makeFolder(), "--store", `${place}less&durability=everysec`);
    await page.visit("#/node", less);
    await shows(row.locator("dd"), "a crash may lose acknowledged messages: the store's URL accepts it");
    const durable = await startNode(makeFolder(), "--store", place);
    await page.visit("#/node", durable);
    await page.getByText("Mean commit time").waitFor();
    await row.waitFor({ state: "detached" });
  },
});
