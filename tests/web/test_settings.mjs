// SPDX-License-Identifier: Apache-2.0
// The form of a queue's settings, for a queue that exists and for a new one; and what a token may do.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { holds, run, same, until } from "./harness.mjs";
import { DIES_AT_ONCE, kill, shows, tabNumber } from "./steps.mjs";

const input = (page, key) => page.locator(`[data-key="${key}"]`);
const unit = (page, key) => page.getByLabel(`Unit of ${key}`);
const settingsOf = async (node, queue) => (await node.ask("GET", `v1/queues/${queue}`)).settings;

// Every value of the form as the page shows it.
const shownValues = (page) =>
  page.evaluate(() =>
    Object.fromEntries(
      [...document.querySelectorAll("[data-key]")].map((one) => {
        const select = one.parentElement.querySelector("select[aria-label]");
        return [one.dataset.key, `${one.value} ${select?.value ?? ""}`.trim()];
      }),
    ),
  );

await run({
  async settings_have_groups_units_and_a_sentence_each({ page, node }) {
    await node.create("grouped", { visibilityTimeout: "2m", maxMessageBytes: "256KiB" });
    await page.visit("#/queues/grouped/settings");
    await input(page, "visibilityTimeout").waitFor();
    same(
      await page.locator(".group legend").allTextContents(),
      ["Delivery", "Failures", "Limits", "Events"],
      "the groups",
    );
    same(await input(page, "visibilityTimeout").inputValue(), "2", "the lock time");
    same(await unit(page, "visibilityTimeout").inputValue(), "m", "its unit");
    same(await input(page, "maxMessageBytes").inputValue(), "256", "the largest body");
    same(await unit(page, "maxMessageBytes").inputValue(), "KiB", "its unit");
    const keys = await page.locator("[data-key]").count();
    const sentences = (await page.locator(".setting small").allTextContents()).filter((words) =>
      words.endsWith("."),
    );
    same(sentences.length, keys, "settings with a sentence");
    const flat = (of) =>
      Object.values(of).flatMap((one) => (one && typeof one === "object" ? flat(one) : [one]));
    same(keys, flat(await settingsOf(node, "grouped")).length, "settings in the form");
  },

  async a_number_and_its_unit_are_saved({ page, node }) {
    await node.create("tuned");
    await page.visit("#/queues/tuned/settings");
    await input(page, "visibilityTimeout").fill("90");
    await unit(page, "visibilityTimeout").selectOption("s");
    await input(page, "maxMessageBytes").fill("2");
    await page.getByRole("button", { name: "Save changes" }).click();
    await page.locator(".toast", { hasText: "Changed tuned" }).waitFor();
    const { visibilityTimeout, maxMessageBytes } = await settingsOf(node, "tuned");
    same([visibilityTimeout, maxMessageBytes], ["90s", 2097152], "the settings");
    await until(
      () => page.getByRole("button", { name: "Save changes" }).isDisabled(),
      "nothing is left to save",
    );
  },

  async a_refused_setting_is_marked_at_its_field({ page, node }) {
    await node.create("refused");
    await page.visit("#/queues/refused/settings");
    page.expected.push("400");
    await input(page, "visibilityTimeout").fill("soon");
    await page.getByRole("button", { name: "Save changes" }).click();
    const field = page.locator(".setting", { has: input(page, "visibilityTimeout") });
    await field.locator(".problem", { hasText: "visibilityTimeout" }).waitFor();
    same(
      await input(page, "visibilityTimeout").getAttribute("aria-invalid"),
      "true",
      "whether the field is marked as wrong",
    );
    await until(
      () => input(page, "visibilityTimeout").evaluate((one) => one === document.activeElement),
      "the wrong field has the focus",
    );
    await input(page, "visibilityTimeout").fill("2m"); // a unit that is typed counts
    await page.getByRole("button", { name: "Save changes" }).click();
    await page.locator(".toast", { hasText: "Changed refused" }).waitFor();
    same(await field.locator(".problem").textContent(), "", "the sentence at the field");
    same((await settingsOf(node, "refused")).visibilityTimeout, "2m", "the setting");
  },

  async the_form_of_a_new_queue_shows_the_defaults_of_the_node({ page, node }) {
    await node.ask("PUT", "v1/queues/as-usual", {});
    await page.visit("#/queues/as-usual/settings");
    await input(page, "visibilityTimeout").waitFor();
    const saved = await shownValues(page);
    await page.visit("#/");
    await page.getByRole("button", { name: "New queue" }).click();
    same(await shownValues(page), saved, "the values of a new queue");
  },

  async a_new_queue_is_made_with_the_same_form({ page, node }) {
    await page.visit("");
    await page.getByRole("button", { name: "New queue" }).click();
    await page.getByLabel("Name").fill("made");
    await page.getByLabel("Attempts").fill("3");
    await page.getByText("All settings").click();
    same(
      await input(page, "failureStrategy.deadLetterQueue").inputValue(),
      "made-dead",
      "the dead-letter queue that is offered",
    );
    await input(page, "capacity").fill("many");
    page.expected.push("400");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    const field = page.locator(".setting", { has: input(page, "capacity") });
    await field.locator(".problem", { hasText: "capacity" }).waitFor();
    await input(page, "capacity").fill("500");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("heading", { name: "made", level: 1 }).waitFor();
    const { failureStrategy, capacity, visibilityTimeout } = await settingsOf(node, "made");
    same(
      [failureStrategy.mode, failureStrategy.maxRetries, failureStrategy.deadLetterQueue],
      ["hybrid", 2, "made-dead"],
      "what becomes of failures",
    );
    same([capacity, visibilityTimeout], [500, "30s"], "the rest");
  },

  async buttons_that_the_token_may_not_use_are_not_offered({ open, startNode, makeFolder }) {
    const folder = makeFolder();
    const made = (name, scope) =>
      JSON.parse(
        execFileSync(
          process.env.SLUICE,
          ["token", "new", "--name", name, "--scope", scope, "--queue", "*", "--json"],
          { encoding: "utf8" },
        ),
      );
    const [admin, reader] = [made("boss", "admin"), made("reader", "read")];
    writeFileSync(join(folder, "tokens"), `${admin.line}\n${reader.line}\n`);
    const node = await startNode(folder, "--tokens", join(folder, "tokens"));
    node.headers = { Authorization: `Bearer ${admin.token}` };
    await node.create("guarded", DIES_AT_ONCE);
    await kill(node, "guarded", { body: "x" });
    const pageWith = async (token) => {
      const page = await open();
      await page.addInitScript((one) => sessionStorage.setItem("sluice-token", one), token);
      return page;
    };
    const offered = async (page, hash, sign) => {
      await page.visit(hash, node);
      await page.locator(sign).first().waitFor();
      return page.locator("main button:visible").allTextContents();
    };
    const [boss, guest] = [await pageWith(admin.token), await pageWith(reader.token)];
    const DANGER = ["Purge waiting messages…", "Purge dead messages…", "Delete the queue…"];
    const pages = [
      ["", ".row-link", ["New queue"]],
      ["#/queues/guarded", ".dead-note", ["Send a message", "Pause", "Redrive…"]],
      ["#/queues/guarded/dead", "tbody .row-link", ["Send a message", "Pause", "Purge…"]],
      ["#/queues/guarded/settings", ".settings:visible", ["Save changes", ...DANGER]],
    ];
    for (const [hash, sign, buttons] of pages) {
      const all = await offered(boss, hash, sign);
      for (const name of buttons)
        holds(all.includes(name), `${name} is not offered to admin on ${hash}: ${all}`);
      const few = await offered(guest, hash, sign);
      for (const name of buttons)
        holds(!few.includes(name), `${name} is offered to a reader on ${hash}: ${few}`);
    }
    holds(await input(guest, "capacity").isDisabled(), "a reader can type into the settings");
    await shows(tabNumber(guest, "dead"), "1");
    for (const key of ["s", "p", "r"]) await guest.keyboard.press(key);
    same(await guest.getByRole("dialog").count(), 0, "dialogs that keys opened");
  },
});
