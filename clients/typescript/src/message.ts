// A message that is leased to this consumer, and the ways to settle it.
import { toMs, type Duration } from "./timing.js";

export interface MessageFields {
  id: string;
  topic: string;
  group: string;
  tag: string | null;
  keys: string[];
  messageGroup: string | null;
  properties: Record<string, string>;
  queue: number;
  offset: number;
  attempt: number;
  storedAtMs: number;
  body: Uint8Array;
}

export type SettleKind = "ack" | "nack" | "deadLetter" | "extend";

/** What became of a message, on its way to the service. */
export interface Settle {
  readonly message: Message;
  readonly kind: SettleKind;
  readonly ms: number | undefined;
  readonly reason: string | undefined;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** Where the settling of a message goes. */
export interface Settler {
  settle(message: Message, kind: SettleKind, ms?: number, reason?: string): Promise<void>;
}

const utf8 = new TextDecoder();

/** A message under a lease, until it is settled. Settling it twice throws UsageError, too late LeaseExpiredError. */
export class Message {
  /** The same in every delivery. */
  readonly id: string;
  /** The topic that it was sent to. */
  readonly topic: string;
  /** The group that reads it. */
  readonly group: string;
  /** What the producer gave it for filters. */
  readonly tag: string | null;
  /** Business keys. */
  readonly keys: readonly string[];
  /** Messages of one message group share a queue, and their order in an ordered group. */
  readonly messageGroup: string | null;
  /** Names and values, as the producer gave them. */
  readonly properties: Readonly<Record<string, string>>;
  /** Number of its queue in the topic, from 0. */
  readonly queue: number;
  /** Its place in the queue, from 0. */
  readonly offset: number;
  /** Number of this delivery, from 1. */
  readonly attempt: number;
  /** When it was stored, in milliseconds since 1970. */
  readonly storedAtMs: number;
  /** The bytes that were sent; JSON in UTF-8 for what was sent as JSON. */
  readonly body: Uint8Array;
  /** What names this delivery to the service: a tag of the subscription, or a receipt. */
  readonly handle: number | string;
  /** @internal In which epoch of the subscription the handle is valid. */
  readonly epoch: number;
  /** @internal */
  settled: Settle | undefined;
  #settler: Settler;
  #lost: string | undefined;
  #abort: AbortController | undefined;

  /** @internal */
  constructor(settler: Settler, epoch: number, handle: number | string, fields: MessageFields) {
    this.#settler = settler;
    this.epoch = epoch;
    this.handle = handle;
    this.id = fields.id;
    this.topic = fields.topic;
    this.group = fields.group;
    this.tag = fields.tag;
    this.keys = fields.keys;
    this.messageGroup = fields.messageGroup;
    this.properties = fields.properties;
    this.queue = fields.queue;
    this.offset = fields.offset;
    this.attempt = fields.attempt;
    this.storedAtMs = fields.storedAtMs;
    this.body = fields.body;
  }

  /** The body as UTF-8. */
  text(): string {
    return utf8.decode(this.body);
  }

  /** The body as JSON; throws SyntaxError where it is none. */
  json<T = unknown>(): T {
    return JSON.parse(this.text()) as T;
  }

  /** Why the message is no longer this consumer's, or undefined while it is. */
  get lost(): string | undefined {
    return this.#lost;
  }

  /** Aborted when the message is lost: then somebody else may have it, and work on it is in vain. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.#lost !== undefined) this.#abort.abort(new Error(`the message was lost: ${this.#lost}`));
    return this.#abort.signal;
  }

  /**
   * Done. Resolves when the service has confirmed it. Acks of one turn of the event loop travel together,
   * so do not wait for each before you take the next message. If you do not await it at all, a failure is
   * not an unhandled rejection; the subscription's `stats` count it.
   */
  ack(): Promise<void> {
    return this.#settler.settle(this, "ack");
  }

  /** Not done: it comes again after `delay`, or by the group's retry policy. */
  nack(options: { delay?: Duration; reason?: string } = {}): Promise<void> {
    const ms = options.delay === undefined ? undefined : toMs(options.delay);
    return this.#settler.settle(this, "nack", ms, options.reason);
  }

  /** Never again: it becomes a dead letter of the group. */
  deadLetter(reason?: string): Promise<void> {
    return this.#settler.settle(this, "deadLetter", undefined, reason);
  }

  /** The lease ends `lease` from now: 1 s to 12 h, and at most the group's `consume_timeout`. */
  extend(lease: Duration): Promise<void> {
    return this.#settler.settle(this, "extend", toMs(lease));
  }

  /** @internal */
  lose(why: string): void {
    if (this.#lost !== undefined) return;
    this.#lost = why;
    this.#abort?.abort(new Error(`the message was lost: ${why}`));
  }
}
