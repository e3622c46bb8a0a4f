// SPDX-License-Identifier: Apache-2.0
// Streams of Server-Sent Events. A stream that breaks is opened again after the last event, so the
// reader misses none and sees none twice, as long as the journal keeps the events.
"use strict";

const { SluiceError } = require("./errors");
const { pause } = require("./util");

const PAUSE_MIN_MS = 50;
const PAUSE_MAX_MS = 2000;

// Yields { type, data, id } for each block. A comment has an id only. A block that the end of the
// stream cut is left out.
async function* blocks(res) {
  let rest = "";
  for await (const part of res) {
    const texts = (rest + part).split(/\r?\n\r?\n/);
    rest = texts.pop();
    for (const text of texts) {
      const block = { type: "message", data: "", id: undefined };
      for (const line of text.split(/\r?\n/)) {
        const [, name, value] = /^(\w*):? ?(.*)$/.exec(line) ?? [];
        if (name === "event") block.type = value;
        else if (name === "id") block.id = value;
        else if (name === "data") block.data += (block.data && "\n") + value;
      }
      yield block;
    }
  }
}

// Yields the events of the call `name`, each with its `type` and `eventId`, the place to resume from.
// It ends with the event "end", or when the signal aborts.
async function* watch(transport, name, params, signal) {
  let lastEventId;
  for (let pauseMs = PAUSE_MIN_MS; ; pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS)) {
    let res;
    try {
      res = await transport.open(name, params, { lastEventId, signal });
      for await (const { type, data, id } of blocks(res)) {
        pauseMs = PAUSE_MIN_MS;
        lastEventId = id ?? lastEventId;
        if (data === "") continue;
        yield { type, ...JSON.parse(data), eventId: lastEventId };
        if (type === "end" && (name !== "watchQueues" || !JSON.parse(data).queue)) return;
      }
    } catch (error) {
      if (signal?.aborted) return;
      const passes = !(error instanceof SluiceError) || ["UNAVAILABLE", "UNKNOWN", "LIMIT"].includes(error.code);
      if (!passes || error instanceof SyntaxError) throw error;
    } finally {
      res?.destroy();
    }
    if (signal?.aborted || transport.closed) return;
    await pause(pauseMs, signal);
  }
}

exports.watch = watch;
