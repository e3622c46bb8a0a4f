// SPDX-License-Identifier: Apache-2.0
// All queues: three charts of their sum, and a row for each.
import { chart, sparkline } from "./chart.js";
import { askCreate } from "./dialogs.js";
import { empty, h, keyedRows, setText, table } from "./dom.js";
import { compact, count, duration, rate } from "./format.js";
import { live, meanRate } from "./live.js";

export const DEPTH = [
  { key: "ready", label: "ready" },
  { key: "delayed", label: "delayed" },
  { key: "locked", label: "locked" },
];
export const RATES = [
  { key: "sent", label: "sent" },
  { key: "done", label: "processed" },
];
export const AGE = [{ key: "age", label: "oldest" }];

// The three charts that every list of points gets. pointsOf() answers the points of now.
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

export const queueLink = (name, rest = "") => `#/queues/${encodeURIComponent(name)}${rest}`;

const COLUMNS = [
  { key: "name", label: "Queue", of: (queue) => queue.name },
  { key: "ready", label: "Ready", class: "number" },
  { key: "locked", label: "Locked", class: "number" },
  { key: "delayed", label: "Delayed", class: "number" },
  { key: "dead", label: "Dead", class: "number" },
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
  { label: "Age", class: "picture" },
];

// Pictures of rows that are off the screen are not drawn: a store may have thousands of queues.
const drawers = new WeakMap(); // row -> what draws its pictures
const onScreen = new WeakSet();
const watcher = new IntersectionObserver((rows) => {
  for (const { target, isIntersecting } of rows) {
    onScreen.delete(target);
    if (!isIntersecting) continue;
    onScreen.add(target);
    drawers.get(target)();
  }
});

function makeRow({ name }) {
  const badge = h("span", { class: "badge paused", hidden: true }, "paused");
  const broken = h("span", { class: "badge dead", hidden: true }, "cannot be read");
  const cells = {};
  const sparks = [
    sparkline(DEPTH, { stacked: true, least: 10 }),
    sparkline(RATES),
    sparkline(AGE, { least: 1000 }),
  ];
  const number = (key, label, state) => {
    cells[key] = state
      ? h("a", { href: queueLink(name, `/${state}`), tabindex: "-1" })
      : h("span", {});
    return h("td", { class: `number cell-${key}`, "data-label": label }, cells[key]);
  };
  const picture = (index) => h("td", { class: "picture" }, sparks[index].node);
  const node = h(
    "tr",
    {},
    h(
      "th",
      { scope: "row" },
      h("a", { href: queueLink(name), class: "row-link" }, name),
      " ",
      badge,
      broken,
    ),
    number("ready", "Ready", "ready"),
    number("locked", "Locked", "locked"),
    number("delayed", "Delayed", "delayed"),
    number("dead", "Dead", "dead"),
    picture(0),
    number("sent", "Sent/s"),
    number("done", "Processed/s"),
    picture(1),
    number("oldest", "Oldest"),
    picture(2),
  );
  let drawn = [];
  const draw = () => sparks.forEach((spark) => spark.draw(drawn));
  drawers.set(node, draw);
  watcher.observe(node);
  const update = ({ stats, points, paused, problem }) => {
    badge.hidden = !paused;
    broken.hidden = !problem;
    broken.title = problem ?? "";
    for (const key of ["ready", "locked", "delayed", "dead"]) {
      setText(cells[key], count(stats?.[key]));
      cells[key].classList.toggle("zero", !stats?.[key]);
    }
    setText(cells.sent, rate(meanRate(points, "sent")));
    setText(cells.done, rate(meanRate(points, "done")));
    setText(cells.oldest, stats?.oldestAgeMs ? duration(stats.oldestAgeMs) : "–");
    drawn = points;
    if (onScreen.has(node)) draw();
  };
  return { node, update };
}

// Buttons in the heads; the order is that of the column, names breaking ties.
function makeOrder(changed) {
  const order = { column: COLUMNS[0], down: false };
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
  const nothing = empty("");
  const summary = h("span", { class: "muted sums" });
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
      h("button", { type: "button", class: "primary", onclick: create }, "New queue"),
    ),
    charts.node,
    list,
    nothing,
  );

  function update() {
    const words = filter.value.trim().toLowerCase();
    const all = [...live.queues.values()];
    const shown = all
      .filter((queue) => queue.name.toLowerCase().includes(words))
      .sort(order.compare);
    charts.update();
    rows(shown, (queue) => queue.id ?? queue.name);
    order.mark(list);
    list.hidden = shown.length === 0;
    nothing.hidden = shown.length > 0 || !live.listed;
    setText(
      nothing,
      all.length ? "No queue has such a name." : "There is no queue yet. Create one to begin.",
    );
    setText(summary, live.listed ? `${count(all.length)} in this store` : "");
  }
  return {
    title: "Queues",
    nav: "queues",
    node,
    update,
    keys: { n: create, "/": () => filter.focus() },
  };
}
