// SPDX-License-Identifier: Apache-2.0
// A real node and a real browser for the cases of a file. Each case has a page of its own; whatever
// a page complains about (an error, a refused resource, an exception) fails its case. Files that
// run in one process (all.mjs) share the browser.
//
//   await run({ async a_sentence_that_is_true({ page, node }) { ... } });
//
// A slow machine is had anywhere: SLUICE_TEST_SLOW=10 divides the speed of the pages' scripts,
// SLUICE_TEST_DELAY=300 holds back whatever the node says to a page by so many milliseconds. A case
// that depends on neither passes with both.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

const { chromium } = createRequire(join(process.env.SLUICE_TEST_MODULES, "package.json"))(
  "playwright-core",
);
export const PATIENCE_MS = 30000 * Number(process.env.TEST_PATIENCE || 1); // sanitizers are slow
const SLOW_TIMES = Number(process.env.SLUICE_TEST_SLOW ?? 1);
const DELAY_MS = Number(process.env.SLUICE_TEST_DELAY ?? 0);

export function same(got, expected, what) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${what}: expected ${b}, got ${a}`);
}

export function holds(condition, what) {
  if (!condition) throw new Error(what);
}

// Asks again until the answer is true; a state is waited for, never a time. what: words, or a
// function that says them when they are wanted.
export async function until(question, what) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const answer = await question();
    if (answer) return answer;
    if (Date.now() > end)
      throw new Error(`never happened: ${typeof what === "function" ? what() : what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// A door in front of a port, through which answers come late. A port without a listener looks
// like one through the door as well: the connection breaks.
async function openDoor(portOf) {
  const sockets = new Set();
  const door = net.createServer((outside) => {
    const inside = net.connect(portOf(), "127.0.0.1");
    const late = (work) => setTimeout(work, DELAY_MS);
    for (const socket of [inside, outside]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => {}); // "close" follows
      socket.on("close", () => sockets.delete(socket));
    }
    outside.pipe(inside);
    outside.on("close", () => inside.destroy());
    inside.on("data", (some) => late(() => outside.writable && outside.write(some)));
    inside.on("close", () => late(() => outside.destroySoon()));
  });
  await new Promise((resolve) => door.listen(0, "127.0.0.1", resolve));
  const close = () => {
    door.close();
    for (const socket of sockets) socket.destroy();
  };
  return { port: door.address().port, close };
}

class Node {
  constructor(folder, options = []) {
    this.store = join(folder, "store");
    this.options = options;
    this.headers = {}; // of every request: a token
    this.port = 0;
  }

  // On a port below those that the system hands out: it stays free while the node is away.
  async start() {
    for (let tries = this.port ? 1 : 5; ; tries--) {
      const port = this.port || 15000 + Math.floor(Math.random() * 15000);
      try {
        return await this.startAt(port);
      } catch (error) {
        if (tries === 1) throw error;
      }
    }
  }

  // setpriv: the node is gone when this process is, however it ends.
  async startAt(port) {
    const program = [
      "--pdeathsig",
      "KILL",
      process.env.SLUICE,
      "--store",
      this.store,
      "serve",
      "--json",
      "--quiet",
    ];
    this.child = spawn(
      "setpriv",
      [...program, "--listen", `127.0.0.1:${port}`, ...this.options],
      { stdio: ["ignore", "pipe", "ignore"] },
    );
    await new Promise((resolve, reject) => {
      let text = "";
      this.child.stdout.on("data", (some) => (text += some).includes("\n") && resolve(text));
      this.child.on("exit", (status) => reject(new Error(`the node ended with ${status}`)));
    });
    this.port = port;
    this.url = `http://127.0.0.1:${port}/`;
    if (DELAY_MS) this.door ??= await openDoor(() => this.port);
    // What a browser opens.
    this.pages = DELAY_MS ? `http://127.0.0.1:${this.door.port}/` : this.url;
  }

  async end() {
    await this.kill();
    this.door?.close();
  }

  async kill() {
    this.child.removeAllListeners("exit");
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const gone = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGKILL");
    await gone;
  }

  async ask(method, path, body, headers = {}) {
    const answer = await fetch(this.url + path, {
      method,
      headers: {
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...this.headers,
        ...headers,
      },
      body:
        body === undefined ? undefined : body instanceof Uint8Array ? body : JSON.stringify(body),
    });
    const text = await answer.text();
    holds(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  // No lock ends by itself while a slow machine is busy with a case.
  create(queue, settings = {}) {
    return this.ask("PUT", `v1/queues/${queue}`, { visibilityTimeout: "1h", ...settings });
  }

  async send(queue, message) {
    return (await this.ask("POST", `v1/queues/${queue}/messages`, message)).id;
  }

  async receive(queue, worker) {
    const { messages } = await this.ask("POST", `v1/queues/${queue}/receive`, {
      max: 1,
      wait: 5000,
      worker,
    });
    same(messages.length, 1, "messages received");
    return messages[0];
  }

  settle(queue, how, token, more = {}) {
    return this.ask("POST", `v1/queues/${queue}/${how}`, { tokens: [token], ...more });
  }

  stats(queue) {
    return this.ask("GET", `v1/queues/${queue}/stats`);
  }
}

async function openContext(browser, options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  return context;
}

async function openPage(context, node) {
  const page = await context.newPage();
  if (SLOW_TIMES > 1) {
    const session = await context.newCDPSession(page);
    await session.send("Emulation.setCPUThrottlingRate", { rate: SLOW_TIMES });
  }
  page.complaints = [];
  page.expected = []; // what the case provokes: parts of complaints
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()))
      page.complaints.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => page.complaints.push(`exception: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith("http://127.0.0.1:"))
      page.complaints.push(`asked another host: ${request.url()}`);
  });
  page.visit = (hash = "", on = node) => page.goto(on.pages + hash);
  return page;
}

const unexpected = (page) =>
  page.complaints.filter((words) => !page.expected.some((part) => words.includes(part)));

// The lines of the test that were under way, the innermost first. The last is that of run().
function stepsOf(error) {
  const places = String(error.stack).matchAll(/(\/[^\s:()]+\.mjs):(\d+)/g);
  const steps = [...places]
    .filter(([, file]) => !file.endsWith("/harness.mjs"))
    .map(([, file, number]) => {
      const line = readFileSync(file, "utf8").split("\n")[number - 1];
      return `${basename(file)}:${number}: ${line.trim()}`;
    });
  return [...new Set(steps)].slice(0, -1);
}

// In the page: what it shows.
function look() {
  const words = (node) => (node?.innerText ?? "").trim().replace(/\s+/g, " ").slice(0, 60);
  const name = ({ tagName, id, className }) =>
    tagName.toLowerCase() + (id && `#${id}`) + (className && `.${String(className)}`);
  const seen = (selector) =>
    [...document.querySelectorAll(selector)].filter((node) => node.checkVisibility()).map(words);
  const at = document.activeElement;
  return {
    url: location.href,
    heading: seen("h1").join(),
    live: words(document.getElementById("live-text")),
    focus: `${name(at)} "${at.value || (at === document.body ? "" : words(at))}"`,
    dialog: seen("dialog[open] :is(h2, .problem)").join(),
    notes: seen("main :is(.problem, .empty), .toast"),
    rows: seen("main tbody tr").slice(0, 3),
  };
}

async function describe(page) {
  const late = new Promise((resolve) => setTimeout(resolve, 5000, "it does not answer"));
  const told = await Promise.race([page.evaluate(look).catch(String), late]);
  return JSON.stringify({ ...(told.url ? told : { told }), complaints: unexpected(page) });
}

// The first page of a case is a new tab of the file's context. Others have contexts of their own.
async function runCase({ browser, context, node }, work, folder) {
  const pages = [];
  const contexts = [];
  const nodes = [];
  const folders = []; // removed after the pages are closed: they would see a broken store
  const startNode = async (own, ...options) => {
    nodes.push(new Node(own, options));
    await nodes.at(-1).start();
    return nodes.at(-1);
  };
  const makeFolder = () => {
    folders.push(mkdtempSync(join(tmpdir(), "sluice-web-own-")));
    return folders.at(-1);
  };
  const open = async (options) => {
    contexts.push(await openContext(browser, options));
    pages.push(await openPage(contexts.at(-1), node));
    return pages.at(-1);
  };
  try {
    pages.push(await openPage(context, node));
    await work({ page: pages[0], open, node, startNode, makeFolder });
    for (const page of pages) same(unexpected(page), [], "complaints of the page");
  } catch (error) {
    error.pages = await Promise.all(pages.map(describe));
    const picture = join(folder, `failed-${Date.now()}.png`);
    await pages[0]?.screenshot({ path: picture }).catch(() => {});
    throw error;
  } finally {
    await Promise.all([
      ...pages.map((page) => page.close()),
      ...contexts.map((one) => one.close()),
      ...nodes.map((one) => one.end()),
    ]);
    for (const own of folders) rmSync(own, { recursive: true, force: true });
  }
}

// A sandbox cannot be had by root; nothing but our own pages is opened.
const launch = () =>
  chromium.launch({
    executablePath: process.env.SLUICE_TEST_BROWSER,
    chromiumSandbox: process.getuid() !== 0,
    args: ["--disable-dev-shm-usage", "--disable-gpu"],
  });

let shared = null; // {browser, failed}, when several files run
let count = 0; // cases that were run

function report(error) {
  const told = [
    ...stepsOf(error).map((step) => `at ${step}`),
    ...(error.pages ?? []).map((page) => `page ${page}`),
    ...String(error.stack ?? error).split("\n"),
  ];
  for (const line of told) console.log(`# ${line}`);
}

// Answers how many cases failed.
async function runCases(browser, cases, names) {
  const folder = mkdtempSync(join(tmpdir(), "sluice-web-"));
  const pictures = process.env.SLUICE_TEST_PICTURES ?? folder; // of cases that failed
  const node = new Node(folder);
  let failed = 0;
  let context;
  try {
    [context] = await Promise.all([openContext(browser), node.start()]);
    for (const name of names) {
      const began = Date.now();
      const title = `${++count} - ${name.replaceAll("_", " ")}`;
      try {
        await runCase({ browser, context, node }, cases[name], pictures);
        console.log(`ok ${title}`);
      } catch (error) {
        failed++;
        console.log(`not ok ${title}`);
        report(error);
      }
      if (process.env.SLUICE_TEST_TIMES) console.log(`# ${Date.now() - began} ms`);
    }
  } finally {
    await context?.close();
    await node.end();
    rmSync(folder, { recursive: true, force: true });
  }
  return failed;
}

async function withBrowser(work) {
  let failed = 1;
  let browser;
  try {
    browser = await launch();
    failed = await work(browser);
  } catch (error) {
    console.log(`Bail out! ${error.message}`);
  } finally {
    await browser?.close();
  }
  process.exit(failed ? 1 : 0);
}

const WANTED = process.argv[2] ?? ""; // a part of the names of cases

export async function run(cases) {
  const names = Object.keys(cases).filter((name) => name.includes(shared ? "" : WANTED));
  if (shared) {
    shared.failed += await runCases(shared.browser, cases, names);
    return;
  }
  console.log(`1..${names.length}`);
  await withBrowser((browser) => runCases(browser, cases, names));
}

// Runs several files with one browser.
export async function runFiles(files) {
  await withBrowser(async (browser) => {
    shared = { browser, failed: 0 };
    for (const file of files) {
      console.log(`# ${file}`);
      await import(new URL(file, import.meta.url));
    }
    console.log(`1..${count}`);
    return shared.failed;
  });
}
