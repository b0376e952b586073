// Compiled and run in a project of its own, in which the package is installed.
import { Client, isRejected, type api, type Message, type SendResult, type Stored } from "@mqservice/client";

const mq = new Client();
const topic = `elsewhere-${Date.now()}`;
const created: api.TopicOut = await mq.topics.create(topic, { queues: 1 });
await mq.groups.create(topic, { start_from: "earliest" });
// @ts-expect-error: settings are checked
await mq.topics.create(topic, { queue: 1 }).catch(() => undefined);
// @ts-expect-error: a group is needed
mq.subscribe(topic, {}).return().catch(() => undefined);
// @ts-expect-error: codes are those of the service
if (isRejected(created, "NO_SUCH_CODE")) throw created;

const stored: Stored = await mq.send(created.name, { text: "hello from elsewhere" }, { delay: "1ms" });
const results: SendResult[] = await mq.sendBatch(topic, []);
if (stored.duplicate || results.length) throw new Error("stored before");
for await (const message of mq.subscribe(topic, { group: topic, prefetch: 10 })) {
  const received: Message = message;
  console.log(received.json<{ text: string }>().text);
  await received.ack();
  break;
}
await mq.close();
