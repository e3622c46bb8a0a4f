// SPDX-License-Identifier: Apache-2.0
// How values become bodies of messages and results, and back. A codec of the user has the same two
// functions: encode(value) gives { body } or { bodyBase64 } and may add contentType, and
// decode(message) gives the value.
"use strict";

const { invalid } = require("./errors");

const BYTES = "application/octet-stream";
const JSON_TYPE = "application/json";

// Bytes travel as base64. Their type tells them from text, because a node shows bytes that are
// UTF-8 as a text.
exports.json = {
  encode(value) {
    if (value instanceof Uint8Array)
      return {
        bodyBase64: Buffer.from(value.buffer, value.byteOffset, value.length).toString("base64"),
        contentType: BYTES,
      };
    return { body: value };
  },
  decode({ body, bodyBase64, contentType }) {
    if (bodyBase64 !== undefined) return Buffer.from(bodyBase64, "base64");
    return contentType === BYTES && typeof body === "string" ? Buffer.from(body) : body;
  },
};

// The JSON text of fields, of which `what` is the user's value.
exports.stringify = function stringify(fields, what, value) {
  let text;
  try {
    text = JSON.stringify(fields);
  } catch (error) {
    throw invalid(what, `the ${what} is not JSON: ${error.message.split("\n")[0]}`);
  }
  const isLost = value === undefined || typeof value === "function" || typeof value === "symbol" || Number.isNaN(value);
  if (isLost) throw invalid(what, `the ${what} is not JSON: ${String(value)}`);
  return text;
};

// The fields of an ack's result.
exports.resultFields = function resultFields(codec, value) {
  if (value === undefined) return {};
  const { body, bodyBase64, contentType = typeof body === "string" ? undefined : JSON_TYPE } = codec.encode(value);
  const type = contentType === undefined ? {} : { resultType: contentType };
  return bodyBase64 !== undefined ? { resultBase64: bodyBase64, ...type } : { result: body, ...type };
};

// The value of a result. A node shows JSON text that is no object or list as a string.
exports.resultOf = function resultOf(codec, { result, resultBase64, resultType }) {
  if (typeof result === "string" && resultType === JSON_TYPE) {
    try {
      result = JSON.parse(result);
    } catch {
      // a text of that type, as it is
    }
  }
  return codec.decode({ body: result, bodyBase64: resultBase64, contentType: resultType });
};
