// SPDX-License-Identifier: Apache-2.0
// What the cases of several files do and look at.
import { until } from "./harness.mjs";

export const DIES_AT_ONCE = { "failureStrategy.maxRetries": 0 };

// A setting that only the newest rules have: a queue that is created with it has these rules.
export const NEWEST = { retainBody: true };

export const LIST = "**/v1/queues?stats=1"; // what a page asks for each second

export const tabNumber = (page, tab) => page.locator(`.tab-${tab} b`);
export const badge = (page) => page.locator(".head .badge:visible");

export async function shows(locator, text) {
  let said;
  await until(
    async () => {
      said = await locator.textContent();
      return text instanceof RegExp ? text.test(said) : said === text;
    },
    () => `${locator} says ${text}; it says ${said}`,
  );
}

// A dead message in the queue itself.
export async function kill(node, queue, message) {
  await node.send(queue, message);
  const { id, token } = await node.receive(queue, "butcher");
  await node.settle(queue, "fail", token, { reason: "no address" });
  return id;
}

// Can hold back what the node answers to such requests of the page: begin(), letGo(). To be called
// before the page is visited: a browser that is busy lets some requests of a loaded one pass.
export async function holder(page, url, method) {
  const held = []; // each lets one answer go
  let holding = false;
  await page.route(url, async (route) => {
    if (!holding || route.request().method() !== method) return route.fallback();
    const response = await route.fetch().catch(() => null); // null: the page is closed
    const answer = () => response && route.fulfill({ response }).catch(() => {}); // or gave it up
    if (holding) held.push(answer);
    else await answer();
  });
  const begin = () => (holding = true);
  const letGo = () => {
    holding = false;
    return Promise.all(held.map((work) => work()));
  };
  return { held, begin, letGo };
}

// Changes the JSON that the node answers to such requests of the page.
export const changes = (page, url, change) =>
  page.route(url, async (route) => {
    const response = await route.fetch().catch(() => null); // null: the page is closed
    if (!response) return;
    const json = await response.json();
    change(json);
    await route.fulfill({ response, json }).catch(() => {}); // or gave it up
  });

// The page follows the stream: it polls no more.
export const streams = (page) => page.locator("#live[data-stream=open]").waitFor();
