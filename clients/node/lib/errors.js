// SPDX-License-Identifier: Apache-2.0
// The errors of calls. There is one class for each code, and one code for each action that the
// caller can take.
"use strict";

const { codes } = require("./calls");

class SluiceError extends Error {
  constructor(fields) {
    super(fields.detail);
    this.name = this.constructor.name;
    this.code = fields.code;
    this.reason = fields.reason ?? "";
    this.field = fields.field ?? "";
    this.detail = fields.detail;
    this.status = fields.status;
    this.requestId = fields.requestId;
    this.retryAfterMs = fields.retryAfterMs;
  }
}

// sent.result(): the message ended in another way. `ended` is its row of the collect.
class NotProcessed extends SluiceError {
  constructor(ended) {
    const why = ended.reason ? `: ${ended.reason}` : "";
    super({ code: "CONFLICT", reason: ended.state, detail: `message ${ended.id} is ${ended.state}${why}` });
    this.ended = ended;
  }
}

exports.SluiceError = SluiceError;
exports.NotProcessed = NotProcessed;
for (const { name } of Object.values(codes)) exports[name] = { [name]: class extends SluiceError {} }[name];

const SENTENCES = {
  INVALID: "the request is wrong",
  DENIED: "the token does not allow it",
  NOT_FOUND: "the queue or the message does not exist",
  CONFLICT: "the current state does not allow it",
  FENCED: "another holder has the lock; stop working on the message",
  LIMIT: "a limit is reached; wait, then try again",
  CORRUPT: "stored bytes are damaged",
  UNAVAILABLE: "the request had no effect; try again later",
  UNKNOWN: "the request may have had an effect",
};

// Makes the error of a problem, of a row of a batch, or of the client itself. A newer node may have
// a code that this release does not know: the request is then refused for a reason that is not known.
exports.errorOf = function errorOf(fields) {
  const detail =
    fields.detail ||
    (fields.reason && `refused: ${fields.reason}`) ||
    SENTENCES[fields.code] ||
    `refused: ${fields.code}`;
  const known = codes[fields.code];
  return new (known ? exports[known.name] : SluiceError)({ ...fields, detail });
};

exports.invalid = (field, detail) => exports.errorOf({ code: "INVALID", field, detail });

// The code of a call if an earlier attempt may have taken effect. A refusal of a later attempt says
// nothing about that one.
exports.codeRepeated = (code) => (["LIMIT", "UNAVAILABLE", "DENIED"].includes(code) ? "UNKNOWN" : code);
