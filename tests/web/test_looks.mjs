// SPDX-License-Identifier: Apache-2.0
// How the dashboard looks: charts, colours, names of what takes the focus, width.
import { holds, run, same, until } from "./harness.mjs";
import { DIES_AT_ONCE, kill, shows } from "./steps.mjs";

// A queue with something to see in every view; answers each page and what it shows when complete.
async function furnish(node, queue) {
  const message = {
    body: `{"a": [1, true, "${"x".repeat(300)}"]}`,
    group: "g",
    headers: { long: "y".repeat(300) },
  };
  await node.create(queue, DIES_AT_ONCE);
  await kill(node, queue, message);
  await node.send(queue, message);
  await node.settle(queue, "ack", (await node.receive(queue, "worker")).token);
  await node.send(queue, message);
  await node.receive(queue, "worker");
  await node.send(queue, { ...message, delay: "1h" });
  const id = await node.send(queue, message);
  await node.send(queue, { body: "x", workflow: "w" });
  const rows = ["ready", "locked", "delayed", "dead", "processed", "finished", "activity"];
  const chosen = (view) => `.tabs:has(.tab-${view}[aria-current]) + .panel`; // not the one before
  return [
    ["", `.row-link:text-is("${queue}")`],
    ...rows.map((view) => [`#/queues/${queue}/${view}`, `${chosen(view)} .row-link`]),
    [`#/queues/${queue}/workflows`, `${chosen("workflows")} .row-link`],
    [`#/queues/${queue}/workflow/w`, "section[aria-label=History] .row-link"],
    [`#/queues/${queue}/workers`, ".lock a"],
    [`#/queues/${queue}`, "section[aria-label='Recent failures'] .row-link"],
    [`#/queues/${queue}/settings`, ".settings input"],
    [`#/queues/${queue}/message/${id}`, "pre.body"],
    ["#/cluster", "tbody th"],
    ["#/node", "tbody th"],
  ];
}

await run({
  async charts_show_what_happens({ page, node }) {
    await node.create("busy");
    await page.visit("#/queues/busy");
    const paths = page.locator(".chart path.line.ink-sent");
    await until(
      async () => ((await paths.getAttribute("d")) ?? "").includes("L"),
      "the rates have a line",
    );
    // Looked for in the page itself: it is there for a few seconds only.
    const rateSeen = page.waitForFunction(
      () => parseFloat(document.querySelector(".chart .key-sent b").textContent) > 5,
    );
    await node.ask("POST", "v1/queues/busy/messages", {
      messages: Array.from({ length: 500 }, () => ({ body: "x" })),
    });
    await Promise.all([rateSeen, shows(page.locator(".chart .key-ready b"), "500")]);
    const plot = page.getByRole("img", { name: /^Depth/ });
    await plot.focus();
    await page.keyboard.press("ArrowLeft");
    await until(
      async () => /\d+ s ago: ready \d+/.test(await plot.getAttribute("aria-label")),
      "the cursor is read out",
    );
  },

  async many_queues_with_long_names_leave_room_for_their_numbers({ page, startNode, makeFolder }) {
    const folder = makeFolder();
    const node = await startNode(folder);
    await Promise.all(Array.from({ length: 200 }, (_, index) => node.create(`q-${index}`)));
    const long = `z${"y".repeat(79)}`;
    await node.create(long);
    await node.send(long, { body: "x" });
    await page.visit("", node);
    await shows(page.locator("tr", { hasText: long }).locator(".cell-ready a"), "1");
    same(await page.locator("tbody tr").count(), 201, "rows");
    const [inside, outside] = await page
      .locator(".queues")
      .evaluate((node) => [node.scrollWidth, document.documentElement.clientWidth]);
    holds(inside <= outside, `the table is ${inside} wide on a page of ${outside}`);
    await page.locator("tr", { hasText: long }).scrollIntoViewIfNeeded();
    await until(
      async () => (await page.locator("tr", { hasText: long }).locator("path").count()) > 0,
      "its pictures are drawn when it is seen",
    );
  },

  async light_and_dark_follow_the_system_and_the_switch({ open }) {
    const paper = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await open({ colorScheme: "light" });
    const dark = await open({ colorScheme: "dark" });
    await light.visit("");
    await dark.visit("");
    const [white, black] = [await paper(light), await paper(dark)];
    holds(white !== black, `both are ${white}`);
    await light.keyboard.press("t");
    await light.keyboard.press("t");
    await until(async () => (await paper(light)) === black, "the switch makes it dark");
    await light.reload();
    same(await paper(light), black, "the paper after a reload");
  },

  // One visit of each page for all of these: its pages are many.
  async every_page_is_readable_named_and_narrow({ open, node }) {
    const page = await open({ reducedMotion: "reduce", colorScheme: "light" });
    const wide = page.viewportSize();
    const pages = await furnish(node, "a-rather-long-name.for-a-queue_that-is-seldom-given");
    for (const [hash, sign] of pages) {
      await page.visit(hash);
      await page.locator(sign).first().waitFor();
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        same(await page.evaluate(faintTexts), [], `faint texts of ${hash} in ${colorScheme}`);
      }
      same(await page.evaluate(namelessElements), [], `elements without a name on ${hash}`);
      same(await page.locator("h1").count(), 1, `main headings of ${hash}`);
      await page.setViewportSize({ width: 320, height: 640 });
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      holds(width <= 320, `${hash} is ${width} wide`);
      await page.setViewportSize(wide);
    }
  },
});

// In the page: what takes the focus and has no name.
function namelessElements() {
  return [...document.querySelectorAll("a, button, input, select, textarea, [tabindex='0']")]
    .filter((node) => !(node.ariaLabel || node.labels?.length || node.textContent.trim()))
    .map((node) => node.outerHTML.slice(0, 80));
}

// In the page: texts whose colour differs too little from what is behind them (WCAG AA).
function faintTexts() {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const paint = (colors) => {
    pen.clearRect(0, 0, 1, 1);
    for (const color of colors) {
      pen.fillStyle = color;
      pen.fillRect(0, 0, 1, 1);
    }
    return [...pen.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (rgb) =>
    rgb
      .map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
      .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (
      !walker.currentNode.data.trim() ||
      !node.checkVisibility() ||
      node.closest(".hidden, .skip, :disabled, noscript")
    )
      continue;
    const behind = [];
    let opacity = 1;
    for (let at = node; at; at = at.parentElement) {
      behind.unshift(getComputedStyle(at).backgroundColor);
      opacity *= Number(getComputedStyle(at).opacity);
    }
    const back = paint(behind);
    const ink = paint([...behind, getComputedStyle(node).color]).map(
      (part, index) => part * opacity + back[index] * (1 - opacity),
    );
    const [a, b] = [light(ink), light(back)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5)
      faint.push(
        `${walker.currentNode.data.trim().slice(0, 30)} (${node.className}): ${ratio.toFixed(2)}`,
      );
  }
  return [...new Set(faint)];
}
