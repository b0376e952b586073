// What goes wrong between the client and the service: `node --test`, started by test_client.py.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { after, describe, test } from "node:test";
import { promisify } from "node:util";
import { Client, client, made, proxy, take, until } from "./support.mjs";

const { ConnectionLostError, MalformedResponseError, MqError, OutcomeUnknownError, RejectedError, isRejected } = client;
const { decode, encode } = await import(new URL("msgpack.js", process.env.CLIENT));
const mq = new Client();
after(() => mq.close());
const numbered = (count) => Array.from({ length: count }, (_, index) => ({ body: { index } }));
const inflight = async (group) => (await mq.groups.lag(group)).inflight;

describe("a proxy", () => {
  test("cuts sockets: the session is resumed, nothing is lost, and nothing comes twice", async () => {
    const { topic, group } = await made(mq, { topic: { queues: 4 } });
    const way = await proxy();
    const own = new Client({ baseUrl: way.url });
    await mq.sendBatch(topic, numbered(1_500));
    const subscription = own.subscribe(topic, { group, prefetch: 50 });
    const seen = [];
    const acks = [];
    for await (const message of subscription) {
      seen.push([message.json().index, message.attempt]);
      acks.push(message.ack());
      if (seen.length % 300 === 150) way.cut();
      if (seen.length === 1_500) break;
    }
    await Promise.all(acks);

    const sorted = seen.map(([index]) => index).sort((one, other) => one - other);
    assert.deepEqual(sorted, Array.from({ length: 1_500 }, (_, index) => index));
    assert.ok(seen.every(([, attempt]) => attempt === 1));
    const { acked, lost, settleFailed, reconnects } = subscription.stats;
    assert.deepEqual({ acked, lost, settleFailed }, { acked: 1_500, lost: 0, settleFailed: 0 });
    assert.ok(reconnects >= 5, `${reconnects} reconnects`);
    assert.equal((await mq.groups.lag(group)).lag, 0);
    await own.close();
    await way.close();
  });

  test("loses responses: a send with a key is repeated and stored once, one without is not repeated", async () => {
    const { topic } = await made(mq);
    let mayPass = false;
    const way = await proxy({ losesResponse: (head) => head.includes("messages:batch") && !mayPass });
    const own = new Client({ baseUrl: way.url, sendTimeout: "20s" });
    await assert.rejects(own.send(topic, "a"), (error) => {
      return error instanceof OutcomeUnknownError && error.stored === null;
    });
    const keyed = own.send(topic, "b", { idempotencyKey: "b" });
    const before = way.connectionCount;
    await until(() => way.connectionCount > before + 1, "it is sent again");
    mayPass = true;
    await keyed;
    await own.close();
    await way.close();

    assert.equal((await mq.topics.get(topic)).queue_offsets[0].max_offset, 2);
    const { messages } = await mq.messages.browse(topic, { limit: 10 });
    assert.deepEqual(messages.map((message) => message.body).sort(), ["a", "b"]);
  });

  test("strips upgrades: messages come over REST, unless a WebSocket is asked for", async () => {
    const { topic, group } = await made(mq);
    const way = await proxy({ change: (head) => head.replace(/^(upgrade|connection): .*\r\n/gim, "") });
    const own = new Client({ baseUrl: way.url });
    await own.send(topic, "x");
    const subscription = own.subscribe(topic, { group });
    const [message] = await take(subscription, 1);
    await message.ack();

    assert.equal(subscription.transport, "rest");
    const stubborn = own.subscribe(topic, { group, transport: "websocket" });
    await assert.rejects(stubborn.next(), (error) => error instanceof RejectedError && !error.retryable);
    await own.close();
    await way.close();
    assert.equal((await mq.groups.lag(group)).lag, 0);
  });

  test("is down when messages are in hand: they are settled once it is back", async () => {
    const { topic, group } = await made(mq);
    const way = await proxy();
    const own = new Client({ baseUrl: way.url });
    await mq.sendBatch(topic, numbered(10));
    const subscription = own.subscribe(topic, { group });
    const messages = await take(subscription, 10);
    way.isDown = true;
    way.cut();
    const acks = messages.slice(0, 5).map((message) => message.ack());
    await until(() => subscription.stats.reconnects >= 2, "it tries again");
    const closing = own.close({ drain: "20s" });
    way.isDown = false;
    await Promise.all(acks);
    await messages[5].nack({ delay: "1h" });
    await Promise.all(messages.slice(6).map((message) => message.ack()));
    await closing;

    assert.deepEqual([subscription.stats.acked, subscription.stats.nacked], [9, 1]);
    await until(async () => (await mq.groups.lag(group)).retry.scheduled === 1, "the nacked one is scheduled");
    await way.close();
  });
});

describe("credentials", () => {
  const tickets = async () => (await mq.tickets.create({})).ticket;

  test("tickets that are expired or used are replaced, also when a connection is cut", async () => {
    const { topic, group } = await made(mq);
    const way = await proxy();
    const used = await tickets();
    const given = [used, used, "mqt_expired"];
    let count = 0;
    const own = new Client({ baseUrl: way.url, ticket: async () => (count++, given.shift() ?? tickets()) });
    const subscription = own.subscribe(topic, { group });
    await own.sendBatch(topic, numbered(2));
    const [first, second] = await take(subscription, 2);
    way.cut();
    await Promise.all([first.ack(), second.ack()]);
    await own.send(topic, "more");
    const [third] = await take(subscription, 1);
    await third.ack();

    assert.ok(count >= 5, `${count} tickets`);
    await assert.rejects(own.topics.list(), client.UsageError);
    assert.throws(() => own.subscribe(topic, { group, transport: "rest" }), client.UsageError);
    await own.close();
    await way.close();
    assert.equal((await mq.groups.lag(group)).lag, 0);
  });

  test("tickets that are never accepted end the subscription with what the service said", async () => {
    const own = new Client({ ticket: async () => "mqt_never" });
    await assert.rejects(own.subscribe("t", { group: "g" }).next(), (error) => error.code === "UNAUTHENTICATED" && error.status === 401);
    await own.close();
    const unable = new Client({ ticket: async () => { throw new Error("nobody is signed in"); } });
    await assert.rejects(unable.subscribe("t", { group: "g" }).next(), /nobody is signed in/);
    await assert.rejects(unable.send("t", "x"), /nobody is signed in/);
    await unable.close();
  });

  for (const transport of ["websocket", "rest"]) {
    test(`a key that is revoked ends the loop over ${transport}, and others get the messages`, async () => {
      const { topic, group } = await made(mq);
      const key = await mq.keys.create({ name: topic, scopes: ["produce", "consume"] });
      const own = new Client({ apiKey: key.key });
      await own.send(topic, "x");
      const subscription = own.subscribe(topic, { group, transport, lease: "1s" });
      const [message] = await take(subscription, 1);
      const next = subscription.next();
      next.catch(() => {}); // it may be refused before anybody waits for it
      await mq.keys.revoke(key.id);

      await assert.rejects(next, (error) => {
        const isRefused = isRejected(error, "UNAUTHENTICATED") || (error instanceof ConnectionLostError && error.closeCode === 4401);
        return isRefused && !error.retryable;
      });
      await assert.rejects(message.ack(), MqError);
      await assert.rejects(own.send(topic, "y"), (error) => isRejected(error, "UNAUTHENTICATED"));
      await own.close();
      const other = mq.subscribe(topic, { group });
      const [again] = await take(other, 1);
      assert.equal(again.id, message.id);
      await again.ack();
      await other.return();
    });
  }
});

describe("leaving", () => {
  test("an abort gives back at once what is in hand", async () => {
    const { topic, group } = await made(mq);
    await mq.sendBatch(topic, numbered(10));
    const stop = new AbortController();
    const subscription = mq.subscribe(topic, { group, signal: stop.signal });
    const reason = new Error("shutting down");
    await assert.rejects(async () => {
      for await (const message of subscription) if (message.json().index === 4) stop.abort(reason);
    }, reason);
    await subscription.close();

    assert.equal(subscription.stats.returned, 10);
    const other = mq.subscribe(topic, { group });
    const messages = await take(other, 10);
    assert.ok(messages.every((message) => message.attempt === 1));
    await Promise.all(messages.map((message) => message.ack()));
    await other.return();
  });

  test("at whatever moment a subscription is closed, it ends and keeps no message", async () => {
    const { topic, group } = await made(mq);
    await mq.sendBatch(topic, numbered(100));
    for (let round = 0; round < 40; round++) {
      const subscription = mq.subscribe(topic, { group });
      await new Promise((resolve) => setTimeout(resolve, round / 2));
      await subscription.close({ drain: 0 });
      assert.deepEqual(await subscription.next(), { value: undefined, done: true });
    }
    await until(async () => (await inflight(group)) === 0, "no message is in flight");
    const subscription = mq.subscribe(topic, { group, prefetch: 100 });
    const messages = await take(subscription, 100);
    assert.ok(messages.every((message) => message.attempt === 1));
    await Promise.all(messages.map((message) => message.ack()));
    await subscription.return();
  });

  test("a process in which everything is closed ends by itself, with nothing open", async () => {
    const { topic, group } = await made(mq);
    const script = `
      const { Client } = await import(process.env.CLIENT);
      const tickets = new Client();
      const clients = [
        tickets,
        new Client({ ticket: async () => (await tickets.tickets.create({})).ticket }),
        new Client({ baseUrl: "http://127.0.0.1:1" }),
      ];
      const [own, page, nobody] = clients;
      const waiting = nobody.subscribe("${topic}", { group: "${group}" });
      waiting.next().catch(() => undefined);
      for (const transport of ["websocket", "rest"]) own.subscribe("${topic}", { group: "${group}", transport });
      const batch = page.batch("${topic}");
      for (let count = 0; count < 100; count++) void batch.send("x");
      for await (const message of own.subscribe("${topic}", { group: "${group}" })) {
        await message.nack({ delay: 0 });
        break;
      }
      await own.send("${topic}", "x", { idempotencyKey: "once" });
      await Promise.all(clients.map((each) => each.close({ drain: 0 })));
      await new Promise((resolve) => setImmediate(resolve));
      const open = process.getActiveResourcesInfo().filter((each) => !/^(TTY|Pipe)Wrap$/.test(each));
      console.log(JSON.stringify(open));
    `;
    const run = promisify(execFile);
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", script], { timeout: 30_000 });
    assert.equal(stdout, "[]\n");
    await until(async () => (await inflight(group)) === 0, "no message is in flight");
  });
});

describe("what is not of the service", () => {
  test("random bytes are MessagePack or a MalformedResponseError, nothing else", () => {
    let seed = 20_261;
    const random = (limit) => (seed = (seed * 48_271) % 2_147_483_647) % limit;
    let malformed = 0;
    for (let round = 0; round < 5_000; round++) {
      const bytes = Uint8Array.from({ length: random(40) }, () => random(256));
      try {
        decode(bytes);
      } catch (error) {
        assert.ok(error instanceof MalformedResponseError, `${Buffer.from(bytes).toString("hex")}: ${error}`);
        malformed += 1;
      }
    }
    assert.ok(malformed > 1_000);
  });

  test("every value comes out of MessagePack as it went in", () => {
    const long = "ü".repeat(70_000);
    const values = [
      null, true, false, 0, 127, 128, 255, 256, 65_536, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER, -1, -33, 1.5, "", "a",
      long, [], Array.from({ length: 70_000 }, (_, index) => index), {}, { a: [{ b: "ü" }] },
      Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`k${index}`, index])),
      new Uint8Array(0), new Uint8Array(70_000).fill(7),
    ];
    for (const value of values) assert.deepEqual(decode(encode(value)), value);
    assert.deepEqual(decode(encode(values)), values);
    const named = decode(encode(JSON.parse('{"__proto__": 1}')));
    assert.deepEqual([Object.keys(named), Object.getPrototypeOf(named)], [["__proto__"], Object.prototype]);
  });

  test("a server that speaks nonsense ends the subscription, or counts as out of reach", async () => {
    const accept = async (head) => {
      const { createHash } = await import("node:crypto");
      const key = /sec-websocket-key: (.*)\r\n/i.exec(head)[1];
      const hash = createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
      return `HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: mq.v1.msgpack\r\nSec-WebSocket-Accept: ${hash}\r\n\r\n`;
    };
    const frame = (...bytes) => async (head) => Buffer.concat([Buffer.from(await accept(head)), Buffer.from(bytes)]);
    const cases = [
      [async () => "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", MalformedResponseError],
      [async () => "HTTP/1.1 401 x\r\nContent-Length: 3\r\n\r\nno!", RejectedError],
      [async () => "SSH-2.0-OpenSSH\r\n", MqError],
      [frame(0x82, 1, 0xc1), MalformedResponseError], // not MessagePack
      [frame(0x82, 1, 0x07), MalformedResponseError], // no array
      [frame(0x82, 2, 0x91, 6), MalformedResponseError], // not a welcome
      [frame(0x81, 2, 0x7b, 0x7d), ConnectionLostError], // text
      [frame(0x82, 0x81, 0, 0, 0, 0, 0), ConnectionLostError], // masked
      [frame(0xc2, 0), ConnectionLostError], // a reserved bit
      [frame(0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0), ConnectionLostError], // 4 GiB
      [frame(0x80, 0), ConnectionLostError], // a fragment of nothing
      [frame(0x88, 2, 0x11, 0x31), ConnectionLostError], // closed with 4401
    ];
    for (const [answer, wanted] of cases) {
      const server = createServer((socket) => {
        socket.on("error", () => undefined);
        socket.once("data", async (head) => socket.write(await answer(head.toString("latin1"))));
      }).listen(0, "127.0.0.1");
      await once(server, "listening");
      const own = new Client({ baseUrl: `http://127.0.0.1:${server.address().port}`, connectTimeout: 0 });
      await assert.rejects(own.subscribe("t", { group: "g" }).next(), wanted);
      await own.close();
      server.close();
    }
  });
});
