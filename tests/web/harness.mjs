// SPDX-License-Identifier: Apache-2.0
// A real node and a real browser for the cases of a file. Each case has a page of its own; whatever
// a page complains about (an error, a refused resource, an exception) fails its case.
//
//   await run({ async a_sentence_that_is_true({ page, node }) { ... } });
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const { chromium } = createRequire(join(process.env.SLUICE_TEST_MODULES, "package.json"))(
  "playwright-core",
);
export const PATIENCE_MS = 30000;

export function same(got, expected, what) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${what}: expected ${b}, got ${a}`);
}

export function holds(condition, what) {
  if (!condition) throw new Error(what);
}

// Asks again until the answer is true; a state is waited for, never a time.
export async function until(question, what) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const answer = await question();
    if (answer) return answer;
    if (Date.now() > end) throw new Error(`never happened: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// ---- the node

class Node {
  constructor(folder, options = []) {
    this.store = join(folder, "store");
    this.options = options;
    this.port = 0;
  }

  // setpriv: the node is gone when this process is, however it ends.
  async start() {
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
      [...program, "--listen", `127.0.0.1:${this.port}`, ...this.options],
      { stdio: ["ignore", "pipe", "ignore"] },
    );
    const line = await new Promise((resolve, reject) => {
      let text = "";
      this.child.stdout.on("data", (some) => (text += some).includes("\n") && resolve(text));
      this.child.on("exit", (status) => reject(new Error(`the node ended with ${status}`)));
    });
    this.port = Number(JSON.parse(line).address.split(":").at(-1));
    this.url = `http://127.0.0.1:${this.port}/`;
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
      headers: { ...(body !== undefined && { "Content-Type": "application/json" }), ...headers },
      body:
        body === undefined ? undefined : body instanceof Uint8Array ? body : JSON.stringify(body),
    });
    const text = await answer.text();
    holds(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  }

  create(queue, settings = {}) {
    return this.ask("PUT", `v1/queues/${queue}`, settings);
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

// ---- pages

async function openPage(browser, node, options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  page.complaints = [];
  page.expected = []; // what the case provokes: parts of complaints
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()))
      page.complaints.push(`${message.type()}: ${message.text()}`);
  });
  page.on("pageerror", (error) => page.complaints.push(`exception: ${error.message}`));
  page.on("request", (request) => {
    if (!request.url().startsWith("http://127.0.0.1:"))
      page.complaints.push(`asked elsewhere: ${request.url()}`);
  });
  page.visit = (hash = "", url = node.url) => page.goto(url + hash);
  return page;
}

async function runCase(browser, node, work, folder) {
  const pages = [];
  const nodes = [];
  const startNode = async (own, ...options) => {
    nodes.push(new Node(own, options));
    await nodes.at(-1).start();
    return nodes.at(-1);
  };
  const open = async (options) => {
    pages.push(await openPage(browser, node, options));
    return pages.at(-1);
  };
  try {
    await work({ page: await open(), open, node, startNode });
    for (const page of pages) {
      const left = page.complaints.filter(
        (words) => !page.expected.some((part) => words.includes(part)),
      );
      same(left, [], "complaints of the page");
    }
  } catch (error) {
    const picture = join(folder, `failed-${Date.now()}.png`);
    await pages[0]?.screenshot({ path: picture }).catch(() => {});
    throw error;
  } finally {
    await Promise.all([
      ...pages.map((page) => page.context().close()),
      ...nodes.map((one) => one.kill()),
    ]);
  }
}

export async function run(cases) {
  const folder = mkdtempSync(join(tmpdir(), "sluice-web-"));
  const pictures = process.env.SLUICE_TEST_PICTURES ?? folder; // of cases that failed
  const node = new Node(folder);
  const names = Object.keys(cases).filter(
    (name) => !process.argv[2] || name.includes(process.argv[2]),
  );
  let failed = 0;
  console.log(`1..${names.length}`);
  let browser;
  try {
    await node.start();
    // A sandbox cannot be had by root; nothing but our own pages is opened.
    browser = await chromium.launch({
      executablePath: process.env.SLUICE_TEST_BROWSER,
      chromiumSandbox: process.getuid() !== 0,
      args: ["--disable-dev-shm-usage", "--disable-gpu"],
    });
    for (const [index, name] of names.entries()) {
      const began = Date.now();
      const title = `${index + 1} - ${name.replaceAll("_", " ")}`;
      try {
        await runCase(browser, node, cases[name], pictures);
        console.log(`ok ${title}`);
        if (process.env.SLUICE_TEST_TIMES) console.log(`# ${Date.now() - began} ms`);
      } catch (error) {
        failed++;
        console.log(`not ok ${title}`);
        for (const line of String(error.stack ?? error).split("\n")) console.log(`# ${line}`);
      }
    }
  } catch (error) {
    failed++;
    console.log(`Bail out! ${error.message}`);
  } finally {
    await browser?.close();
    await node.kill();
    rmSync(folder, { recursive: true, force: true });
  }
  process.exit(failed ? 1 : 0);
}
