// SPDX-License-Identifier: Apache-2.0
// Shows all queues: their problems, three charts of their sum, and a row for each.
import { chart, sparkline } from "./chart.js";
import { askCreate } from "./dialogs.js";
import { h, keyedRows, setText, table } from "./dom.js";
import { compact, count, duration, rate } from "./format.js";
import { deadIn, healthPanel, problemBadges, weightOf } from "./health.js";
import { queueLink } from "./links.js";
import { isLetterQueue, live, mayCreate, meanRate } from "./live.js";
import { nothingPanel } from "./start.js";

export const DEPTH = [
  { key: "ready", label: "ready" },
  { key: "delayed", label: "delayed" },
  { key: "locked", label: "locked" },
  { key: "dead", label: "dead" },
];
export const RATES = [
  { key: "sent", label: "sent" },
  { key: "done", label: "processed" },
  { key: "died", label: "died" },
];
export const AGE = [{ key: "age", label: "oldest" }];

// The three charts of a list of points. pointsOf() returns the current points.
export function makeCharts(pointsOf) {
  const charts = [
    chart("Depth", DEPTH, { stacked: true, least: 10, format: compact }),
    chart("Per second", RATES, { least: 1, format: rate, now: (key) => meanRate(pointsOf(), key) }),
    chart("Oldest waiting", AGE, { least: 1000, format: (ms) => (ms ? duration(ms) : "none") }),
  ];
  const node = h(
    "section",
    { class: "charts", "aria-label": "The last five minutes" },
    charts.map((one) => one.node),
  );
  return { node, update: () => charts.forEach((one) => one.draw(pointsOf())) };
}

const COLUMNS = [
  { key: "name", label: "Queue", of: (queue) => queue.name },
  { key: "status", label: "Status", class: "status", of: weightOf },
  { key: "ready", label: "Ready", class: "number" },
  { key: "locked", label: "Locked", class: "number" },
  { key: "delayed", label: "Delayed", class: "number" },
  { key: "dead", label: "Dead", class: "number", of: deadIn },
  { label: "Depth", class: "picture" },
  {
    key: "sent",
    label: "Sent/s",
    class: "number",
    of: (queue) => meanRate(queue.points, "sent") ?? 0,
  },
  {
    key: "done",
    label: "Processed/s",
    class: "number",
    of: (queue) => meanRate(queue.points, "done") ?? 0,
  },
  { label: "Rates", class: "picture" },
  { key: "oldest", label: "Oldest", class: "number", of: (queue) => queue.stats?.oldestAgeMs ?? 0 },
];
const BY_STATUS = COLUMNS[1];

// Charts of rows outside the screen are not drawn, because a store may have thousands of queues.
const drawers = new WeakMap(); // row -> function that draws its charts
const onScreen = new WeakSet();
const watcher = new IntersectionObserver((rows) => {
  for (const { target, isIntersecting } of rows) {
    onScreen.delete(target);
    if (!isIntersecting) continue;
    onScreen.add(target);
    drawers.get(target)();
  }
});

// A dead-letter queue is marked, and names the queues that use it.
export function makeLetterMark() {
  const sources = h("small", {});
  const badge = h("span", { class: "badge letters-mark" }, "dead-letter queue");
  const node = h("span", { class: "letters-of", hidden: true }, badge, " ", sources);
  const update = (queue) => {
    node.hidden = !isLetterQueue(queue);
    const [first, ...others] = queue.sources;
    const more = others.length > 1 ? `${count(others.length)} more` : others[0];
    setText(sources, first ? `of ${first}${more ? ` and ${more}` : ""}` : "");
  };
  return { node, update };
}

const STATES = ["ready", "locked", "delayed", "dead"];

function makeCells(name) {
  const cells = {};
  const number = (key, label, state) => {
    cells[key] = state
      ? h("a", { href: queueLink(name, `/${state}`), tabindex: "-1" })
      : h("span", {});
    return h("td", { class: `number cell-${key}`, "data-label": label }, cells[key]);
  };
  const states = STATES.map((state) =>
    number(state, state[0].toUpperCase() + state.slice(1), state),
  );
  const [sent, done, oldest] = [
    number("sent", "Sent/s"),
    number("done", "Processed/s"),
    number("oldest", "Oldest"),
  ];
  const update = (queue) => {
    for (const state of STATES) {
      const value = state === "dead" ? deadIn(queue) : queue.stats?.[state];
      setText(cells[state], count(value));
      cells[state].classList.toggle("zero", !value);
    }
    // Dead letters are ready messages here.
    if (isLetterQueue(queue)) cells.dead.href = queueLink(name, "/ready");
    setText(cells.sent, rate(meanRate(queue.points, "sent")));
    setText(cells.done, rate(meanRate(queue.points, "done")));
    setText(cells.oldest, queue.stats?.oldestAgeMs ? duration(queue.stats.oldestAgeMs) : "–");
  };
  return { states, sent, done, oldest, update };
}

function makeRow({ name }) {
  const letters = makeLetterMark();
  const badges = problemBadges();
  const fine = h("span", { class: "muted" }, "ok");
  const status = h("td", { class: "status" }, badges.node, fine);
  const cells = makeCells(name);
  const sparks = [sparkline(DEPTH, { stacked: true, least: 10 }), sparkline(RATES)];
  const picture = (index) => h("td", { class: "picture" }, sparks[index].node);
  const link = h("a", { href: queueLink(name), class: "row-link" }, name);
  const node = h(
    "tr",
    {},
    h("th", { scope: "row" }, h("div", {}, link), letters.node),
    status,
    cells.states,
    picture(0),
    cells.sent,
    cells.done,
    picture(1),
    cells.oldest,
  );
  let drawn = [];
  const draw = () => sparks.forEach((spark) => spark.draw(drawn));
  drawers.set(node, draw);
  watcher.observe(node);
  const update = (queue) => {
    letters.update(queue);
    badges.update(queue);
    fine.hidden = badges.node.childElementCount > 0;
    status.title = queue.problem ?? "";
    cells.update(queue);
    drawn = queue.points;
    if (onScreen.has(node)) draw();
  };
  return { node, update };
}

// The heads are buttons that sort by their column, then by name. The first order is by problems.
function makeOrder(changed) {
  const order = { column: BY_STATUS, down: true };
  const value = (queue) =>
    order.column.of ? order.column.of(queue) : (queue.stats?.[order.column.key] ?? 0);
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    const sign = order.down ? -1 : 1;
    if (x !== y) return x < y ? -sign : sign;
    return a.name < b.name ? -1 : 1;
  };
  const columns = COLUMNS.map((column) =>
    !column.key
      ? column
      : {
          ...column,
          button: h(
            "button",
            {
              type: "button",
              class: "sort",
              onclick: () => {
                order.down = order.column === column ? !order.down : column.key !== "name";
                order.column = column;
                changed();
              },
            },
            column.label,
          ),
        },
  );
  const mark = (node) =>
    node.querySelectorAll("thead th").forEach((head, index) => {
      const mine = COLUMNS[index] === order.column;
      if (mine) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  return { columns, compare, mark };
}

export function queuesPage({ go }) {
  const charts = makeCharts(() => live.totals);
  const filter = h("input", {
    type: "search",
    placeholder: "Filter queues",
    "aria-label": "Filter queues",
    class: "filter",
    "aria-keyshortcuts": "/",
    oninput: () => update(),
  });
  const create = () => askCreate((name) => go(queueLink(name)));
  const body = h("tbody", {});
  const rows = keyedRows(body, makeRow);
  const order = makeOrder(() => update());
  const list = table("Queues", order.columns, body);
  list.classList.add("queues");
  const nothing = nothingPanel();
  const health = healthPanel();
  const summary = h("span", { class: "muted sums" });
  const add = h("button", { type: "button", class: "primary", onclick: create }, "New queue");
  const node = h(
    "div",
    {},
    h(
      "div",
      { class: "head" },
      h("h1", { tabindex: "-1" }, "Queues"),
      summary,
      h("span", { class: "gap" }),
      filter,
      add,
    ),
    health.node,
    charts.node,
    list,
    nothing.node,
  );

  function update() {
    const words = filter.value.trim().toLowerCase();
    const all = [...live.queues.values()];
    const shown = all
      .filter((queue) => queue.name.toLowerCase().includes(words))
      .sort(order.compare);
    health.update();
    charts.update();
    rows(shown, (queue) => queue.id ?? queue.name);
    order.mark(list);
    list.hidden = shown.length === 0;
    charts.node.hidden = filter.hidden = live.listed && all.length === 0;
    add.hidden = !mayCreate();
    nothing.node.hidden = shown.length > 0 || !live.listed;
    nothing.update(mayCreate(), all.length > 0);
    setText(summary, live.listed ? `${count(all.length)} in this store` : "");
  }
  return {
    title: "Queues",
    nav: "queues",
    node,
    update,
    keys: { n: () => mayCreate() && create(), "/": () => filter.focus() },
  };
}
