// SPDX-License-Identifier: Apache-2.0
// A program that uses the types. `tsc --strict` accepts it, except for the lines that expect an error.
import {
  Client,
  Worker,
  Snooze,
  SluiceError,
  Fenced,
  OutcomeUnknown,
  Job,
  Sent,
  Result,
  testNode,
  runUntilEmpty,
} from "sluice";

interface Mail {
  to: string;
}

async function main(): Promise<void> {
  const client = new Client("http://a:7333,b:7333", { token: "t", timeout: "5s" });
  const q = await client.create<Mail>("mail", {
    visibilityTimeout: "2m",
    failureStrategy: { mode: "hybrid", maxRetries: 3 },
  });
  const sent: Sent = await q.send({ to: "ann" }, { group: "g", delay: "5s", at: new Date(), priority: 3 });
  const steps: number = await sent.result<number>({ timeout: 1000 });
  const rows: Result[] = await client.collect([sent]);
  for (const job of await q.receive({ max: 10, wait: "20s" })) {
    const to: string = job.body.to;
    await job.renew({ visibility: "1m" });
    await job.ack({ to, steps, rows: rows.length });
  }
  const { ready } = await q.stats();
  const { purged } = await client.call("purgeQueue", { queue: "mail", dead: true });
  for await (const event of q.events({ from: "now", type: ["message-outcome"] }))
    console.log(event.type, event.eventId);
  const worker = new Worker<Mail>(
    client,
    "mail",
    async (job: Job<Mail>) => {
      if (job.signal.aborted) throw new Snooze("30s");
      for await (const signal of job.signals) await signal.ack(`${job.body.to}`);
      await fetch("http://localhost", { signal: job.signal });
      return { ready, purged };
    },
    { concurrency: 8, labels: { kind: "gpu" } },
  );
  try {
    await worker.run();
  } catch (error) {
    if (error instanceof Fenced || error instanceof OutcomeUnknown) console.log(error.code, error.requestId);
    if (error instanceof SluiceError) console.log(error.reason.length, error.retryAfterMs);
  }
  const local = await testNode();
  await runUntilEmpty(new Worker(local, "mail", { welcome: (job) => job.body, invoice: () => undefined }));
  console.log(local.server.pid);

  // @ts-expect-error a body has the type of the queue
  await q.send({ too: "ann" });
  // @ts-expect-error there is no such option
  await q.send({ to: "ann" }, { prioritty: 3 });
  // @ts-expect-error there is no such call
  await client.call("fly");
  // @ts-expect-error the call needs the queue
  await client.call("purgeQueue", { dead: true });
  // @ts-expect-error there is no such mode
  await client.create("mail", { orderingMode: "random" });
  // @ts-expect-error only send() makes one
  new Sent();
}

void main();
