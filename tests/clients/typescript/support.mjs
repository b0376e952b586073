// What the tests of the TypeScript client share: clients, names, and a TCP proxy with faults.
import { createServer, connect } from "node:net";
import { once } from "node:events";

export const { Client, ...client } = await import(process.env.CLIENT);

let count = 0;
const run = Date.now().toString(36) + process.pid;

/** A topic and a group of this test's own, which are new. */
export async function made(mq, { topic = {}, group = {} } = {}) {
  const name = `ts-${run}-${++count}`;
  await mq.topics.create(name, { queues: 1, ...topic });
  await mq.groups.create(name, { start_from: "earliest", ...group });
  return { topic: name, group: name };
}

/** The next `count` messages, without leaving the loop. */
export async function take(subscription, count) {
  const found = [];
  while (found.length < count) {
    const { value, done } = await subscription.next();
    if (done) break;
    found.push(value);
  }
  return found;
}

/** Looks until `condition` holds; fails with `what` when ten seconds are over. */
export async function until(condition, what) {
  for (let tries = 0; tries < 400; tries++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`it is still not true that ${what}`);
}

/**
 * A proxy before the service. `change(text)` may rewrite the head of each request; `cut()` ends every
 * connection without a word; while `isDown`, it refuses new ones; `losesResponse(head)` tells of which
 * requests the response is lost together with its connection.
 */
export async function proxy({ change = (head) => head, losesResponse = () => false } = {}) {
  const { hostname, port } = new URL(process.env.MQ_BASE_URL);
  const pairs = new Set();
  const made = { isDown: false, connectionCount: 0, upgradeCount: 0 };
  const server = createServer((inner) => {
    made.connectionCount += 1;
    if (made.isDown) return inner.resetAndDestroy();
    const outer = connect(Number(port), hostname);
    const pair = { inner, outer };
    pairs.add(pair);
    let isFirst = true;
    let isLost = false;
    inner.on("data", (chunk) => {
      if (isFirst) {
        isFirst = false;
        if (/^upgrade: *websocket/im.test(chunk.toString("latin1"))) made.upgradeCount += 1;
        chunk = Buffer.from(change(chunk.toString("latin1")), "latin1");
      }
      isLost ||= losesResponse(chunk.toString("latin1"));
      outer.write(chunk);
    });
    outer.on("data", (chunk) => {
      if (isLost) inner.resetAndDestroy();
      else inner.write(chunk);
    });
    for (const [one, other] of [[inner, outer], [outer, inner]]) {
      one.on("error", () => undefined);
      one.on("close", () => {
        pairs.delete(pair);
        other.destroy();
      });
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return Object.assign(made, {
    url: `http://127.0.0.1:${server.address().port}`,
    cut: () => pairs.forEach(({ inner, outer }) => (inner.resetAndDestroy(), outer.resetAndDestroy())),
    close: async () => {
      made.isDown = true;
      pairs.forEach(({ inner, outer }) => (inner.destroy(), outer.destroy()));
      server.close();
      await once(server, "close");
    },
  });
}
