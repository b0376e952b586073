// Everything that a program does with queues, by AWS's SDK for JavaScript as it is.

import assert from "node:assert/strict";

import {
  ChangeMessageVisibilityCommand,
  CreateQueueCommand,
  DeleteMessageCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  QueueDoesNotExist,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  SQSClient,
  StartMessageMoveTaskCommand,
} from "@aws-sdk/client-sqs";

const { PREFIX, AWS_ENDPOINT_URL_SQS, AWS_REGION, AWS_ACCESS_KEY_ID } = process.env;
const sqs = new SQSClient({});

const create = async (name, Attributes = {}) =>
  (await sqs.send(new CreateQueueCommand({ QueueName: `${PREFIX}-${name}`, Attributes }))).QueueUrl;
const send = (QueueUrl, MessageBody, more = {}) =>
  sqs.send(new SendMessageCommand({ QueueUrl, MessageBody, ...more }));
const receive = async (QueueUrl, WaitTimeSeconds, MaxNumberOfMessages = 10) => {
  const asked = { MessageAttributeNames: ["All"], MessageSystemAttributeNames: ["All"] };
  const command = { QueueUrl, WaitTimeSeconds, MaxNumberOfMessages, ...asked };
  return (await sqs.send(new ReceiveMessageCommand(command))).Messages ?? [];
};
const remove = (QueueUrl, { ReceiptHandle }) =>
  sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
const giveBack = (QueueUrl, { ReceiptHandle }) =>
  sqs.send(new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 0 }));

const dead = await create("dead");
const of = { QueueUrl: dead, AttributeNames: ["QueueArn"] };
const arn = (await sqs.send(new GetQueueAttributesCommand(of))).Attributes.QueueArn;
const queue = await create("orders", {
  RedrivePolicy: JSON.stringify({ deadLetterTargetArn: arn, maxReceiveCount: 2 }),
});
const fifo = await create("orders.fifo", { FifoQueue: "true" });
console.log("created");

const attributes = {
  color: { DataType: "String", StringValue: "größe" },
  count: { DataType: "Number.int", StringValue: "42" },
  bytes: { DataType: "Binary", BinaryValue: new Uint8Array([0, 255, 1]) },
};
const sent = await send(queue, "with attributes", { MessageAttributes: attributes });
const [first] = await receive(queue, 5);
assert.equal(first.MessageId, sent.MessageId);
assert.equal(first.MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
assert.deepEqual(first.MessageAttributes, attributes);
assert.equal(first.Attributes.ApproximateReceiveCount, "1");
await remove(queue, first);
console.log("attributes");

const entries = ["a", "\u0000", "b"].map((MessageBody, at) => ({ Id: `${at}`, MessageBody }));
const batch = await sqs.send(new SendMessageBatchCommand({ QueueUrl: queue, Entries: entries }));
assert.deepEqual(batch.Successful.map(({ Id }) => Id), ["0", "2"]);
const [failed] = batch.Failed;
assert.deepEqual([failed.Id, failed.Code, failed.SenderFault], ["1", "InvalidMessageContents", true]);
const found = [];
while (found.length < 2) found.push(...(await receive(queue, 5)));
assert.deepEqual(found.map(({ Body }) => Body).sort(), ["a", "b"]);
for (const message of found) await remove(queue, message);
console.log("batch");

assert.deepEqual(await receive(queue, 1), []);
const waiting = receive(queue, 20);
await sqs.send(new GetQueueAttributesCommand(of)); // by now the other request waits
await send(queue, "late");
const [late] = await waiting;
assert.equal(late.Body, "late");
console.log("long poll");

await giveBack(queue, late);
const [again] = await receive(queue, 5);
assert.equal(again.Attributes.ApproximateReceiveCount, "2");
console.log("visibility");

await giveBack(queue, again);
const [letter] = await receive(dead, 20);
assert.equal(letter.MessageId, late.MessageId);
await giveBack(dead, letter);
await sqs.send(new StartMessageMoveTaskCommand({ SourceArn: arn }));
const [redriven] = await receive(queue, 20);
assert.equal(redriven.Body, "late");
await remove(queue, redriven);
console.log("redrive");

const numbers = [];
for (const number of ["1", "2", "2", "3"]) {
  const more = { MessageGroupId: "g", MessageDeduplicationId: number };
  numbers.push((await send(fifo, number, more)).SequenceNumber);
}
assert.deepEqual([...numbers].sort(), numbers);
const ordered = await receive(fifo, 5);
assert.deepEqual(ordered.map(({ Body }) => Body), ["1", "2", "3"]);
for (const message of ordered) await remove(fifo, message);
console.log("fifo");

const stranger = new SQSClient({
  endpoint: AWS_ENDPOINT_URL_SQS,
  region: AWS_REGION,
  credentials: { accessKeyId: AWS_ACCESS_KEY_ID, secretAccessKey: "wrong" },
});
const command = new SendMessageCommand({ QueueUrl: queue, MessageBody: "no" });
await assert.rejects(stranger.send(command), { name: "SignatureDoesNotMatch" });
await assert.rejects(send(`${queue}-none`, "no"), QueueDoesNotExist);
console.log("refused");

for (const QueueUrl of [queue, dead, fifo]) await sqs.send(new DeleteQueueCommand({ QueueUrl }));
await assert.rejects(receive(queue, 0), QueueDoesNotExist);
console.log("deleted");
