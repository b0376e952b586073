// A message on its way out: what the caller gives, in the two forms in which it travels.
import { UsageError } from "./errors.js";
import type { ProduceMessage } from "./generated/api.js";
import type { PackedMessage } from "./generated/frames.js";
import { toMs, type Duration } from "./timing.js";

/** Text and bytes travel as they are, anything else as JSON. */
export type Body = string | Uint8Array | JsonValue;
export type JsonValue = null | boolean | number | string | readonly JsonValue[] | { readonly [name: string]: JsonValue | undefined };

/** What a message has beside its body. */
export interface SendOptions {
  /** What consumers may filter by, up to 255 bytes. */
  tag?: string;
  /** Up to 16 business keys to find the message by. */
  keys?: readonly string[];
  /** Messages of one group stay in order. */
  messageGroup?: string;
  /** Names and values, up to 16 KiB in all. */
  properties?: Readonly<Record<string, string>>;
  /** The number of a queue, instead of the next one in turn. */
  queue?: number;
  /** How long to wait before it is delivered, up to 365 days. Give one of the three at most. */
  delay?: Duration;
  /** When to deliver it; at once if that has passed. */
  deliverAt?: Date | string;
  /** RocketMQ's levels, from 1. */
  delayLevel?: number;
  /** Sending again under the same key within ten minutes stores nothing twice. */
  idempotencyKey?: string;
}

/** One of the messages of `sendBatch`. */
export interface OutgoingMessage extends SendOptions {
  /** 1 byte to 4 MiB. */
  body: Body;
}

/** A checked message; `size` is that of its body in bytes. */
export interface Outgoing {
  readonly body: Uint8Array;
  readonly form: "text" | "json" | "bytes";
  readonly options: SendOptions;
  readonly size: number;
}

const utf8 = new TextEncoder();
const text = new TextDecoder();

export function outgoing(body: Body, options: SendOptions): Outgoing {
  const form = typeof body === "string" ? "text" : body instanceof Uint8Array ? "bytes" : "json";
  const plain = form === "json" ? JSON.stringify(body) : body;
  if (plain === undefined) throw new UsageError("the body is nothing that JSON can express");
  const bytes = typeof plain === "string" ? utf8.encode(plain) : new Uint8Array(plain as Uint8Array);
  if (!bytes.length) throw new UsageError("the body is empty");
  return { body: bytes, form, options, size: bytes.length };
}

/** As an object of JSON text; a JSON body is stored as it is written here. */
export function jsonForm(message: Outgoing): string {
  const { options } = message;
  const fields: ProduceMessage = {
    ...(message.form === "text" ? { body: text.decode(message.body) } : {}),
    ...(message.form === "bytes" ? { body_b64: base64(message.body) } : {}),
    ...(options.tag === undefined ? {} : { tag: options.tag }),
    ...(options.keys?.length ? { keys: [...options.keys] } : {}),
    ...(options.messageGroup === undefined ? {} : { message_group: options.messageGroup }),
    ...(options.properties ? { properties: options.properties } : {}),
    ...(options.queue === undefined ? {} : { queue: options.queue }),
    ...(options.delay === undefined ? {} : { delay_ms: toMs(options.delay) }),
    ...(options.deliverAt === undefined ? {} : { deliver_at: timeOf(options.deliverAt) }),
    ...(options.delayLevel === undefined ? {} : { delay_level: options.delayLevel }),
    ...(options.idempotencyKey === undefined ? {} : { dedup_id: options.idempotencyKey }),
  };
  const shown = JSON.stringify(fields);
  if (message.form !== "json") return shown;
  return `{"body_json":${text.decode(message.body)}${shown === "{}" ? "" : ","}${shown.slice(1)}`;
}

export function packedForm(message: Outgoing): PackedMessage {
  const { options } = message;
  return [
    message.body,
    options.tag ?? null,
    [...(options.keys ?? [])],
    options.messageGroup ?? null,
    { ...options.properties },
    options.queue ?? null,
    options.delayLevel ?? null,
    null,
    options.delay === undefined ? null : toMs(options.delay),
    options.deliverAt === undefined ? null : timeOf(options.deliverAt),
    options.idempotencyKey ?? null,
  ];
}

function timeOf(time: Date | string): string {
  return typeof time === "string" ? time : time.toISOString();
}

function base64(bytes: Uint8Array): string {
  let binary = "";
  for (let start = 0; start < bytes.length; start += 8_192) {
    binary += String.fromCharCode(...bytes.subarray(start, start + 8_192));
  }
  return btoa(binary);
}
