// What docs/typescript.md promises, against the real service: `node --test`, started by test_client.py.
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { Client, client, made, proxy, take, until } from "./support.mjs";

const { LeaseExpiredError, MqError, RejectedError, UnreachableError, UsageError, isRejected } = client;
const mq = new Client();
after(() => mq.close());
const rejected = (code) => (error) => isRejected(error, code);

describe("sending", () => {
  test("text, JSON and bytes arrive exactly as they were sent", async () => {
    const { topic, group } = await made(mq);
    const bytes = Uint8Array.from({ length: 300 }, (_, index) => index % 256);
    await mq.send(topic, "Grüße, 世界");
    await mq.send(topic, { large: 9007199254740993, list: [1, null, true], "": "x" });
    await mq.send(topic, bytes);
    await mq.send(topic, 17);

    const subscription = mq.subscribe(topic, { group });
    const [text, object, binary, number] = await take(subscription, 4);

    assert.equal(text.text(), "Grüße, 世界");
    assert.deepEqual(object.json(), { large: 9007199254740992, list: [1, null, true], "": "x" });
    assert.deepEqual(binary.body, bytes);
    assert.equal(binary.body.buffer.byteLength, 300, "it keeps nothing else of its frame alive");
    assert.equal(number.json(), 17);
    assert.throws(() => text.json(), SyntaxError);
    await subscription.return();
  });

  test("every option of a message arrives with it", async () => {
    const { topic, group } = await made(mq, { topic: { queues: 4 } });
    const properties = { source: "web", __proto__x: "1", "ключ": "значение" };
    const stored = await mq.send(topic, "x", { tag: "created", keys: ["k1", "k2"], messageGroup: "g", properties, queue: 2 });

    const subscription = mq.subscribe(topic, { group, filter: "created || paid" });
    const [message] = await take(subscription, 1);

    const { id, queue, offset, tag, keys, messageGroup, attempt, storedAtMs } = message;
    assert.deepEqual({ id, queue, offset, tag, keys, messageGroup, attempt }, {
      id: stored.id, queue: 2, offset: stored.offset, tag: "created", keys: ["k1", "k2"], messageGroup: "g", attempt: 1,
    });
    assert.equal(message.properties["ключ"], "значение");
    assert.equal(message.properties.source, "web");
    assert.equal(storedAtMs, stored.storedAt.getTime());
    await message.ack();
    await subscription.return();
  });

  test("the same idempotency key stores once, and other content under it is rejected", async () => {
    const { topic } = await made(mq);
    const first = await mq.send(topic, "a", { idempotencyKey: "once" });
    const again = await mq.send(topic, "a", { idempotencyKey: "once" });

    assert.deepEqual([first.duplicate, again.duplicate, again.id], [false, true, first.id]);
    await assert.rejects(mq.send(topic, "b", { idempotencyKey: "once" }), rejected("IDEMPOTENCY_KEY_REUSED"));
  });

  test("a delayed message has a handle, is listed, and can be cancelled", async () => {
    const { topic } = await made(mq);
    const stored = await mq.send(topic, "later", { delay: "1h" });
    const at = new Date(Date.now() + 7_200_000);
    const second = await mq.send(topic, "later", { deliverAt: at });

    assert.equal(stored.offset, null);
    assert.equal(second.deliverAt.getTime(), at.getTime());
    assert.equal((await mq.scheduled.list(topic)).messages.length, 2);
    assert.equal((await mq.scheduled.cancel(stored.recallHandle)).state, "cancelled");
    await assert.rejects(mq.scheduled.cancel(stored.recallHandle), rejected("MESSAGE_NOT_FOUND"));
  });

  test("sendBatch has a result for each message; a bad one does not keep the others out", async () => {
    const { topic } = await made(mq);
    const messages = Array.from({ length: 2_500 }, (_, index) => ({ body: { index }, ...(index === 7 || index === 2_100 ? { queue: 9 } : {}) }));

    const results = await mq.sendBatch(topic, messages);

    const failed = results.flatMap((result, index) => (result.ok ? [] : [[index, result.error.code, result.error.stored]]));
    assert.deepEqual(failed, [[7, "QUEUE_NOT_FOUND", false], [2_100, "QUEUE_NOT_FOUND", false]]);
    const [queue] = (await mq.topics.get(topic)).queue_offsets;
    assert.equal(queue.max_offset, 2_498);
    assert.deepEqual(results.slice(0, 3).map((result) => result.stored.offset), [0, 1, 2]);
  });

  test("a message group stays in order when a part of a batch has to be sent again", async () => {
    const { topic } = await made(mq);
    let count = 0;
    const busy = async (...request) => {
      if (++count !== 2) return fetch(...request);
      return Response.json({ code: "STORAGE_BUSY", retryable: true, stored: false, retry_after_ms: 1 }, { status: 503 });
    };
    const own = new Client({ fetch: busy });
    const results = await own.sendBatch(topic, Array.from({ length: 2_500 }, (_, index) => ({ body: { index }, messageGroup: "g" })));
    await own.close();

    assert.equal(count, 4);
    assert.deepEqual(results.map((result) => result.stored.offset), results.map((_, index) => index));
  });

  test("a batch with linger keeps the order of a message group and tells each sender its result", async () => {
    const { topic } = await made(mq);
    const batch = mq.batch(topic, { countMax: 20, linger: 2 });
    const sent = Array.from({ length: 130 }, (_, index) => batch.send({ index }, { messageGroup: "one" }));
    const bad = batch.send("x", { queue: 9 });
    await batch.flush();

    const stored = await Promise.all(sent);
    assert.deepEqual(stored.map((each) => each.offset), stored.map((_, index) => index));
    await assert.rejects(bad, rejected("QUEUE_NOT_FOUND"));
    await assert.rejects(batch.close(), (error) => error instanceof AggregateError && error.errors.length === 1);
    assert.throws(() => batch.send("x"), UsageError);
    assert.equal((await mq.topics.get(topic)).queue_offsets[0].max_offset, 130);
  });

  test("a batch refuses what it has no room for, until ready", async () => {
    const { topic } = await made(mq);
    const batch = mq.batch(topic, { pendingMax: 10 });
    for (let index = 0; index < 10; index++) void batch.send("x");
    assert.throws(() => batch.send("x"), UsageError);
    await batch.ready();
    await batch.send("x");
    await batch.close();
  });

  test("errors say what is known", async () => {
    await assert.rejects(mq.send("no-such-topic", "x"), (error) => {
      assert.ok(error instanceof RejectedError && error instanceof MqError);
      const { code, status, stored, retryable, name } = error;
      assert.deepEqual({ code, status, stored, retryable, name }, {
        code: "TOPIC_NOT_FOUND", status: 404, stored: false, retryable: false, name: "RejectedError",
      });
      assert.match(error.remedy, /PUT/);
      return true;
    });
    const gone = await proxy();
    await gone.close();
    const nobody = new Client({ baseUrl: gone.url, sendTimeout: 0, connectTimeout: 0 });
    await assert.rejects(nobody.send("t", "x"), (error) => error instanceof UnreachableError && error.stored === false);
    await assert.rejects(nobody.subscribe("t", { group: "g" }).next(), UnreachableError);
    await nobody.close();
    await assert.rejects(nobody.send("t", "x"), UsageError);
    await assert.rejects(mq.send("t", ""), UsageError);
    await assert.rejects(mq.send("t", "x", { delay: "soon" }), UsageError);
    assert.throws(() => new Client({ baseUrl: "ftp://x" }), UsageError);
    await assert.rejects(mq.subscribe("no-such-topic", { group: "g" }).next(), rejected("TOPIC_NOT_FOUND"));
  });

  test("an aborted call throws the reason of its signal", async () => {
    const { topic, group } = await made(mq);
    const reason = new Error("enough");
    await assert.rejects(mq.send(topic, "x", { signal: AbortSignal.abort(reason) }), reason);
    await assert.rejects(mq.topics.list({ signal: AbortSignal.abort(reason) }), reason);

    const stop = new AbortController();
    const subscription = mq.subscribe(topic, { group, signal: stop.signal });
    const waiting = subscription.next();
    setTimeout(() => stop.abort(reason), 50);
    await assert.rejects(waiting, reason);
    await subscription.close();
    assert.equal((await subscription.next().catch((error) => error)), reason);
  });
});

for (const transport of ["websocket", "rest"]) {
  describe(`consuming over ${transport}`, () => {
    test("what is acked does not come again, and what fails does", async () => {
      const { topic, group } = await made(mq);
      for (const body of ["ack", "nack", "dead", "extend"]) await mq.send(topic, body);
      const subscription = mq.subscribe(topic, { group, transport });

      const [ack, nack, dead, extend] = await take(subscription, 4);
      assert.equal(subscription.transport, transport);
      await Promise.all([ack.ack(), nack.nack({ delay: 10, reason: "not now" }), dead.deadLetter("bad schema"), extend.extend("90s")]);
      const [again] = await take(subscription, 1);
      assert.deepEqual([again.id, again.attempt], [nack.id, 2]);
      await Promise.all([again.ack(), extend.ack()]);
      await assert.rejects(ack.ack(), UsageError);

      await until(async () => (await mq.deadLetters.list(group)).messages.length === 1, "there is a dead letter");
      const [letter] = (await mq.deadLetters.list(group)).messages;
      assert.deepEqual([letter.id, letter.reason], [dead.id, "bad schema"]);
      const { acked, nacked, deadLettered, settleFailed } = subscription.stats;
      assert.deepEqual({ acked, nacked, deadLettered, settleFailed }, { acked: 3, nacked: 1, deadLettered: 1, settleFailed: 1 });
      await subscription.return();
      assert.equal((await mq.groups.lag(group)).lag, 0);
    });

    test("a message that another consumer has by now cannot be settled", async () => {
      const { topic, group } = await made(mq);
      await mq.send(topic, "slow");
      const slow = mq.subscribe(topic, { group, transport, lease: "1s" });
      const [message] = await take(slow, 1);
      const other = mq.subscribe(topic, { group, transport });
      const [again] = await take(other, 1);

      // It may have come back to the slow one first, which did not look at it.
      assert.deepEqual([again.id, again.attempt], [message.id, slow.stats.received + 1]);
      if (transport === "websocket") assert.ok(message.signal.aborted);
      await assert.rejects(message.ack(), LeaseExpiredError);
      await again.ack();
      await Promise.all([slow.return(), other.return()]);
    });

    test("no more messages come than the credit allows", async () => {
      const { topic, group } = await made(mq);
      await mq.sendBatch(topic, Array.from({ length: 20 }, (_, index) => ({ body: { index } })));
      const subscription = mq.subscribe(topic, { group, transport, prefetch: 3 });

      const held = await take(subscription, 3);
      const next = subscription.next();
      await assert.rejects(Promise.race([next, new Promise((_, reject) => setTimeout(reject, 300, new Error("none")))]), /none/);
      assert.equal(subscription.stats.received, 3);
      await held[0].ack();
      assert.equal((await next).value.json().index, 3);
      await subscription.return();
    });

    test("closing waits for what is being worked on", async () => {
      const { topic, group } = await made(mq);
      await mq.send(topic, "work");
      const subscription = mq.subscribe(topic, { group, transport });
      const [message] = await take(subscription, 1);
      const closing = subscription.close({ drain: "10s" });
      assert.deepEqual(await subscription.next(), { value: undefined, done: true });
      await new Promise((resolve) => setTimeout(resolve, 50));
      await message.ack();
      await closing;
      assert.deepEqual([subscription.stats.acked, subscription.stats.returned], [1, 0]);
      assert.equal((await mq.groups.lag(group)).lag, 0);
    });
  });
}

describe("leaving", () => {
  test("messages in hand are given back without an attempt counted", async () => {
    const { topic, group } = await made(mq);
    await mq.sendBatch(topic, Array.from({ length: 10 }, (_, index) => ({ body: { index } })));
    const first = mq.subscribe(topic, { group, prefetch: 10 });
    for await (const message of first) {
      if (message.json().index === 1) break; // seen, and not settled
      await message.ack();
    }
    await assert.rejects(first.close().then(() => { throw new Error("closed"); }), /closed/);
    assert.deepEqual([first.stats.acked, first.stats.returned], [1, 9]);

    const second = mq.subscribe(topic, { group });
    const found = await take(second, 9);
    assert.deepEqual(found.map((message) => message.attempt), Array(9).fill(1));
    assert.deepEqual(found.map((message) => message.json().index), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    await Promise.all(found.map((message) => message.ack()));
    await second.return();
  });

  test("a client that closes drains its batches and subscriptions", async () => {
    const { topic, group } = await made(mq);
    const own = new Client();
    const subscription = own.subscribe(topic, { group });
    const batch = own.batch(topic, { linger: "1m" });
    const sent = batch.send("x");
    const loop = (async () => {
      for await (const message of subscription) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        await message.ack();
      }
    })();
    await batch.flush();
    await until(() => subscription.stats.received === 1, "the message came");
    await own.close();
    await loop;
    await sent;
    assert.equal(subscription.stats.acked, 1);
  });
});

describe("the control plane", () => {
  test("topics, groups, seek with dry run, dead letters, tasks, schedules and issues", async () => {
    const { topic, group } = await made(mq);
    await mq.sendBatch(topic, Array.from({ length: 5 }, () => ({ body: "x", keys: ["k"] })));
    const subscription = mq.subscribe(topic, { group });
    const messages = await take(subscription, 5);
    await Promise.all([messages[0].deadLetter("why 1"), ...messages.slice(1).map((message) => message.ack())]);
    await subscription.return();

    assert.equal((await mq.topics.get(topic)).queues, 1);
    assert.ok((await mq.topics.list({ contains: topic })).topics.length >= 1);
    await until(async () => (await mq.deadLetters.list(group)).messages.length === 1, "there is a dead letter");
    const preview = await mq.groups.seek(group, { topic, to: "earliest", dry_run: true });
    assert.deepEqual([preview.dry_run, preview.replayed], [true, 5]);
    assert.equal((await mq.groups.offsets(group, { topic })).offsets[0].consumer_offset, 5);
    assert.equal((await mq.messages.browse(topic, { key: "k", limit: 2 })).messages.length, 2);
    assert.equal((await mq.messages.get(topic, messages[1].id)).id, messages[1].id);
    assert.ok((await mq.messages.trace(messages[1].id)).events.length);
    assert.equal((await mq.deadLetters.redrive(group, { all: true, dry_run: true })).count, 1);
    const task = await mq.deadLetters.redrive(group, { all: true }, { idempotencyKey: `redrive-${topic}` });
    const replayed = await mq.deadLetters.redrive(group, { all: true }, { idempotencyKey: `redrive-${topic}` });
    assert.equal(replayed.id, task.id);
    await until(async () => (await mq.tasks.get(task.id)).state === "done", "the redrive is done");
    assert.equal((await mq.groups.pause(group)).paused, true);
    assert.equal((await mq.groups.resume(group)).paused, false);
    assert.equal((await mq.schedules.preview({ cron: "@daily" })).next_runs.length, 10);
    await mq.schedules.create(topic, { topic, cron: "@yearly", message: { body: "x" } });
    assert.equal((await mq.schedules.get(topic)).cron, "@yearly");
    await mq.schedules.delete(topic);
    assert.ok(Array.isArray((await mq.issues.list()).issues));
    await mq.groups.delete(group);
    await mq.topics.delete(topic);
    await assert.rejects(mq.topics.get(topic), rejected("TOPIC_NOT_FOUND"));
  });

  test("names and queries cannot leave their place in the address", async () => {
    await assert.rejects(mq.topics.get("../groups"), rejected("NOT_FOUND"));
    await assert.rejects(mq.topics.get("a?b#c"), rejected("TOPIC_NOT_FOUND"));
    for (const name of ["", ".", ".."]) await assert.rejects(mq.topics.get(name), UsageError);
    assert.deepEqual((await mq.topics.list({ contains: "a&limit=1" })).topics, []);
  });
});
