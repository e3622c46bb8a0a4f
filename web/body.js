// SPDX-License-Identifier: Apache-2.0
// Shows the body of a message as text, as JSON or as bytes. Only text nodes are used.
import { h } from "./dom.js";
import { bytes } from "./format.js";

const SHOWN_MAX = 65536; // characters or bytes shown before the reader asks for more
const PAINT_MAX = 20000; // a longer JSON text is shown in one colour, because each token is a node

const DEPTH_MAX = 64; // levels of JSON that are indented; each level indents all lines inside it

const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*|true|false|null|[{}[\],:]/g;

const isOpening = (token) => token === "{" || token === "[";
const isClosing = (token) => token === "}" || token === "]";

function kindOf(token, next) {
  if (token[0] === '"') return next === ":" ? "json-key" : "json-text";
  return /^[tfn]/.test(token) ? "json-word" : "json-number";
}

// Formats by tokens, not with JSON.parse, so numbers over 2^53 keep their digits. The result has at
// most about max characters, because indentation lengthens nested text.
export function prettyTokens(text, max = Infinity) {
  const tokens = text.matchAll(TOKEN);
  const take = () => tokens.next().value?.[0];
  const out = [];
  let [depth, length, before, token, next] = [0, 0, "", take(), take()];
  const put = (kind, word) => {
    out.push([kind, word]);
    length += word.length;
  };
  const line = () => `\n${"  ".repeat(depth)}`;
  while (token !== undefined && length < max) {
    if (isOpening(token)) {
      depth++;
      put("", isClosing(next) ? token : token + line());
    } else if (isClosing(token)) {
      depth--;
      put("", isOpening(before) ? token : line() + token);
    } else if (token === ",") put("", token + line());
    else if (token === ":") put("", ": ");
    else put(kindOf(token, next), token);
    [before, token, next] = [token, next, take()];
  }
  return out;
}

function isTooDeep(text) {
  let depth = 0;
  for (const [token] of text.matchAll(TOKEN)) {
    if (isOpening(token) && ++depth > DEPTH_MAX) return true;
    if (isClosing(token)) depth--;
  }
  return false;
}

function isJson(text) {
  if (!/^\s*[{[]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export function hexLines(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const some = Array.from(data.subarray(at, at + 16));
    const hex = some.map((byte) => byte.toString(16).padStart(2, "0"));
    const left = hex.slice(0, 8).join(" ").padEnd(23);
    const right = hex.slice(8).join(" ").padEnd(23);
    const plain = some
      .map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·"))
      .join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${left}  ${right}  ${plain}`);
  }
  return lines.join("\n");
}

const fromBase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

// A body that was sent as JSON arrives as a JSON value.
export function bodyText({ body }) {
  if (typeof body === "string") return body;
  try {
    return JSON.stringify(body);
  } catch {
    return "a JSON value that is nested too deep to be shown";
  }
}

function draw(kind, text, data, max) {
  if (kind === "hex") return [hexLines(data.subarray(0, max))];
  if (kind !== "json") return [text.slice(0, max)];
  const tokens = prettyTokens(text, Math.max(max, PAINT_MAX + 1));
  const whole = tokens.map(([, word]) => word).join("");
  if (whole.length > PAINT_MAX) return [whole.slice(0, max)];
  return tokens.map(([name, word]) => (name ? h("span", { class: name }, word) : word));
}

export function bodyView(message) {
  if (message.body === null || (message.body === undefined && message.bodyBase64 === undefined))
    return h("p", { class: "empty" }, "The body of a finished message is not kept.");
  const binary = message.bodyBase64 !== undefined;
  const text = binary ? "" : bodyText(message);
  const data = binary ? fromBase64(message.bodyBase64) : new TextEncoder().encode(text);
  const json = !binary && isJson(text);
  const tooDeep = json && isTooDeep(text);
  const kinds = [json && !tooDeep && "json", !binary && "text", "hex"].filter(Boolean);
  let kind = kinds[0];
  let max = SHOWN_MAX;
  const view = h("pre", { class: "body", tabindex: "0", "aria-label": "Body" });
  const more = h(
    "button",
    {
      type: "button",
      onclick: () => {
        max = Infinity;
        show();
      },
    },
    "Show the whole body",
  );
  const buttons = kinds.map((one) =>
    h(
      "button",
      {
        type: "button",
        onclick: () => {
          kind = one;
          show();
        },
      },
      { json: "JSON", text: "Text", hex: "Hex" }[one],
    ),
  );
  const show = () => {
    view.replaceChildren(...draw(kind, text, data, max));
    view.dataset.kind = kind;
    more.hidden = data.length <= max;
    buttons.forEach((button, index) =>
      button.setAttribute("aria-pressed", String(kinds[index] === kind)),
    );
  };
  show();
  return h(
    "div",
    {},
    h(
      "div",
      { class: "tools" },
      h("div", { class: "choices", role: "group", "aria-label": "Show the body as" }, buttons),
      h("span", { class: "muted" }, bytes(data.length)),
      tooDeep &&
        h("span", { class: "muted" }, `nested more than ${DEPTH_MAX} levels: shown as text`),
    ),
    view,
    more,
  );
}
