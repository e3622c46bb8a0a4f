// SPDX-License-Identifier: Apache-2.0
// The dashboard follows the stream of events, and polls only while it has none.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import { holds, run, same, until } from "./harness.mjs";
import { LIST, shows, streams, tabNumber } from "./steps.mjs";

const STREAM = "**/v1/stream?*";

// What the page asks for, from now on.
function record(page) {
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url())));
  return asked;
}

const isList = (url) => url.pathname === "/v1/queues";
const isStream = (url) => url.pathname === "/v1/stream";

// Passes connections to a port, and can break those that carry the stream.
async function openProxy(port) {
  const heads = []; // of the requests for the stream
  const carrying = new Set();
  let refusing = false;
  const proxy = net.createServer((outside) => {
    const inside = net.connect(port, "127.0.0.1");
    for (const socket of [inside, outside]) socket.on("error", () => {});
    outside.on("data", (some) => {
      const text = some.toString("latin1");
      if (!text.startsWith("GET /v1/stream")) return inside.write(some);
      heads.push(text);
      if (refusing) return outside.destroy();
      carrying.add(outside);
      return inside.write(some);
    });
    inside.on("data", (some) => outside.writable && outside.write(some));
    inside.on("close", () => outside.destroy());
    outside.on("close", () => {
      carrying.delete(outside);
      inside.destroy();
    });
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  return {
    heads,
    url: `http://127.0.0.1:${proxy.address().port}/`,
    refuse: (on) => (refusing = on),
    cut: () => carrying.forEach((socket) => socket.destroy()),
    close: () => proxy.close(),
  };
}

const lastId = (head) => /^last-event-id: (\S+)/im.exec(head)?.[1];

await run({
  async nothing_is_asked_while_the_stream_is_open_and_other_nodes_are_seen({
    open,
    startNode,
    makeFolder,
  }) {
    const page = await open(); // its clock is that of its context
    const folder = makeFolder();
    const here = await startNode(folder, "--node", "here");
    const there = await startNode(folder, "--node", "there");
    await here.create("seen-everywhere");
    await page.clock.install();
    await page.visit("", here);
    await streams(page);
    await page.clock.pauseAt(Date.now() + 60000); // from here on time passes only as the case says
    const row = page.locator("tr", { hasText: "seen-everywhere" });
    // The page has read the state since this event arrived, so it asks no more.
    const eventIsShown = (number) =>
      until(async () => {
        await page.clock.runFor(100);
        const events = await page.locator("#live").getAttribute("data-events");
        return Number(events) >= number;
      }, `event ${number} is shown`);
    await there.send("seen-everywhere", { body: "x" });
    await eventIsShown(1);
    await shows(row.locator(".cell-ready a"), "1");
    const line = () => page.locator(".chart path.line").first().getAttribute("d");
    const [asked, before] = [record(page), await line()];
    await page.clock.runFor(22000);
    same(asked.map(String), [], "requests in 22 seconds without an event");
    holds((await line()) !== before, "the charts do not go on");
    const oldest = await row.locator(".cell-oldest span").textContent();
    holds(/^[2-9]\d s$|m/.test(oldest), `the browser does not count the age: ${oldest}`);
    await there.send("seen-everywhere", { body: "y" });
    await eventIsShown(2);
    await shows(row.locator(".cell-ready a"), "2");
    holds(asked.length > 0 && asked.every(isList), `an event makes the page ask for ${asked}`);
  },

  async a_stream_that_breaks_is_resumed_and_polling_bridges_the_gap({ page, node }) {
    await node.create("bridged");
    const proxy = await openProxy(node.port);
    try {
      page.expected.push("ERR_");
      await page.goto(`${proxy.url}#/queues/bridged`);
      await streams(page);
      await node.send("bridged", { body: "first" });
      await shows(tabNumber(page, "ready"), "1");
      const asked = record(page);
      proxy.refuse(true);
      proxy.cut();
      const alarm = page.locator("#outage.warn");
      await alarm.waitFor();
      await shows(page.locator("#outage-text"), "The stream of events broke off.");
      await node.send("bridged", { body: "second" });
      await shows(tabNumber(page, "ready"), "2");
      await until(() => asked.filter(isList).length > 1, "it polls");
      same(await page.locator("body.stale").count(), 0, "whether data that is fresh is dimmed");
      proxy.refuse(false);
      await alarm.waitFor({ state: "hidden" });
      await streams(page);
      same(lastId(proxy.heads[0]), undefined, "where the first stream begins");
      holds(lastId(proxy.heads.at(-1)), `it does not resume: ${proxy.heads.at(-1)}`);
      await node.send("bridged", { body: "third" });
      await shows(tabNumber(page, "ready"), "3");
    } finally {
      proxy.close();
    }
  },

  async a_page_that_lags_reads_the_state_and_begins_anew({ page, node }) {
    await node.create("flooded");
    const asked = [];
    const parts = [
      ": \nid: 00000000.7_1\n\n",
      'id: 00000000.9_1\nevent: lagged\ndata: {"reason":"slow-reader","unreadBytes":524288}\n\n',
    ];
    await page.route(STREAM, async (route) => {
      asked.push(route.request());
      if (asked.length > 1) return route.continue();
      return route.fulfill({ contentType: "text/event-stream", body: parts.join("") });
    });
    await page.visit("#/queues/flooded");
    await until(() => asked.length > 1, "the stream is opened again");
    await streams(page);
    same(asked[1].headers()["last-event-id"], undefined, "the place where it goes on");
    holds(asked[1].url().includes("from=now"), asked[1].url());
    await node.send("flooded", { body: "x" });
    await shows(tabNumber(page, "ready"), "1");
  },

  async a_gap_in_the_stream_makes_the_page_read_the_state({ page, node }) {
    await node.create("gapped");
    const asked = [];
    let late = null; // answers the first request
    await page.route(STREAM, async (route) => {
      asked.push(route.request());
      if (asked.length > 1) return route.continue();
      late = (body) => route.fulfill({ contentType: "text/event-stream", body });
    });
    await page.visit("#/queues/gapped");
    await until(() => late, "the stream is asked for");
    const id = "00000000.9_1";
    const gap = `id: ${id}\nevent: gap\ndata: {"queue":"gapped","reason":"collected"}\n\n`;
    await Promise.all([page.waitForResponse(LIST), late(`: \nid: ${id}\n\n${gap}`)]);
    await until(() => asked.length > 1, "the stream is opened again");
    same(asked[1].headers()["last-event-id"], id, "the place where it goes on");
  },

  async a_queue_without_an_event_appears({ page, startNode, makeFolder }) {
    const node = await startNode(makeFolder());
    await node.create("first");
    await page.visit("", node);
    await streams(page);
    await node.create("second");
    await page.locator(".row-link", { hasText: "second" }).waitFor();
    await streams(page); // it was not polled
  },

  async a_deleted_queue_leaves_the_page_with_the_end_of_its_events({ page, startNode, makeFolder }) {
    const folder = makeFolder();
    const node = await startNode(folder);
    for (const queue of ["stays", "goes"]) await node.create(queue);
    await page.visit("", node);
    await streams(page);
    await page.locator(".row-link", { hasText: "goes" }).waitFor();
    await node.ask("DELETE", "v1/queues/goes");
    await page.locator(".row-link", { hasText: "goes" }).waitFor({ state: "detached" });
    await streams(page);
  },

  async a_node_whose_stream_is_off_or_not_relied_on_is_polled({ page, startNode, makeFolder }) {
    for (const state of ["off", "shadow"]) {
      const folder = makeFolder();
      writeFileSync(join(folder, "node.conf"), `flags.stream=${state}\n`);
      const node = await startNode(folder, "--config", join(folder, "node.conf"));
      await node.create("polled");
      const asked = record(page);
      await page.visit("#/queues/polled", node);
      await page.locator(`#live[title*="flags.stream is ${state}"]`).waitFor();
      await node.send("polled", { body: "x" });
      await shows(tabNumber(page, "ready"), "1");
      await page.waitForResponse(LIST);
      same(asked.filter(isStream).map(String), [], "streams that were opened");
      same(await page.locator("#outage").isVisible(), false, "whether it is shown as a fault");
    }
  },

  async a_token_for_some_queues_follows_those_alone({ page, startNode, makeFolder }) {
    const folder = makeFolder();
    const made = (scope, queue) =>
      JSON.parse(
        execFileSync(
          process.env.SLUICE,
          ["token", "new", "--scope", scope, "--queue", queue, "--name", scope, "--json"],
          { encoding: "utf8" },
        ),
      );
    const [admin, reader] = [made("admin", "*"), made("read", "mine-*")];
    writeFileSync(join(folder, "tokens"), `${admin.line}\n${reader.line}\n`);
    const node = await startNode(folder, "--tokens", join(folder, "tokens"));
    node.headers = { Authorization: `Bearer ${admin.token}` };
    for (const queue of ["mine-1", "mine-2", "other"]) await node.create(queue);
    page.expected.push("403");
    const asked = record(page);
    await page.addInitScript((one) => sessionStorage.setItem("sluice-token", one), reader.token);
    await page.visit("#/queues/mine-2", node);
    await streams(page);
    const queues = asked.filter(isStream).at(-1).searchParams.getAll("queue");
    same(queues, ["mine-1", "mine-2"], "the queues that it follows");
    await node.send("mine-2", { body: "x" });
    await shows(tabNumber(page, "ready"), "1");
  },
});
