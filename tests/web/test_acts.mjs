// SPDX-License-Identifier: Apache-2.0
// Finding messages, and acting on one or on several of them.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { holds, run, same, until } from "./harness.mjs";
import { DIES_AT_ONCE, NEWEST, kill, shows, tabNumber } from "./steps.mjs";

const rowsOf = (page) => page.locator("main tbody tr");
const idsOf = (page) => page.locator("main tbody .row-link").allTextContents();
const box = (page, id) => page.getByLabel(`Select ${id}`);

async function fillQueue(node, queue) {
  await node.create(queue);
  const messages = Array.from({ length: 40 }, (_, index) => ({
    body: `number ${index}`,
    headers: { tenant: String(index % 4), half: String(index % 2) },
  }));
  await node.ask("POST", `v1/queues/${queue}/messages`, { messages });
}

async function find(page, kind, value) {
  await page.getByLabel("Find by").selectOption({ label: kind });
  await page.getByLabel("Find", { exact: true }).fill(value);
  await page.keyboard.press("Enter");
}

await run({
  async messages_are_found_by_text_and_header({ page, node }) {
    await fillQueue(node, "haystack");
    await page.visit("#/queues/haystack/ready");
    await rowsOf(page).first().waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("number 3");
    await page.keyboard.press("Enter");
    await shows(page.locator(".searched .muted"), /^Found 11 in 40 messages \(.+\); all were read\.$/);
    same(await rowsOf(page).count(), 11, "messages that contain it");
    await find(page, "Header", "tenant=3");
    await shows(page.locator(".searched .muted"), /^Found 4 in 40 /); // 3, 31, 35, 39
    same(await page.locator(".chip").count(), 2, "conditions");
    await page.reload(); // the address has the conditions
    await shows(page.locator(".searched .muted"), /^Found 4 in 40 /);
    await page.getByRole("link", { name: "Remove: body contains “number 3”" }).click();
    await shows(page.locator(".searched .muted"), /^Found 10 in 40 /);
    same(await page.getByRole("button", { name: "Purge…" }).count(), 0, "offers to purge all");
  },

  async a_search_is_continued_where_it_ended({ page, node }) {
    await fillQueue(node, "long-search");
    await page.visit("#/queues/long-search/ready?header=half%3D0");
    // 20 match, and one request returns at most 25: the page asks for fewer bytes here.
    await page.route("**/v1/queues/long-search/messages?*", (route) => {
      const url = new URL(route.request().url());
      url.searchParams.set("max", "8");
      return route.continue({ url: String(url) });
    });
    await page.reload();
    const words = page.locator(".searched .muted");
    await shows(words, /^Found 8 in \d+ messages .+; not all messages were read yet\.$/);
    await page.getByRole("button", { name: "Continue" }).click();
    await shows(words, /^Found 16 in /);
    await page.getByRole("button", { name: "Continue" }).click();
    await shows(words, /^Found 20 in 40 messages .+; all were read\.$/);
    same(new Set(await idsOf(page)).size, 20, "different messages");
    same(await page.getByRole("button", { name: "Continue" }).isVisible(), false, "an offer to go on");
    await page.getByRole("button", { name: "Search again" }).click();
    await shows(words, /^Found 8 in /);
  },

  async an_id_leads_to_its_message({ page, node }) {
    await fillQueue(node, "by-id");
    const id = await node.send("by-id", { body: "the one", delay: "1h" });
    await page.visit("#/queues/by-id/ready");
    await rowsOf(page).first().waitFor();
    await find(page, "Message id", id);
    await shows(page.locator("pre.body"), "the one");
  },

  async a_time_that_is_none_is_refused({ page, node }) {
    await fillQueue(node, "timed");
    await page.visit("#/queues/timed/ready");
    await rowsOf(page).first().waitFor();
    await find(page, "Sent before", "yesterday");
    await page.getByText('"yesterday" is not a time').waitFor();
    await page.visit("#/queues/timed/ready");
    await find(page, "Sent before", "2999-01-01 00:00");
    await shows(page.locator(".searched .muted"), /^Found 25 in /);
  },

  async selected_dead_messages_are_redriven_and_no_others({ page, node }) {
    await node.create("chosen", DIES_AT_ONCE);
    const ids = [];
    for (const body of ["a", "b", "c"]) ids.push(await kill(node, "chosen", { body }));
    await page.visit("#/queues/chosen/dead");
    await box(page, ids[1]).check();
    await page.keyboard.press("j"); // a check box takes no letters
    await page.locator(`.row-link:text-is("${ids[2]}")`).focus();
    await page.keyboard.press("x");
    await shows(page.locator(".selected .muted"), "2 selected");
    await page.getByRole("button", { name: "Redrive…" }).click();
    const dialog = page.getByRole("dialog", { name: "Redrive 2 messages" });
    same(await dialog.locator("code").allTextContents(), ids.slice(1), "what the dialog names");
    await dialog.getByRole("button", { name: "Redrive", exact: true }).click();
    await page.locator(".toast", { hasText: "Redrove 2" }).waitFor();
    await shows(tabNumber(page, "dead"), "1");
    await until(async () => (await idsOf(page)).join() === ids[0], "one is left in the list");
    same((await node.stats("chosen")).ready, 2, "messages that are ready again");
    same(await page.locator(".selected").isVisible(), false, "whether a selection is left");
  },

  async all_on_a_page_are_selected_at_once({ page, node }) {
    await node.create("whole", DIES_AT_ONCE);
    for (const body of ["a", "b"]) await kill(node, "whole", { body });
    await page.visit("#/queues/whole/dead");
    await page.getByLabel("Select all on this page").check();
    await shows(page.locator(".selected .muted"), "2 selected");
    const third = await kill(node, "whole", { body: "c" });
    await box(page, third).waitFor();
    await shows(page.locator(".selected .muted"), "2 selected"); // a refresh selects nothing
    await page.getByRole("button", { name: "Clear" }).click();
    same(await page.locator(".selected").isVisible(), false, "whether a selection is left");
  },

  async one_dead_message_is_redriven_from_its_page({ page, node }) {
    await node.create("single", DIES_AT_ONCE);
    const [id] = [await kill(node, "single", { body: "x" }), await kill(node, "single", { body: "y" })];
    await page.visit(`#/queues/single/message/${id}`);
    await page.getByRole("button", { name: "Redrive…" }).click();
    await page.getByRole("button", { name: "Redrive", exact: true }).click();
    await page.locator(".toast", { hasText: "Redrove 1" }).waitFor();
    const { dead, ready } = await node.stats("single");
    same([dead, ready], [1, 1], "dead and ready messages");
    await page.getByRole("button", { name: "Redrive…" }).waitFor({ state: "hidden" });
  },

  async selected_messages_that_wait_are_cancelled_and_no_others({ page, node }) {
    await node.create("halted", NEWEST);
    const ids = [];
    for (const body of ["a", "b", "c"]) ids.push(await node.send("halted", { body, delay: "1h" }));
    await page.visit("#/queues/halted/delayed");
    for (const id of ids.slice(1)) await box(page, id).check();
    await page.getByRole("button", { name: "Cancel…" }).click();
    const dialog = page.getByRole("dialog", { name: "Cancel 2 messages" });
    same(await dialog.locator("code").allTextContents(), ids.slice(1), "what the dialog names");
    await dialog.getByLabel("Reason").fill("sent by mistake");
    await dialog.getByRole("button", { name: "Cancel the messages" }).click();
    await page.locator(".toast", { hasText: "Cancelled 2" }).waitFor();
    await shows(tabNumber(page, "delayed"), "1");
    const { delayed, cancelled } = await node.stats("halted");
    same([delayed, cancelled], [1, 2], "delayed and cancelled messages");
    await page.visit("#/queues/halted/summary");
    await shows(page.locator("dl.amounts div", { hasText: "Cancelled" }).locator("dd"), "2");
  },

  async one_message_is_cancelled_from_its_page_and_says_why({ page, node }) {
    await node.create("stopped", NEWEST);
    const id = await node.send("stopped", { body: "x" });
    await page.visit(`#/queues/stopped/message/${id}`);
    await page.getByRole("button", { name: "Cancel…" }).click();
    const dialog = page.getByRole("dialog", { name: "Cancel 1 message" });
    await dialog.getByRole("button", { name: "Keep" }).click();
    same((await node.stats("stopped")).ready, 1, "a message that is kept");
    await page.getByRole("button", { name: "Cancel…" }).click();
    await dialog.getByLabel("Reason").fill("not needed any more");
    await dialog.getByRole("button", { name: "Cancel the message" }).click();
    await shows(page.locator(".head .badge"), "cancelled");
    await page.locator("tbody tr", { hasText: "cancelled: not needed any more" }).waitFor();
    await page.getByRole("button", { name: "Cancel…" }).waitFor({ state: "hidden" });
  },

  async a_message_that_a_worker_took_meanwhile_is_refused({ page, node }) {
    await node.create("raced", NEWEST);
    const id = await node.send("raced", { body: "x" });
    await page.visit(`#/queues/raced/message/${id}`);
    await page.getByRole("button", { name: "Cancel…" }).click();
    await node.receive("raced", "faster");
    await page.getByRole("button", { name: "Cancel the message" }).click();
    await page.getByText(/interrupt|holds/).first().waitFor();
    same((await node.stats("raced")).locked, 1, "a message that is still locked");
  },

  async a_dead_message_is_deleted_from_its_page({ page, node }) {
    await node.create("rotten", { ...NEWEST, ...DIES_AT_ONCE });
    const [id] = [await kill(node, "rotten", { body: "x" }), await kill(node, "rotten", { body: "y" })];
    await page.visit(`#/queues/rotten/message/${id}`);
    await page.getByRole("button", { name: "Delete…" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.locator(".toast", { hasText: "Deleted 1" }).waitFor();
    const { dead, purged } = await node.stats("rotten");
    same([dead, purged], [1, 1], "dead and deleted messages");
    await page.getByRole("button", { name: "Delete…" }).waitFor({ state: "hidden" });
  },

  async a_message_is_edited_and_sent_again({ page, node }) {
    await node.create("edited");
    const id = await node.send("edited", {
      body: '{"big": 12345678901234567890}',
      group: "g1",
      headers: { tenant: "7" },
    });
    await page.visit(`#/queues/edited/message/${id}`);
    await page.getByRole("button", { name: "Send again…" }).click();
    const dialog = page.getByRole("dialog", { name: `Send ${id} again` });
    same(await dialog.getByLabel("Group").inputValue(), "g1", "the group that is filled in");
    const body = dialog.getByLabel("Body");
    same(await body.inputValue(), '{"big": 12345678901234567890}', "the body that is filled in");
    await body.fill('{"big": 12345678901234567890, "edited": true}');
    await dialog.getByRole("button", { name: "Send", exact: true }).click();
    await page.locator(".toast", { hasText: "Sent" }).waitFor();
    const { messages } = await node.ask("GET", "v1/queues/edited/messages?max=5");
    same(
      messages.map(({ body, group, headers }) => [body, group, headers.tenant]),
      [
        ['{"big": 12345678901234567890}', "g1", "7"],
        ['{"big": 12345678901234567890, "edited": true}', "g1", "7"],
      ],
      "both messages",
    );
  },

  async what_the_token_may_not_do_is_not_offered({ page, startNode, makeFolder }) {
    const folder = makeFolder();
    const made = (scope) =>
      JSON.parse(
        execFileSync(
          process.env.SLUICE,
          ["token", "new", "--scope", scope, "--queue", "*", "--name", scope, "--json"],
          { encoding: "utf8" },
        ),
      );
    const [admin, reader] = [made("admin"), made("read")];
    writeFileSync(join(folder, "tokens"), `${admin.line}\n${reader.line}\n`);
    const node = await startNode(folder, "--tokens", join(folder, "tokens"));
    node.headers = { Authorization: `Bearer ${admin.token}` };
    await node.create("guarded", DIES_AT_ONCE);
    const id = await kill(node, "guarded", { body: "x" });
    await page.addInitScript((one) => sessionStorage.setItem("sluice-token", one), reader.token);
    await page.visit("#/queues/guarded/dead", node);
    await rowsOf(page).first().waitFor();
    same(await page.getByRole("checkbox").count(), 0, "check boxes that a reader sees");
    await page.visit(`#/queues/guarded/message/${id}`, node);
    await page.locator("pre.body").waitFor();
    const buttons = await page.locator(".head button:visible").allTextContents();
    same(buttons, [], "buttons that a reader sees");
    holds((await node.stats("guarded")).dead === 1, "the message is still dead");
  },
});
