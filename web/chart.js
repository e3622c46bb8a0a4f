// SPDX-License-Identifier: Apache-2.0
// Small charts of the last five minutes, drawn as SVG. A chart is redrawn with new points. It has
// no animation, so there is no motion to reduce.
import { h, s, setText } from "./dom.js";
import { SPAN_MS } from "./live.js";

const WIDTH = 300;
const HEIGHT = 100;
const GAP_MS = 15000; // a longer pause is a gap in the line
const SPANS = [15000, 30000, 60000, 120000, SPAN_MS]; // the visible span grows with the data
const LEAST_MS = 2000;

function spanOf(points) {
  const known = points.length ? points.at(-1).at - points[0].at : 0;
  if (known < SPANS[0]) return Math.max(known, LEAST_MS); // the first seconds fill the chart
  return SPANS.find((span) => known <= span) ?? SPAN_MS;
}

// Rounds up to 1, 2, 5, 10, 20 and so on, so that the scale is steady.
function niceMax(value, least) {
  let step = least;
  for (let i = 0; step < value; i++) step *= [2, 2.5, 2][i % 3];
  return step;
}

const xOf = (at, { now, span }) => WIDTH - ((now - at) / span) * WIDTH;
const yOf = (value, max) => HEIGHT - (value / max) * (HEIGHT - 4);
const pair = (x, y) => `${x.toFixed(2)},${y.toFixed(2)}`;

// Splits the points into runs that have values and no gap.
function runsOf(points, key) {
  const runs = [];
  let run = null;
  for (const point of points) {
    if (point[key] === undefined) continue;
    if (!run || point.at - run.at(-1).at > GAP_MS) runs.push((run = []));
    run.push(point);
  }
  return runs;
}

function linePath(points, time, key, base, max) {
  let path = "";
  for (const run of runsOf(points, key)) {
    const tops = run.map((point) => pair(xOf(point.at, time), yOf(base(point) + point[key], max)));
    path += `M${tops.join("L")}`;
  }
  return path;
}

function areaPath(points, time, key, base, max) {
  let path = "";
  for (const run of runsOf(points, key)) {
    const tops = run.map((point) => pair(xOf(point.at, time), yOf(base(point) + point[key], max)));
    const feet = run.map((point) => pair(xOf(point.at, time), yOf(base(point), max))).reverse();
    path += `M${tops.join("L")}L${feet.join("L")}Z`;
  }
  return path;
}

// series: [{key, label}]; the lowest of a stack comes first. The key is also the name of its
// colour.
function makePlot(series, stacked, least) {
  const marks = series.map(({ key }) => ({
    key,
    area: s("path", { class: `area ink-${key}` }),
    line: s("path", { class: `line ink-${key}`, "vector-effect": "non-scaling-stroke" }),
  }));
  const cursor = s("path", { class: "cursor", "vector-effect": "non-scaling-stroke" });
  const middle = s("path", {
    class: "grid",
    d: `M0,${yOf(0.5, 1)}H${WIDTH}`,
    "vector-effect": "non-scaling-stroke",
  });
  const svg = s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    middle,
    marks.map((mark) => mark.area),
    marks.map((mark) => mark.line),
    cursor,
  );
  const highest = (points) => {
    let most = 0;
    for (const point of points) {
      const values = series.map(({ key }) => point[key] ?? 0);
      most = Math.max(
        most,
        stacked ? values.reduce((sum, value) => sum + value, 0) : Math.max(...values),
      );
    }
    return most;
  };
  const draw = (points) => {
    const time = { now: points.at(-1)?.at ?? 0, span: spanOf(points) };
    const max = niceMax(highest(points), least);
    marks.forEach((mark, index) => {
      // A line without a value would hide the line under it.
      const none = index > 0 && !points.some((point) => point[mark.key] > 0);
      mark.line.toggleAttribute("hidden", none);
      const under = stacked ? series.slice(0, index).map(({ key }) => key) : [];
      const base = (point) => under.reduce((sum, key) => sum + (point[key] ?? 0), 0);
      mark.area.setAttribute("d", areaPath(points, time, mark.key, base, max));
      mark.line.setAttribute("d", linePath(points, time, mark.key, base, max));
    });
    return max;
  };
  return { svg, draw, cursor };
}

// A chart without text, for a table whose cells have the numbers.
export function sparkline(series, { stacked = false, least = 1 } = {}) {
  const plot = makePlot(series, stacked, least);
  plot.svg.setAttribute("class", "spark");
  return { node: plot.svg, draw: plot.draw };
}

// A chart with a title, a legend, a scale, and a cursor for pointer and arrow keys.
export function chart(title, series, { stacked = false, least = 1, format, now: current }) {
  const plot = makePlot(series, stacked, least);
  const values = series.map(({ key, label }) => ({ key, value: h("b", {}, "–"), label }));
  const top = h("span", { class: "top" });
  const when = h("span", { class: "when" });
  const start = h("span", {});
  const frame = h("div", { class: "plot", tabindex: "0", role: "img" }, plot.svg, top);
  const node = h(
    "figure",
    { class: "chart" },
    h(
      "figcaption",
      {},
      h("h2", {}, title),
      h(
        "ul",
        { class: "legend" },
        values.map(({ key, value, label }) => h("li", { class: `key-${key}` }, label, " ", value)),
      ),
    ),
    frame,
    h("div", { class: "axis", "aria-hidden": "true" }, start, when, h("span", {}, "now")),
  );

  let points = [];
  let back = null; // age of the cursor's point; null without a cursor

  const pointAt = (at) =>
    points.reduce(
      (best, point) => (!best || Math.abs(point.at - at) < Math.abs(best.at - at) ? point : best),
      null,
    );

  const legend = () => {
    const end = points.at(-1);
    const shown = back === null || !end ? end : pointAt(end.at - back);
    for (const { key, value } of values) {
      const exact = back === null && current ? current(key) : shown?.[key];
      setText(value, exact === undefined ? "–" : format(exact));
    }
    const x = shown && back !== null ? xOf(shown.at, { now: end.at, span: spanOf(points) }) : -10;
    plot.cursor.setAttribute("d", `M${x},0V${HEIGHT}`);
    setText(when, shown && back !== null ? `${Math.round((end.at - shown.at) / 1000)} s ago` : "");
    const words = values.map(({ label, value }) => `${label} ${value.textContent}`).join(", ");
    frame.setAttribute(
      "aria-label",
      `${title}, ${when.textContent || "now"}: ${words}. Arrow keys look back.`,
    );
  };

  const look = (ms) => {
    back = ms === null ? null : Math.min(Math.max(ms, 0), spanOf(points));
    legend();
  };
  frame.addEventListener("pointermove", (event) => {
    const box = frame.getBoundingClientRect();
    look((1 - (event.clientX - box.left) / box.width) * spanOf(points));
  });
  frame.addEventListener("pointerleave", () => look(null));
  frame.addEventListener("blur", () => look(null));
  frame.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: 5000, ArrowRight: -5000, PageUp: 60000, PageDown: -60000 }[event.key];
    if (!step) return;
    event.preventDefault();
    look((back ?? 0) + step);
  });

  return {
    node,
    draw(some) {
      points = some;
      const max = plot.draw(points);
      const seconds = Math.round(spanOf(points) / 1000);
      setText(start, seconds < 60 ? `${seconds} s ago` : `${seconds / 60} min ago`);
      setText(top, format(max));
      legend();
    },
  };
}
