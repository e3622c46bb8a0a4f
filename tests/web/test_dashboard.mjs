// SPDX-License-Identifier: Apache-2.0
// What the dashboard does, in a real browser on a real node.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";
import { holds, run, same, until } from "./harness.mjs";
import { DIES_AT_ONCE, LIST, badge, holder, kill, shows, tabNumber } from "./steps.mjs";

function plainGet(url, headers = {}) {
  return new Promise((resolve, reject) =>
    http
      .get(url, { headers }, (answer) => {
        const parts = [];
        answer.on("data", (some) => parts.push(some));
        answer.on("end", () =>
          resolve({
            status: answer.statusCode,
            headers: answer.headers,
            body: Buffer.concat(parts),
          }),
        );
      })
      .on("error", reject),
  );
}

await run({
  async a_message_goes_from_ready_to_locked_to_processed({ page, open, node }) {
    await node.create("journey");
    await page.visit("#/queues/journey/ready");
    await shows(tabNumber(page, "ready"), "0");
    const id = await node.send("journey", { body: "hello" });
    await shows(tabNumber(page, "ready"), "1");
    await page.locator(".preview", { hasText: "hello" }).waitFor();

    const other = await open();
    await other.visit(`#/queues/journey/message/${id}`);
    await shows(badge(other), "ready");
    const { token } = await node.receive("journey", "worker-1");
    await shows(badge(other), "locked");
    await shows(tabNumber(page, "locked"), "1");
    await page.keyboard.press("7");
    await page.locator("tr", { hasText: "worker-1" }).getByRole("link", { name: id }).waitFor();

    await node.settle("journey", "ack", token);
    await shows(badge(other), "processed");
    await shows(tabNumber(page, "processed"), "1");
    await shows(tabNumber(page, "ready"), "0");
    const told = await other.locator("section[aria-label=History] tbody .mark").allTextContents();
    same(told, ["message-enqueued", "message-claimed", "message-outcome"], "the history");
    await page.keyboard.press("6");
    await page.locator("td", { hasText: /^processed$/ }).waitFor();
  },

  async a_dead_message_is_redriven({ page, node }) {
    await node.create("dead_list", DIES_AT_ONCE);
    await kill(node, "dead_list", { body: "first" });
    await kill(node, "dead_list", { body: "second" });
    await page.visit("#/queues/dead_list/dead");
    await shows(tabNumber(page, "dead"), "2");
    await page.getByRole("button", { name: "Redrive…" }).click();
    await page.getByLabel("How many", { exact: true }).fill("1");
    await page.getByRole("button", { name: "Redrive", exact: true }).click();
    await page.locator(".toast", { hasText: "Redrove 1" }).waitFor();
    await shows(tabNumber(page, "dead"), "1");
    await shows(tabNumber(page, "ready"), "1");
    await page.keyboard.press("r");
    await page.getByRole("button", { name: "Redrive", exact: true }).click();
    await shows(tabNumber(page, "dead"), "0");
    await shows(tabNumber(page, "ready"), "2");
    same((await node.stats("dead_list")).ready, 2, "messages ready again");
  },

  async a_dead_letter_goes_back_to_the_queue_it_died_in({ page, node }) {
    await node.create("letters", {
      "failureStrategy.mode": "dead-letter",
      "failureStrategy.deadLetterQueue": "letters_dead",
    });
    const id = await kill(node, "letters", { body: "returned to sender" });
    await page.visit("#/queues/letters");
    await shows(page.locator(".letters"), "1 dead-lettered to letters_dead");
    await page.locator(".letters a").click();
    await page.getByRole("heading", { name: "letters_dead" }).waitFor();
    await page.visit("#/queues/letters_dead/ready");
    await page.locator("small", { hasText: "died in letters: no address" }).waitFor();
    await page.locator("tbody .row-link").click();
    await page.locator(".headers").getByRole("link", { name: id }).waitFor();
    await page.keyboard.press("u");
    await page.locator(".banner", { hasText: "1 dead letter." }).waitFor();
    await page.getByRole("button", { name: "Redrive…" }).click();
    await page.getByRole("button", { name: "Redrive", exact: true }).click();
    await page.locator(".toast", { hasText: "Redrove 1" }).waitFor();
    await shows(tabNumber(page, "ready"), "0");
    await until(
      async () => (await node.stats("letters")).ready === 1,
      "the message is ready in the first queue",
    );
  },

  async purging_wants_the_queues_name_typed({ page, node }) {
    await node.create("full");
    await node.send("full", { body: "a" });
    await page.visit("#/queues/full/ready");
    await page.getByRole("button", { name: "Purge…" }).click();
    const go = page.getByRole("button", { name: "Purge", exact: true });
    holds(await go.isDisabled(), "it can be done before the name is there");
    await page.getByLabel("Type full to confirm").fill("ful");
    holds(await go.isDisabled(), "it can be done with half the name");
    await page.getByLabel("Type full to confirm").fill("full");
    await go.click();
    await page.locator(".toast", { hasText: "Purged 1 of full" }).waitFor();
    same((await node.stats("full")).purged, 1, "messages purged");
  },

  async a_dialog_closes_when_its_page_is_left({ page, node }) {
    await node.create("first-page", DIES_AT_ONCE);
    await kill(node, "first-page", { body: "x" });
    await node.create("second-page");
    await page.visit("");
    await page.getByRole("link", { name: "first-page", exact: true }).first().click();
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "Redrive…" }).click();
    await dialog.waitFor();
    await page.goBack();
    await page.getByRole("heading", { name: "Queues" }).waitFor();
    same(await dialog.count(), 0, "dialogs of the queue over the overview");
    await page.visit("#/queues/first-page/settings");
    await page.getByRole("button", { name: "Purge waiting messages" }).click();
    await dialog.waitFor();
    await page.evaluate(() => (location.hash = "#/queues/second-page/settings"));
    await page.getByRole("heading", { name: "second-page" }).waitFor();
    same(await dialog.count(), 0, "dialogs of one queue over the page of another");
    await page.keyboard.press("?");
    await dialog.waitFor();
    await page.goBack();
    await page.getByRole("heading", { name: "first-page" }).waitFor();
    same(await dialog.count(), 0, "the list of keys over another page");
  },

  async an_answer_after_its_dialog_closed_is_still_told({ page, node }) {
    await node.create("slow-refusal");
    await page.visit("#/queues/slow-refusal");
    await page.getByRole("button", { name: "Send a message" }).click();
    await page.getByLabel("Body").fill("x");
    await page.getByText("Options").click();
    await page.getByLabel("Delay", { exact: true }).fill("soon");
    const late = await holder(page, "**/v1/queues/slow-refusal/messages", "POST");
    late.begin();
    page.expected.push("400");
    await page.getByRole("button", { name: "Send", exact: true }).click();
    await until(() => late.held.length > 0, "the page sends");
    await page.evaluate(() => (location.hash = "#/"));
    await page.getByRole("heading", { name: "Queues" }).waitFor();
    await late.letGo();
    await page.locator(".toast.bad", { hasText: "delay" }).waitFor();
  },

  async markup_in_names_and_bodies_is_shown_as_text({ page, node }) {
    const evil = '<img src=x onerror="window.ran = 1"><script>window.ran = 1</script>';
    await node.create("markup");
    const id = await node.send("markup", {
      body: evil,
      group: "<b>g</b>",
      headers: { "<i>h</i>": evil },
      workflow: evil,
    });
    const pages = [
      "#/queues/markup/ready",
      `#/queues/markup/message/${id}`,
      "#/queues/markup/workers",
      "#/queues/markup/activity",
      `#/queues/${encodeURIComponent(evil)}`,
      `#/${encodeURIComponent(evil)}`,
    ];
    await node.receive("markup", "<u>worker</u>");
    await node.send("markup", { body: evil, group: "<b>g</b>" });
    for (const hash of pages) {
      await page.visit(hash);
      await page.locator("main h1").waitFor();
      if (hash.includes("message")) await shows(page.locator("pre.body"), evil);
      if (hash.endsWith("workers"))
        await page.locator("tbody th", { hasText: "<u>worker</u>" }).waitFor();
      if (hash === pages[0]) await page.locator(".preview", { hasText: "<img src=x" }).waitFor();
      same(
        await page.locator("main :is(img, script, i, u), main td b").count(),
        0,
        `elements made of text on ${hash}`,
      );
      same(await page.evaluate(() => window.ran), undefined, "what the text did");
    }
    page.expected.push("400"); // such a name is refused by the node
  },

  async a_body_is_shown_as_json_text_or_bytes({ page, node }) {
    await node.create("bodies");
    const json = await node.send("bodies", {
      body: '{"big":12345678901234567890,"list":[1,{}],"none":null}',
    });
    await page.visit(`#/queues/bodies/message/${json}`);
    const body = page.locator("pre.body");
    await shows(
      body,
      '{\n  "big": 12345678901234567890,\n  "list": [\n    1,\n    {}\n  ],\n  "none": null\n}',
    );
    await page.getByRole("button", { name: "Text" }).click();
    await shows(body, '{"big":12345678901234567890,"list":[1,{}],"none":null}');
    const value = '{"big":12345678901234567890,"half":1.50}';
    await page.route(`**/v1/queues/bodies/messages/${json}`, async (route) => {
      const response = await route.fetch().catch(() => null); // null: the page is closed
      if (!response) return;
      const text = (await response.text()).replace(/"body":"(?:[^"\\]|\\.)*"/, `"body":${value}`);
      await route.fulfill({ response, body: text });
    });
    await page.reload();
    await shows(body, '{\n  "big": 12345678901234567890,\n  "half": 1.50\n}'); // JSON as a value
    const sent = await node.ask(
      "POST",
      "v1/queues/bodies/messages",
      new Uint8Array([0, 255, 65, 254]),
      { "Content-Type": "application/octet-stream" },
    );
    await page.visit(`#/queues/bodies/message/${sent.id}`);
    await until(
      async () => (await body.textContent()).startsWith("00000000  00 ff 41 fe "),
      "the bytes are shown",
    );
  },

  async pages_of_messages_follow_each_other({ page, node }) {
    await node.create("many");
    const messages = Array.from({ length: 30 }, (_, index) => ({ body: `number ${index}` }));
    await node.ask("POST", "v1/queues/many/messages", { messages });
    await page.visit("#/queues/many/ready");
    await page.locator(".preview", { hasText: "number 24" }).waitFor();
    same(await page.locator("tbody tr").count(), 25, "rows of the first page");
    await page.getByRole("link", { name: "Next page" }).click();
    await page.locator(".preview", { hasText: "number 29" }).waitFor();
    same(await page.locator("tbody tr").count(), 5, "rows of the second page");
    await page.getByRole("link", { name: "First page" }).click();
    await page.locator(".preview", { hasText: "number 0" }).waitFor();
  },

  async it_says_so_when_the_node_is_gone_and_goes_on_when_it_is_back({ page, node }) {
    await node.create("lasting");
    await page.visit("#/queues/lasting/activity");
    await shows(page.locator("#live-text"), "Live");
    const told = () => page.locator("tbody .id").allTextContents();
    const before = await node.send("lasting", { body: "before" });
    await until(async () => (await told()).length > 0, "the first event");
    page.expected.push("ERR_", "502");
    await node.kill();
    await shows(page.locator("#live-text"), "Not connected");
    await node.start();
    await shows(page.locator("#live-text"), "Live");
    const after = await node.send("lasting", { body: "after" });
    await until(async () => (await told()).includes(after), "the second event");
    same(await told(), [after, before], "events, each of them once");
  },

  async a_queue_that_is_deleted_and_made_again_is_shown_anew({ page, node }) {
    await node.create("twice");
    const old = await node.send("twice", { body: "old" });
    await page.visit("#/queues/twice/activity");
    const told = () => page.locator("tbody .id").allTextContents();
    await until(async () => (await told()).includes(old), "the first queue's event");
    page.expected.push("404"); // while it is gone
    await node.ask("DELETE", "v1/queues/twice");
    await page.locator(".empty:visible", { hasText: "There is no queue twice" }).waitFor();
    same(
      await page.getByRole("button", { name: /Send a message|Pause/ }).count(),
      0,
      "buttons of a queue that is not there",
    );
    await node.create("twice");
    const fresh = await node.send("twice", { body: "new" });
    await until(async () => (await told()).includes(fresh), "the second queue's event");
    same(await told(), [fresh], "events of the second queue alone");
  },

  async an_address_that_makes_no_sense_is_no_error({ page, node }) {
    await node.create("sense");
    page.expected.push("400", "404");
    for (const [hash, words] of [
      ["#/%ff", "There is no such page"],
      ["#/queues/%ff", "There is no queue %ff in this store."],
      ["#/queues/none%", "There is no queue none% in this store."],
      ["#/queues/sense/nothing", "There is no such view."],
      ["#/queues/sense/message/%ff", "is not a message id"],
    ]) {
      await page.visit(hash);
      await page.getByText(words).first().waitFor();
    }
    await page.keyboard.press("g");
    await page.keyboard.press("q");
    await page.locator(".row-link", { hasText: "sense" }).waitFor();
  },

  async a_token_is_asked_for_and_kept_for_the_tab({ page, startNode, makeFolder }) {
    const folder = makeFolder();
    const made = (scope, queue) =>
      JSON.parse(
        execFileSync(
          process.env.SLUICE,
          ["token", "new", "--scope", scope, "--queue", queue, "--name", scope, "--json"],
          { encoding: "utf8" },
        ),
      );
    const [admin, reader] = [made("admin", "*"), made("read", "*")];
    writeFileSync(join(folder, "tokens"), `${admin.line}\n${reader.line}\n`);
    const node = await startNode(folder, "--tokens", join(folder, "tokens"));
    await node.ask("PUT", "v1/queues/guarded", {}, { Authorization: `Bearer ${admin.token}` });
    page.expected.push("401", "403");
    const refusal = await holder(page, LIST, "GET");
    await page.visit("", node);
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await shows(page.locator("#live-text"), "Token required");
    await page.locator("#live").click();
    await page.getByRole("textbox", { name: "Token" }).fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByRole("textbox", { name: "Token" }).waitFor();
    refusal.begin();
    await until(() => refusal.held.length > 0, "the list is asked for with the wrong token");
    await page.getByRole("textbox", { name: "Token" }).fill(reader.token);
    await page.keyboard.press("Enter");
    await refusal.letGo();
    await page.locator(".row-link", { hasText: "guarded" }).waitFor();
    same(await page.getByRole("dialog").count(), 0, "dialogs after a refusal of the wrong token");
    await page.reload();
    await page.locator(".row-link", { hasText: "guarded" }).click();
    await shows(tabNumber(page, "ready"), "0");
    same(await page.getByRole("dialog").count(), 0, "dialogs after a reload");
    await page.visit("#/queues/guarded/activity", node);
    await page.locator(".muted", { hasText: "following" }).waitFor();
    same(await page.evaluate(() => Object.keys(localStorage)), [], "what outlives the tab");
  },

  async files_are_tagged_compressed_and_guarded({ node }) {
    const plain = await plainGet(`${node.url}assets/app.js`);
    const packed = await plainGet(`${node.url}assets/app.js`, { "Accept-Encoding": "gzip, br" });
    same(
      [plain.status, packed.status, packed.headers["content-encoding"]],
      [200, 200, "gzip"],
      "both are there",
    );
    holds(
      packed.body.length < plain.body.length / 2,
      `${packed.body.length} of ${plain.body.length} bytes`,
    );
    holds(plain.headers.etag !== packed.headers.etag, "two forms have one tag");
    const again = await plainGet(`${node.url}assets/app.js`, {
      "If-None-Match": plain.headers.etag,
    });
    same([again.status, again.body.length], [304, 0], "asked again");
    const policy = (await plainGet(node.url)).headers["content-security-policy"];
    for (const part of [
      "default-src 'none'",
      "frame-ancestors 'none'",
      "script-src 'self';",
      "require-trusted-types-for 'script'",
    ])
      holds(policy.includes(part), `${part} is not in ${policy}`);
    holds(!policy.includes("unsafe"), policy);
    for (const path of ["assets/nothing.js", "assets/..%2Fapp.js", "assets/", "assets/a/b"])
      same((await plainGet(node.url + path)).status, 404, path);
  },
});
