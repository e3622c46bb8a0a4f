// SPDX-License-Identifier: Apache-2.0
// The types of the client of Sluice. lib/calls.d.ts has those of the calls.
import type { ChildProcess } from "node:child_process";
import type { SecureContextOptions } from "node:tls";
import type {
  Calls,
  Duration,
  Ended,
  ErrorCode,
  Message,
  Node,
  Outcome,
  Purged,
  Queue as QueueInfo,
  QueueRow,
  QueueSettings,
  Redriven,
  Cancelled,
  Signalled,
  Stats,
  Upgrade,
  Workers,
} from "./lib/calls";

export * from "./lib/calls";
export type { Queue as QueueInfo } from "./lib/calls";

/** The error of a call. Its class says what the caller can do next. */
export class SluiceError extends Error {
  /** A newer node may have a further code. */
  readonly code: ErrorCode | (string & {});
  /** A stable word, such as "token-mismatch". Empty: none. */
  readonly reason: string;
  /** The field that is wrong. Empty: none. */
  readonly field: string;
  readonly detail: string;
  /** The HTTP status of the answer, if there was one. */
  readonly status?: number;
  /** The request id of the call, if it has one. */
  readonly requestId?: string;
  /** How long the node asks the client to wait. */
  readonly retryAfterMs?: number;
}

/** The message of sent.result() ended, and was not processed. `reason` is its state. */
export class NotProcessed extends SluiceError {
  readonly ended: Result;
}

/** Turns values into bodies and results, and back. */
export interface Codec {
  encode(value: any): { body?: unknown; bodyBase64?: string; contentType?: string };
  decode(message: { body?: any; bodyBase64?: string; contentType?: string }): any;
}

export interface ClientOptions {
  /** Default: $SLUICE_TOKEN. */
  token?: string;
  /** For a call, without the time that a node waits on purpose. Default 30 s. */
  timeout?: Duration;
  codec?: Codec;
  /** Options of TLS, such as ca, cert and key. */
  tls?: SecureContextOptions & { servername?: string; rejectUnauthorized?: boolean };
}

export interface CallOptions {
  timeout?: Duration;
  signal?: AbortSignal;
  /** The request id of the call: 32 hex digits. Default: a new one. */
  request?: string;
}

/** An event of a queue. docs/events.md has the types and their fields. */
export interface EventRow {
  /** Such as "message-outcome". Words of the stream itself: "gap", "end", "lagged". */
  type: string;
  /** The place to resume from. */
  eventId?: string;
  [field: string]: any;
}
export interface EventOptions {
  /** "0", "now", a position, or the eventId of an event. */
  from?: string | number;
  type?: string | string[];
  message?: string;
  signal?: AbortSignal;
}

/** How a message ended, with its result. */
export type Result = Omit<Ended, "result"> & { result?: any };

/** A client of one or several nodes: "http://a:7333,b:7333". */
export class Client {
  /** url: default $SLUICE_STORE. */
  constructor(url?: string, options?: ClientOptions);
  readonly url: string;
  queue<T = any>(name: string): Queue<T>;
  /** Creates a queue. If it exists with the same settings, nothing changes. */
  create<T = any>(name: string, settings?: QueueSettings): Promise<Queue<T>>;
  /** The queues that the token may read. */
  list(options?: Calls["listQueues"]["params"]): Promise<QueueRow[]>;
  /** What the node says about itself. */
  node(): Promise<Node>;
  /** Makes any call of the interface. */
  call<K extends keyof Calls>(name: K, params?: Calls[K]["params"], options?: CallOptions): Promise<Calls[K]["answer"]>;
  /** Waits for messages of any queues. The rows have the order of `sent`. */
  collect(sent: ReadonlyArray<{ queue: string; id: string }>, options?: WaitOptions): Promise<Result[]>;
  /** The events of several queues, or of all. It has no end. */
  stream(options?: EventOptions & { queue?: string | string[]; workflow?: string }): AsyncGenerator<EventRow, void>;
  clusterEvents(options?: { from?: string; signal?: AbortSignal }): AsyncGenerator<Record<string, any>, void>;
  close(): Promise<void>;
}

export interface WaitOptions {
  /** Default: none. */
  timeout?: Duration;
  signal?: AbortSignal;
}

export interface SendOptions {
  /** Messages of a group stay in one shard, and in a strict queue in their order. */
  group?: string;
  delay?: Duration;
  /** The earliest time of delivery: a Date, or milliseconds since 1970. */
  at?: Date | number;
  /** 0 to 9. Higher values are delivered first. */
  priority?: number;
  /** A second message with the same key within dedupWindow is not stored. */
  dedup?: string;
  headers?: Record<string, string>;
  workflow?: string;
  workflowLast?: boolean;
  /** Labels that the worker must have: "kind=gpu". */
  requires?: string;
  contentType?: string;
  /** The kind of the job, for a worker with several functions: the header sluice-type. */
  type?: string;
}

export class Sent {
  private constructor();
  readonly id: string;
  readonly queue: string;
  /** The dedup key was known. The id is that of the first message. */
  readonly duplicate: boolean;
  /** Waits for the end of the message and returns its result. If it was not processed: NotProcessed. */
  result<R = any>(options?: WaitOptions): Promise<R>;
}

export interface ReceiveOptions {
  /** Default 1. */
  max?: number;
  /** How long to wait if no message is ready. Default 20 s. */
  wait?: Duration;
  /** How long the locks last. Default: the queue's visibilityTimeout. */
  visibility?: Duration;
  /** The name that is shown with the locks. */
  worker?: string;
  signal?: AbortSignal;
}

export class Queue<T = any> {
  private constructor();
  readonly name: string;
  /** Sends a message. Sends of one tick share a request. */
  send(body: T, options?: SendOptions): Promise<Sent>;
  /** Sends several messages with the same options. */
  sendMany(bodies: readonly T[], options?: SendOptions): Promise<Sent[]>;
  /** Receives messages by hand. Renew their locks with job.renew(). */
  receive(options?: ReceiveOptions): Promise<Array<Job<T>>>;
  /** Waits until all messages have ended. The rows have the order of the ids. */
  collect(ids: ReadonlyArray<string | { id: string }>, options?: WaitOptions): Promise<Result[]>;
  /** The events of the queue. It ends when the queue is deleted. */
  events(options?: EventOptions): AsyncGenerator<EventRow, void>;
  /** Sends a signal to a message: steer, ask or interrupt. */
  signal(id: string, signal: Omit<Calls["signalMessage"]["params"], "queue" | "id">): Promise<Signalled>;
  /** Asks a running job and waits for its answer. */
  ask(id: string, payload: unknown, options?: { timeout?: Duration }): Promise<any>;
  show(): Promise<QueueInfo>;
  change(settings: QueueSettings): Promise<QueueInfo>;
  /** With the queue's id, the call is safe to repeat. */
  delete(options?: { id?: string }): Promise<undefined>;
  stats(): Promise<Stats>;
  pause(): Promise<undefined>;
  resume(): Promise<undefined>;
  purge(options?: { dead?: boolean }): Promise<Purged>;
  redrive(options?: { to?: string; max?: number; ids?: string[] }): Promise<Redriven>;
  upgrade(options?: { check?: boolean; force?: boolean }): Promise<Upgrade>;
  message(id: string): Promise<Message>;
  /** Looks at messages without receiving them. */
  messages(options?: Omit<Calls["peekMessages"]["params"], "queue">): Promise<Message[]>;
  /** Ends messages that no worker holds. */
  cancel(ids: string[], reason?: string): Promise<Cancelled>;
  workers(): Promise<Workers>;
}

/** A signal to a running job. */
export interface JobSignal {
  readonly id: string;
  readonly number: number;
  readonly kind: "steer" | "ask" | "interrupt" | (string & {});
  readonly payload: any;
  ack(answer?: unknown): Promise<unknown>;
  decline(reason: string): Promise<unknown>;
}

/** A message with its lock. */
export class Job<T = any> {
  private constructor();
  readonly id: string;
  readonly queue: string;
  readonly body: T;
  /** The header sluice-type. Empty: none. */
  readonly type: string;
  /** Deliveries, including this one. */
  readonly attempt: number;
  readonly retries: number;
  readonly token: string;
  /** Rises with every lock of the shard. */
  readonly fence: number;
  readonly leaseMs: number;
  readonly deadline: number;
  readonly group: string;
  readonly priority: number;
  readonly headers: Record<string, string>;
  readonly sentAt: number;
  readonly contentType?: string;
  readonly dedup?: string;
  readonly workflow?: string;
  /** Of a dead letter: where it comes from. */
  readonly from?: Message["from"];
  /** Aborts when the lock is lost, an interrupt comes, or the worker stops. */
  readonly signal: AbortSignal;
  /** The lock is gone: another worker may have the message. */
  readonly lost: boolean;
  /** The signals to the job, in their order. It ends with the job. */
  readonly signals: AsyncIterable<JobSignal>;
  ack(result?: unknown): Promise<Outcome>;
  fail(reason?: string): Promise<Outcome>;
  release(options?: { delay?: Duration }): Promise<Outcome>;
  renew(options?: { visibility?: Duration }): Promise<Outcome>;
  /** Shows how far the job is, 0 to 100. */
  progress(percent: number, text?: string): Promise<void>;
}

/** What a handler throws to get the message again after a delay. No attempt is counted. */
export class Snooze extends Error {
  constructor(delay: Duration);
}
/** Reasons of job.signal. */
export class LockLost extends Error {}
export class Interrupted extends Error {}
export class Stopping extends Error {}

export type Handler<T = any> = (job: Job<T>) => unknown;

export interface WorkerOptions {
  /** How many jobs run at a time. Default 1. */
  concurrency?: number;
  /** Default: host, process and some digits. */
  name?: string;
  /** How long the locks last between renewals. Default: the queue's visibilityTimeout. */
  visibility?: Duration;
  /** "host=a7,kind=gpu", or an object. */
  labels?: string | Record<string, string>;
  /** Default: register if the queue allows it. true: fail if not. false: do not. */
  register?: boolean;
  /** How long the registration lasts without a sign of life. Default 60 s. */
  ttl?: Duration;
  /** How long stop() waits for the handlers. Default 25 s. */
  grace?: Duration;
  /** Stop on SIGTERM and SIGINT. Default true. */
  handleSignals?: boolean;
  /** Start by itself. Default true. */
  autorun?: boolean;
  /** Gets a sentence about each problem. Default: standard error. */
  log?: (sentence: string) => void;
}

/** A loop with places. The value that a handler returns is the result. An error fails the job. */
export class Worker<T = any> {
  /** handler: a function, or an object with a function for each type of job. */
  constructor(client: Client, queue: string, handler: Handler<T> | Record<string, Handler<T>>, options?: WorkerOptions);
  readonly name: string;
  readonly queue: Queue<T>;
  /** What became of the jobs of this worker. */
  readonly counts: Readonly<Record<"processed" | "failed" | "released" | "lost" | "interrupted", number>>;
  /** Resolves when the worker has stopped. Rejects if it cannot go on. */
  run(): Promise<void>;
  /** Takes no more messages, waits for the handlers, releases what is left, and ends. */
  stop(options?: { grace?: Duration }): Promise<void>;
}

/** A client of a node of its own process, whose store is in memory. close() ends both. */
export function testNode(
  options?: ClientOptions & {
    /** Default: $SLUICE, else "sluice" of the PATH. */
    program?: string;
    store?: string;
    listen?: string;
    args?: string[];
  },
): Promise<Client & { server: ChildProcess }>;

/** Runs the worker until no message of its queue is ready or locked, then stops it. */
export function runUntilEmpty(worker: Worker, options?: { delayed?: boolean }): Promise<void>;
