// SPDX-License-Identifier: Apache-2.0
// The frame of the dashboard: the current page, the live state and the keyboard.
import { clusterPage } from "./cluster.js";
import { askToken, closeDialogs, showHelp } from "./dialogs.js";
import { h, setText, toast } from "./dom.js";
import { clockTime, count, duration } from "./format.js";
import { live, outage, refresh, setFollowing } from "./live.js";
import { messagePage } from "./message.js";
import { nodePage } from "./node.js";
import { queuePage } from "./queue.js";
import { queuesPage } from "./queues.js";
import { workflowPage } from "./workflows.js";

const SHORTCUTS = [
  [["?"], "this list"],
  [["g", "q"], "all queues"],
  [["g", "c"], "the cluster"],
  [["g", "n"], "the node"],
  [["u"], "up: from a message to its queue, from a queue to all"],
  [["j", "k"], "next and previous row; arrow keys, Home and End do it too inside a table"],
  [["Enter"], "open the row"],
  [["/"], "filter the queues, or find messages"],
  [["x"], "select or deselect the message"],
  [["n"], "new queue"],
  [
    ["1", "…", "9"],
    "a queue's views: summary, ready, locked, delayed, dead, processed, workers, activity, settings",
  ],
  [["f"], "a queue's finished messages"],
  [["w"], "a queue's workflows"],
  [["s"], "send a message"],
  [["p"], "pause or resume the queue"],
  [["r"], "redrive dead letters"],
  [["l"], "pause or resume updates"],
  [["t"], "light, dark, or the system's theme"],
  [["Esc"], "close a dialog"],
];

const main = document.getElementById("main");
let page = null;
let shown = null; // the address of the current page

// ---- pages

// A typed address may have an invalid escape, which is then used as it is.
function decode(piece) {
  try {
    return decodeURIComponent(piece);
  } catch {
    return piece;
  }
}

function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const pieces = path.split("/").filter(Boolean).map(decode);
  return { pieces, query: new URLSearchParams(query) };
}

function makePage() {
  const { pieces, query } = parse(location.hash);
  const [first, ...parts] = pieces;
  const context = { go, again: show, parts, query };
  if (!first || (first === "queues" && parts.length === 0)) return queuesPage(context);
  if (first === "node") return nodePage(context);
  if (first === "cluster") return clusterPage(context);
  if (first === "queues" && parts[1] === "message" && parts[2]) return messagePage(context);
  if (first === "queues" && parts[1] === "workflow" && parts[2]) return workflowPage(context);
  if (first === "queues") return queuePage(context);
  return {
    title: "Not found",
    node: h(
      "div",
      {},
      h("h1", { tabindex: "-1" }, "There is no such page"),
      h("p", {}, h("a", { href: "#/" }, "All queues")),
    ),
  };
}

function go(hash) {
  location.hash = hash;
}

const isSingle = (pieces) => ["message", "workflow"].includes(pieces[2]);

// If only the view of a queue changes, the scroll position and the focus on the tab stay.
const sameQueue = (before, now) => {
  const [a, b] = [parse(before).pieces, parse(now).pieces];
  return (
    a[0] === "queues" && a[1] === b[1] && a.length > 1 && !isSingle(a) && !isSingle(b)
  );
};

function show() {
  if (location.hash === "#main") {
    // the skip link
    main.focus();
    history.replaceState(null, "", shown ?? "#/");
    return;
  }
  const stays = shown !== null && sameQueue(shown, location.hash);
  const height = scrollY;
  page?.leave?.();
  closeDialogs();
  page = makePage();
  main.replaceChildren(page.node);
  document.title = `${page.title} · Sluice`;
  for (const link of document.querySelectorAll("[data-nav]")) {
    if (link.dataset.nav === page.nav) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const first = shown === null;
  shown = location.hash;
  page.update?.();
  main.querySelector(".tab[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  if (stays) {
    scrollTo(0, height);
    main.querySelector(".tab[aria-current]")?.focus({ preventScroll: true });
  } else {
    scrollTo(0, 0);
    if (!first) main.querySelector("h1")?.focus({ preventScroll: true });
  }
}

// The browser reports a new address late. A key pressed before that is already for the new page.
function showAddressed() {
  if (location.hash !== shown) show();
}

// ---- live

const dot = document.getElementById("live");
const LIVE_WORDS = {
  held: "Updates paused",
  barred: "Token required",
  lost: "Not connected",
  following: "Live",
  begins: "Connecting",
};

function liveState() {
  if (!live.following) return "held";
  if (live.error) return live.error.status === 401 ? "barred" : "lost";
  return live.listed ? "following" : "begins";
}

function liveWords() {
  if (live.streaming) return "Updates come with events.";
  return `Updates are asked for${live.streamWhy && `: ${live.streamWhy}`}.`;
}

function showLive() {
  dot.dataset.state = liveState();
  dot.dataset.events = live.eventsShown;
  dot.dataset.stream = live.streaming ? "open" : "closed";
  dot.setAttribute("aria-pressed", String(live.following));
  dot.title = live.error ? live.error.message : `${liveWords()} Pause or resume them (l)`;
  setText(document.getElementById("live-text"), LIVE_WORDS[liveState()]);
  showOutage();
}

// Shows, above every page, what is wrong with the node. Old data is dimmed.
const alarm = {
  node: document.getElementById("outage"),
  words: document.getElementById("outage-text"),
  seen: document.getElementById("outage-seen"),
};

function busWords() {
  if (!live.bus?.degraded) return "";
  const { since, lagEvents, reason } = live.bus;
  const time = duration(Math.floor((Date.now() - since) / 1000) * 1000);
  return `No event has reached the bus for ${time}, and ${count(lagEvents)} wait: ${reason}.`;
}

function showOutage() {
  const away = live.following ? outage() : "";
  const writes = live.notReady && `The store takes no writes: ${live.notReady}.`;
  const words = away || writes || live.streamLost || busWords();
  alarm.node.hidden = !words;
  alarm.node.className = `banner ${away || writes ? "bad" : "warn"}`;
  setText(alarm.words, words);
  const ago = duration(Math.floor((Date.now() - live.seenAt) / 1000) * 1000);
  const seen = live.seenAt ? `Last seen ${ago} ago, at ${clockTime(live.seenAt).slice(0, 8)}. ` : "";
  const meanwhile = words && words === live.streamLost ? "The page asks every second until it is back." : "";
  setText(alarm.seen, away ? `${seen}Trying again.` : meanwhile);
  document.body.classList.toggle("stale", away !== "" && live.seenAt > 0);
}
setInterval(showOutage, 1000); // the age keeps counting while no answer arrives

live.events.addEventListener("change", () => {
  showLive();
  if (live.following) page?.update?.();
});
dot.addEventListener("click", () => {
  if (liveState() === "barred") wantToken(live.error.message);
  else setFollowing(!live.following);
});

let tokenDialog = null;
let asked = false; // ask once, not every second

function wantToken(why) {
  if (tokenDialog?.open) return;
  asked = true;
  tokenDialog = askToken(why);
  tokenDialog.addEventListener("close", ({ target }) => (asked = target.returnValue !== "done"));
}
addEventListener("token-wanted", ({ detail }) => asked || wantToken(detail));

// ---- the keyboard

// the row with the focus and the rows below it: if the row is removed, the next one gets the focus
let below = [];

function moveRow(step, edge) {
  const links = [...main.querySelectorAll("tbody .row-link")].filter((link) => link.offsetParent);
  if (!links.length) return;
  const row = document.activeElement?.closest("tr");
  const at = links.findIndex((link) => link.closest("tr") === row);
  const resumed = links.indexOf(below.find((link) => link.isConnected));
  const near = at >= 0 ? at + step : step < 0 ? resumed - 1 : resumed;
  const next = edge ? (step < 0 ? 0 : links.length - 1) : near;
  below = links.slice(Math.min(Math.max(next, 0), links.length - 1));
  below[0].focus();
}

const inTable = () =>
  document.activeElement?.closest("tbody") !== null &&
  document.activeElement?.closest("tbody") !== undefined;
const TYPED = "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]";
const isTyping = (target) => target.closest(TYPED) !== null;

const GLOBAL = {
  "?": () => showHelp(SHORTCUTS),
  t: () => nextTheme(),
  l: () => dot.click(),
  j: () => moveRow(1),
  k: () => moveRow(-1),
};
const IN_TABLE = {
  ArrowDown: () => moveRow(1),
  ArrowUp: () => moveRow(-1),
  Home: () => moveRow(-1, true),
  End: () => moveRow(1, true),
};
const AFTER_G = { q: () => go("#/"), c: () => go("#/cluster"), n: () => go("#/node") };
let prefix = false;

document.addEventListener("keydown", (event) => {
  showAddressed();
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]"))
    return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const table = prefix ? AFTER_G : { ...GLOBAL, ...(inTable() && IN_TABLE), ...page?.keys };
  const wasPrefix = prefix;
  prefix = !prefix && event.key === "g";
  const work = Object.hasOwn(table, event.key) ? table[event.key] : null;
  if (!work || (wasPrefix && prefix)) return;
  event.preventDefault();
  work();
});

document.getElementById("help").addEventListener("click", () => showHelp(SHORTCUTS));
document.getElementById("theme").addEventListener("click", () => nextTheme());
addEventListener("hashchange", showAddressed);
addEventListener("unhandledrejection", (event) =>
  toast(event.reason?.message ?? "Something went wrong", "bad"),
);
show();
showLive();
refresh();
