// SPDX-License-Identifier: Apache-2.0
// The keyboard alone, and where the focus is: no key is lost, however late the node answers.
import { holds, run, same, until } from "./harness.mjs";
import { LIST, badge, holder, shows } from "./steps.mjs";

const focused = (page) => page.evaluate(() => document.activeElement.textContent.trim());

const THREE = Array.from({ length: 3 }, () => ({ body: "x" }));

// Watches for what must never be there, not even between two looks; answers what tells of it.
async function watch(page, selector) {
  await page.evaluate((lie) => {
    window.lied = false;
    const look = () => (window.lied ||= document.querySelector(lie) !== null);
    const everything = { attributes: true, childList: true, subtree: true };
    new MutationObserver(look).observe(document.getElementById("main"), everything);
  }, selector);
  return () => page.evaluate(() => window.lied);
}

await run({
  async everything_is_done_with_the_keyboard_alone({ page, node }) {
    const press = async (...keys) => {
      for (const key of keys) await page.keyboard.press(key);
    };
    const dialogGone = () => page.getByRole("dialog").waitFor({ state: "hidden" });
    await node.create("aaa-first");
    await node.ask("POST", "v1/queues/aaa-first/pause"); // it needs attention: it stays the first row
    await page.visit("");
    await page.locator("tbody tr").first().waitFor();
    await press("Tab");
    same(await focused(page), "Skip to content", "the first stop");
    await press("n");
    await page.keyboard.type("by-hand");
    await press("Enter");
    await page.getByRole("heading", { name: "by-hand", level: 1 }).waitFor();
    await press("s");
    await page.keyboard.type("typed, not clicked");
    await press("Control+Enter");
    await dialogGone();
    await press("2");
    await page.locator(".preview", { hasText: "typed, not clicked" }).waitFor();
    await press("j", "Enter");
    await page.locator("pre.body", { hasText: "typed, not clicked" }).waitFor();
    await press("u");
    await page.getByRole("button", { name: "Pause" }).waitFor();
    await press("p");
    await badge(page).filter({ hasText: "paused" }).waitFor();
    await press("p");
    await until(
      async () => !(await node.ask("GET", "v1/queues/by-hand")).paused,
      "the queue is resumed",
    );
    await press("g", "q");
    await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();
    await page.locator("tbody tr", { hasText: "by-hand" }).waitFor();
    await press("j");
    same(await focused(page), "aaa-first", "the first row");
    await press("ArrowDown");
    same(await focused(page), "by-hand", "the second row");
    await press("Home");
    same(await focused(page), "aaa-first", "the first row again");
    await press("?");
    await page.getByRole("dialog").getByText("this list").waitFor();
    await press("Escape");
    same(await focused(page), "aaa-first", "the focus after a dialog");
    await press("/");
    await page.keyboard.type("by-h");
    await until(
      async () => (await page.locator("tbody tr").count()) === 1,
      "the filter leaves one row",
    );
    await press("g"); // typing: not a shortcut
    same(await page.getByLabel("Filter queues").inputValue(), "by-hg", "what was typed");
    await press("Escape", "g", "n");
    await page.getByRole("heading", { name: "Node", level: 1 }).waitFor();
  },

  async the_focus_is_seen_wherever_it_goes({ page, node }) {
    await node.create("seen");
    await node.send("seen", { body: "{}" });
    await page.visit("#/queues/seen/ready");
    await page.locator(".row-link").waitFor();
    const visited = [];
    for (let i = 0; i < 40; i++) {
      await page.keyboard.press("Tab");
      const at = await page.evaluate(() => {
        const node = document.activeElement;
        const style = getComputedStyle(node);
        const box = node.getBoundingClientRect();
        return {
          name: `${node.tagName} ${node.textContent.slice(0, 30)}`,
          body: node === document.body,
          outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
          shown: box.width > 0 && box.height > 0,
        };
      });
      if (at.body) break;
      visited.push(at.name);
      holds(at.outline && at.shown, `the focus cannot be seen on ${at.name}`);
    }
    for (const name of ["Skip", "Send a message", "Pause", "Locked", "Purge…"])
      holds(
        visited.some((words) => words.includes(name)),
        `${name} is not reached: ${visited}`,
      );
  },

  async a_queue_just_created_takes_keys_at_once({ page, node }) {
    await node.create("elder");
    const list = await holder(page, LIST, "GET");
    await page.visit("");
    await page.locator(".row-link", { hasText: "elder" }).waitFor();
    const lied = await watch(page, "main > div > .empty:not([hidden])");
    list.begin();
    await page.keyboard.press("n");
    await page.keyboard.type("newborn");
    const created = page.waitForResponse("**/v1/queues/newborn");
    await page.keyboard.press("Enter");
    await created;
    await until(() => list.held.length > 0, "the list is asked for");
    await list.letGo();
    await page.getByRole("heading", { name: "newborn", level: 1 }).waitFor();
    await page.keyboard.press("s");
    await page.getByRole("dialog", { name: "Send to newborn" }).waitFor();
    same(await lied(), false, "whether it said that there is no such queue");
  },

  async a_key_is_for_the_page_that_was_just_asked_for({ page, node }) {
    await node.create("hasty");
    await page.visit("#/queues/hasty");
    await page.getByRole("button", { name: "Pause" }).waitFor();
    const opened = await page.evaluate(() => {
      for (const key of ["g", "q", "n"])
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      return document.querySelector("dialog[open] h2")?.textContent;
    });
    same(opened, "New queue", "the dialog of the list of queues");
  },

  async what_is_seen_paused_can_be_resumed({ page, node }) {
    await node.create("brakes");
    const answer = await holder(page, "**/v1/queues/brakes/pause", "POST");
    answer.begin();
    await page.visit("#/queues/brakes");
    const button = page.getByRole("button", { name: /Pause|Resume/ });
    await button.focus();
    const lied = await watch(page, ".head:has(.paused:not([hidden])):has(button:disabled)");
    const listed = page.waitForResponse(async (response) => {
      if (!response.url().endsWith("/v1/queues?stats=1")) return false;
      const { queues } = await response.json();
      return queues.some(({ name, paused }) => name === "brakes" && paused);
    });
    await page.keyboard.press("Enter");
    await until(() => answer.held.length > 0, "it is paused and the page has no answer");
    await listed;
    await answer.letGo();
    await badge(page).filter({ hasText: "paused" }).waitFor();
    same(await lied(), false, "whether it said so while the button could not be pressed");
    same(await focused(page), "Resume", "the focus");
    await page.keyboard.press("p");
    await shows(button, "Pause");
    same((await node.ask("GET", "v1/queues/brakes")).paused, false, "whether it is paused");
  },

  async a_row_keeps_the_focus_when_others_go({ page, node }) {
    await node.create("going");
    const ids = [];
    for (let i = 0; i < 4; i++) ids.push(await node.send("going", { body: `${i}` }));
    const leaves = async (count) => {
      await node.receive("going", "taker");
      await until(async () => (await page.locator("tbody tr").count()) === count, `${count} rows`);
    };
    await page.visit("#/queues/going/ready");
    await page.locator(".row-link", { hasText: ids[3] }).waitFor();
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    same(await focused(page), ids[1], "the second row");
    await leaves(3);
    same(await focused(page), ids[1], "the focus when the first row is gone");
    await leaves(2);
    await page.keyboard.press("j");
    same(await focused(page), ids[2], "the row after the one that went with the focus");
  },

  async a_row_keeps_the_focus_while_numbers_change({ page, node }) {
    await node.create("steady");
    await page.visit("");
    const link = page.locator(".row-link", { hasText: "steady" });
    await link.focus();
    await node.send("steady", { body: "x" });
    await shows(page.locator("tr", { hasText: "steady" }).locator(".cell-ready a"), "1");
    same(await focused(page), "steady", "the focus");
    await page.getByRole("button", { name: "Ready", exact: true }).click(); // the most first
    await link.focus();
    const comesFirst = (first, second) =>
      until(
        async () => {
          const names = await page.locator(".row-link").allTextContents();
          return names.includes(first) && names.indexOf(first) < names.indexOf(second);
        },
        `${first} comes before ${second}`,
      );
    const more = (queue) => node.ask("POST", `v1/queues/${queue}/messages`, { messages: THREE });
    await node.create("steadier");
    await more("steadier");
    await comesFirst("steadier", "steady");
    same(await focused(page), "steady", "the focus of a row that another one passed");
    await more("steady");
    await comesFirst("steady", "steadier");
    same(await focused(page), "steady", "the focus of a row in another place");
  },
});
