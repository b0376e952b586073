// A producer or a consumer that says on stdout what it saw, a line of JSON for each event of the
// judge's history (tests/acceptance/history/events.py). It ends when its stdin does.
const { Client } = await import(process.env.CLIENT);
const { NAME: name, ROLE: role, TOPIC: topic, GROUP: group, TRANSPORT: transport } = process.env;
const LEASE_MS = 5_000;
const BATCH = 10;
const PAUSE_MS = 200;
const NACK_SHARE = 0.05;
const mq = new Client({ clientName: name, sendTimeout: "2m", connectTimeout: "2m" });
let isStopping = false;
let count = 0;

// The clock is that of time.monotonic() in Python.
const say = (kind, fields) => console.log(JSON.stringify([kind, { ...fields, at: Number(process.hrtime.bigint()) / 1e9 }]));
const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE_MS));

async function produce() {
  while (!isStopping) {
    const messages = Array.from({ length: BATCH }, () => {
      const body = `${name}|${count}|${Math.random().toString(36).slice(2)}`;
      say("Offered", { body, producer: name, sequence: count++ });
      return { body, idempotencyKey: body };
    });
    const results = await mq.sendBatch(topic, messages);
    results.forEach((result, index) => {
      const { body } = messages[index];
      if (result.ok) say("Accepted", { body, queue: result.stored.queue, offset: result.stored.offset });
      else throw result.error;
    });
    await pause();
  }
}

async function consume(subscription) {
  for await (const message of subscription) {
    const { queue, offset, attempt } = message;
    const body = message.text();
    say("Delivered", { body, consumer: name, batch: ++count, queue, offset, attempt, lease_ms: LEASE_MS });
    if (Math.random() < NACK_SHARE) {
      say("GivenBack", { body, consumer: name });
      void message.nack({ delay: 0 });
      continue;
    }
    say("AckBegun", { body, consumer: name });
    message.ack().then(
      () => say("Acked", { body, consumer: name }),
      (error) => {
        if (!(error.code === "LEASE_EXPIRED" || error.name === "OutcomeUnknownError")) throw error;
      },
    );
  }
}

process.stdin.resume().on("end", () => {
  isStopping = true;
  if (role === "consume") void mq.close();
});
if (role === "produce") await produce();
else await consume(mq.subscribe(topic, { group, transport, lease: LEASE_MS, prefetch: 50 }));
await mq.close();
