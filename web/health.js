// SPDX-License-Identifier: Apache-2.0
// Finds problems of queues, the worst first. A queue has a problem if it holds dead messages, is
// paused, cannot be read, has dead letters that do not arrive, or has messages that no worker
// receives.
import { h, keyedRows, setText } from "./dom.js";
import { count, duration } from "./format.js";
import { isLetterQueue, live, meanRate } from "./live.js";
import { queueLink } from "./links.js";

const UNTAKEN_MS = 60000; // a message is ready for this long, and no worker is there
const STUCK_MS = 60000; // a dead letter arrives in less than a second, if all is well
const LINKS_MAX = 6; // queues named in one line

// Dead in place, or arrived in the dead-letter queue. A letter on its way is in neither list.
export function deadIn(queue) {
  const { stats } = queue;
  if (!stats) return 0;
  return stats.dead + (isLetterQueue(queue) ? stats.ready + stats.delayed + stats.locked : 0);
}

// The dead letters of this queue that should have arrived.
const stuckIn = ({ stats }) => (stats?.outboundAgeMs > STUCK_MS ? stats.outbound : 0);

function isUntaken(queue) {
  const { stats, paused, points } = queue;
  if (!stats || paused || isLetterQueue(queue)) return false;
  const present = stats.locked > 0 || stats.waiting > 0;
  const idle = stats.ready > 0 && !present && !meanRate(points, "done");
  return idle && stats.oldestAgeMs > UNTAKEN_MS;
}

// Messages of this queue died, and its dead-letter queue is not empty.
export function lettersWait({ stats, letters }) {
  const to = live.queues.get(letters);
  return (stats?.moved ?? 0) > 0 && to !== undefined && deadIn(to) > 0;
}

const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : many}`;

// In order of severity. of(queue) returns a number if the queue has the problem, else 0.
const PROBLEMS = [
  {
    key: "broken",
    tone: "bad",
    of: ({ problem }) => (problem ? 1 : 0),
    badge: () => "cannot be read",
    title: (queues) => plural(queues.length, "queue cannot be read", "queues cannot be read"),
    note: ({ problem }) => problem,
  },
  {
    key: "dead",
    tone: "bad",
    of: deadIn,
    badge: (queue) =>
      isLetterQueue(queue)
        ? plural(deadIn(queue), "dead letter", "dead letters")
        : `${count(deadIn(queue))} dead`,
    title: (queues) => {
      const dead = queues.reduce((sum, queue) => sum + deadIn(queue), 0);
      return plural(dead, "dead message", "dead messages");
    },
    note: (queue) => count(deadIn(queue)),
  },
  {
    key: "stuck",
    tone: "bad",
    of: stuckIn,
    badge: (queue) => `${count(stuckIn(queue))} not moved`,
    title: (queues) => {
      const stuck = queues.reduce((sum, queue) => sum + stuckIn(queue), 0);
      return plural(stuck, "dead letter does not arrive", "dead letters do not arrive");
    },
    note: ({ stats }) => `${count(stats.outbound)} for ${duration(stats.outboundAgeMs)}`,
  },
  {
    key: "paused",
    tone: "bad",
    of: ({ paused }) => (paused ? 1 : 0),
    badge: () => "paused",
    title: (queues) => plural(queues.length, "queue is paused", "queues are paused"),
    note: ({ stats }) => (stats?.ready ? `${count(stats.ready)} ready` : ""),
  },
  {
    // Shown only at the queue, because the list names the dead-letter queue.
    key: "moved",
    tone: "bad",
    quiet: true,
    of: (queue) => (lettersWait(queue) ? queue.stats.moved : 0),
    badge: ({ stats }) => `${count(stats.moved)} dead-lettered`,
  },
  {
    key: "untaken",
    tone: "warn",
    of: (queue) => (isUntaken(queue) ? queue.stats.oldestAgeMs : 0),
    badge: () => "no worker",
    title: (queues) =>
      plural(queues.length, "queue has messages", "queues have messages") + " and no worker",
    note: ({ stats }) => `${count(stats.ready)} ready for ${duration(stats.oldestAgeMs)}`,
  },
];

export const problemsOf = (queue) => PROBLEMS.filter(({ of }) => of(queue) > 0);

// For sorting: a worse problem counts more than any number of smaller ones.
export const weightOf = (queue) =>
  PROBLEMS.reduce((sum, { of }, index) => sum + (of(queue) > 0 ? 1 << (8 - index) : 0), 0);

// The badges of a queue. update(queue) shows those that apply.
export function problemBadges() {
  const node = h("span", { class: "badges" });
  const rows = keyedRows(node, ({ tone }) => {
    const badge = h("span", { class: `badge ${tone}` });
    return { node: badge, update: ({ words }) => setText(badge, words) };
  });
  const update = (queue, skip = []) =>
    rows(
      problemsOf(queue)
        .filter(({ key }) => !skip.includes(key))
        .map(({ key, tone, badge }) => ({ key, tone, words: badge(queue) })),
      ({ key }) => key,
    );
  return { node, update };
}

function makeLine({ key, tone }) {
  const title = h("strong", {});
  const links = h("span", { class: "named" });
  const more = h("span", { class: "muted" });
  const shown = keyedRows(links, ({ name }) => {
    const note = h("span", { class: "muted" });
    return {
      node: h("span", { class: "one" }, h("a", { href: queueLink(name) }, name), " ", note),
      update: ({ words }) => setText(note, words),
    };
  });
  const update = ({ title: titleOf, of, note, queues }) => {
    setText(title, titleOf(queues));
    const some = queues
      .toSorted((a, b) => of(b) - of(a) || (a.name < b.name ? -1 : 1))
      .slice(0, LINKS_MAX)
      .map((queue) => ({ name: queue.name, words: note(queue) }));
    shown(some, ({ name }) => name);
    setText(more, queues.length > LINKS_MAX ? `and ${count(queues.length - LINKS_MAX)} more` : "");
  };
  return {
    node: h("li", { class: `trouble ${tone} trouble-${key}` }, title, links, more),
    update,
  };
}

// The first part of the overview: one line per kind of problem, or one line that says there is
// none.
export function healthPanel() {
  const list = h("ul", { class: "troubles" });
  const fine = h("p", { class: "fine mark key-done" });
  const lines = keyedRows(list, makeLine);
  const update = () => {
    const all = [...live.queues.values()];
    const found = PROBLEMS.filter(({ quiet }) => !quiet).map((problem) => ({
      ...problem,
      queues: all.filter((queue) => problem.of(queue) > 0),
    })).filter(({ queues }) => queues.length > 0);
    lines(found, ({ key }) => key);
    list.hidden = found.length === 0;
    fine.hidden = found.length > 0 || all.length === 0;
    setText(fine, "No dead messages and no paused queues.");
  };
  return { node: h("section", { class: "health", "aria-label": "Health" }, list, fine), update };
}
