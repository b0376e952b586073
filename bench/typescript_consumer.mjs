// A consumer for bench/python_client.py: acks all it gets, and says how many acks are confirmed.
const { Client } = await import(process.env.CLIENT);
const { TOPIC: topic, GROUP: group, PREFETCH: prefetch } = process.env;
const mq = new Client();
let confirmed = 0;
const confirm = () => void confirmed++;
setInterval(() => console.log(confirmed), 20);
for await (const message of mq.subscribe(topic, { group, prefetch: Number(prefetch) })) {
  if (message.body.length === 0) throw new Error("a body is missing");
  message.ack().then(confirm);
}
