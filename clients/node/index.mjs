// SPDX-License-Identifier: Apache-2.0
import sluice from "./index.js";

export const {
  Client,
  Queue,
  Sent,
  Job,
  Worker,
  Snooze,
  LockLost,
  Interrupted,
  Stopping,
  testNode,
  runUntilEmpty,
  SluiceError,
  NotProcessed,
  Invalid,
  Denied,
  NotFound,
  Conflict,
  Fenced,
  Limit,
  Corrupt,
  Unavailable,
  OutcomeUnknown,
} = sluice;
export default sluice;
