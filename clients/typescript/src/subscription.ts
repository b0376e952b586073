// A subscription: messages come in at one end, and what became of them goes out at the other.
//
//     link ─▶ receive ─▶ buffer ─▶ for await (…) ─▶ message.ack() ─▶ settles of one turn ─▶ link
//
// The link is a WebSocket (`socket-link.ts`) or REST (`rest-link.ts`). Invariants: a message is in
// `held` from when it arrives until it is settled or lost; a lost one that was not handed out yet never
// is; there are never more messages here than the credit that the link has given.
import { LeaseExpiredError, OutcomeUnknownError, UsageError, type MqError } from "./errors.js";
import { Message, type MessageFields, type Settle, type Settler, type SettleKind } from "./message.js";
import { toMs, type Duration } from "./timing.js";

/** Which messages to receive, and how many at a time. */
export interface SubscribeOptions {
  /** Must exist. */
  group: string;
  /** How many messages may be here without being settled: the credit. 64 by default, 1,000 at most. */
  prefetch?: number;
  /** The same in bytes of bodies; 4 MiB by default, 8 MiB at most. */
  prefetchBytes?: number;
  /** `"created || paid"`, or `{ sql: "amount > 5" }`. All members of a group need the same one. */
  filter?: string | { sql: string };
  /** How long a message is leased; by default the group's. */
  lease?: Duration;
  /** The service extends leases for so long while this client is connected; off by default. */
  autoExtend?: Duration;
  /** Subscriptions with the same one are one member of the group. */
  consumerId?: string;
  /** Where the consumer is, for groups that assign queues by zone. */
  consumerZone?: string;
  /** Which client of a broadcast group this is; required there. */
  clientId?: string;
  /** `auto` receives over REST where something between here and the service lets no WebSocket through. */
  transport?: "auto" | "websocket" | "rest";
  /** Ends the loop with the signal's reason, and gives messages back. */
  signal?: AbortSignal;
}

/** Counts since the subscription began, in messages. */
export interface SubscriptionStats {
  /** Deliveries, repeats included. */
  received: number;
  /** Confirmed by the service, like the next two. */
  acked: number;
  nacked: number;
  deadLettered: number;
  /** Settles without effect, or without an answer. */
  settleFailed: number;
  /** Messages whose lease ended, or whose session was lost, before they were settled. */
  lost: number;
  /** Messages that were given back unseen when the subscription was closed. */
  returned: number;
  /** Connections that took the place of a lost one. */
  reconnects: number;
}

/** How a subscription reaches the service. */
export interface Link {
  readonly kind: "websocket" | "rest";
  /** Sends them; each is resolved or rejected at some time, also across a reconnect. */
  settle(settles: Settle[]): void;
  /** Asks for no more messages. */
  stopReceiving(): Promise<void>;
  /** Gives back what is held; the link is over then. */
  release(held: readonly Message[]): Promise<void>;
}

const DRAIN_MS_DEFAULT = 10_000;
/** How long settles that are on their way are waited for when there is nothing else to wait for. */
const CONFIRM_MS = 10_000;
const POLL_MS = 50;
/** After these an ack still counts as long as no other consumer has had the message. */
const LATE_ACK = new Set(["lease_expired", "revoked"]);
/** Later than promises that are ready, so that a loop over a full buffer makes one frame of acks. */
const soon: (call: () => void) => void =
  (globalThis as { setImmediate?: (call: () => void) => void }).setImmediate ?? ((call) => setTimeout(call, 0));

interface Waiter {
  resolve: (result: IteratorResult<Message, undefined>) => void;
  reject: (error: unknown) => void;
}

/** An async iterator over messages, which ends when it is closed. Leaving the loop closes it. */
export class Subscription implements AsyncIterableIterator<Message, undefined>, AsyncDisposable, Settler {
  /** The topic that it reads. */
  readonly topic: string;
  /** The group whose member it is. */
  readonly group: string;
  /** Counts since the subscription began, updated as messages come and are settled. */
  readonly stats: SubscriptionStats = {
    received: 0, acked: 0, nacked: 0, deadLettered: 0, settleFailed: 0, lost: 0, returned: 0, reconnects: 0,
  };
  /** @internal Messages by the handle of their delivery. */
  readonly held = new Map<number | string, Message>();
  #link: Link | undefined;
  #buffer: Message[] = [];
  #next = 0;
  #waiters: Waiter[] = [];
  #settles: Settle[] = [];
  #unconfirmedCount = 0;
  /** Messages that the loop has not seen and will not see, because the subscription is closing. */
  readonly #unseen = new Set<Message>();
  /** Grows when all handles become void; a handle is never used in a later epoch. */
  #epoch = 0;
  #isFlushScheduled = false;
  #closing: Promise<void> | undefined;
  #isOver = false;
  #failure: unknown;
  #changed: (() => void)[] = [];
  readonly #onAbort: () => void;

  /** @internal Use `client.subscribe`. */
  constructor(
    topic: string,
    readonly options: SubscribeOptions,
    readonly onEnd: (subscription: Subscription) => void,
  ) {
    this.topic = topic;
    this.group = options.group;
    this.#onAbort = () => {
      this.#failure ??= options.signal!.reason;
      void this.close({ drain: 0 });
    };
    options.signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** How messages arrive; undefined before the first connection. */
  get transport(): "websocket" | "rest" | undefined {
    return this.#link?.kind;
  }

  // The loop --------------------------------------------------------------------------------------

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Message, undefined>> {
    const message = this.#takeBuffered();
    if (message) return Promise.resolve({ value: message, done: false });
    if (this.#failure !== undefined) return Promise.reject(this.#failure as Error);
    if (this.#closing || this.#isOver) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve, reject) => this.#waiters.push({ resolve, reject }));
  }

  /** Called when a loop is left: gives back whatever is not settled. */
  async return(): Promise<IteratorResult<Message, undefined>> {
    await this.close({ drain: 0 });
    return { value: undefined, done: true };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close({ drain: 0 });
  }

  /**
   * Ends the subscription. The loop gets no more messages; those it has not seen are given back without
   * an attempt counted, at the end of `drain` (10 s by default) together with those that it has seen and
   * not settled by then. Resolves when the service has confirmed everything.
   */
  close(options: { drain?: Duration } = {}): Promise<void> {
    this.#closing ??= this.#close(toMs(options.drain ?? DRAIN_MS_DEFAULT));
    return this.#closing;
  }

  async #close(drainMs: number): Promise<void> {
    for (const each of this.#buffer.slice(this.#next)) if (each.lost === undefined) this.#unseen.add(each);
    this.#buffer = [];
    this.#next = 0;
    this.#wakeAll();
    const deadline = Date.now() + drainMs;
    try {
      if (this.#link && !this.#isOver) {
        await this.#link.stopReceiving();
        while (!this.#isDrained(deadline)) await this.#change(Math.max(deadline - Date.now(), POLL_MS));
        this.stats.returned += this.held.size;
        await this.#link.release([...this.held.values()]);
      }
    } finally {
      this.#end();
    }
  }

  /** Settles that are on their way are waited for even if nothing else is. */
  #isDrained(deadline: number): boolean {
    if (this.#isOver) return true;
    const now = Date.now();
    if (this.#unconfirmedCount) return now >= deadline + CONFIRM_MS;
    return this.held.size <= this.#unseen.size || now >= deadline;
  }

  // The link's side -------------------------------------------------------------------------------

  /** @internal */
  attach(link: Link): void {
    this.#link = link;
  }

  /** @internal */
  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /** @internal Resolves when something changed, or after `waitMs`. */
  changed(waitMs: number): Promise<void> {
    return this.#change(waitMs);
  }

  /** @internal */
  receive(handle: number | string, fields: MessageFields): void {
    const message = new Message(this, this.#epoch, handle, fields);
    this.held.set(handle, message);
    this.stats.received += 1;
    if (this.#closing) {
      this.#unseen.add(message);
      return;
    }
    const waiter = this.#waiters.shift();
    if (waiter) waiter.resolve({ value: message, done: false });
    else this.#buffer.push(message);
  }

  /** @internal These are no longer this consumer's. */
  lose(handles: Iterable<number | string>, why: string): void {
    for (const handle of handles) {
      const message = this.held.get(handle);
      if (!message) continue;
      message.lose(why);
      this.stats.lost += 1;
      this.#unseen.delete(message);
      // One that is being settled stays until the answer, which tells whether that had an effect.
      if (!message.settled) this.held.delete(handle);
    }
    this.#notify();
  }

  /** @internal All handles are void: the service has forgotten the session that they were of. */
  loseAll(why: string): void {
    this.#epoch += 1;
    for (const settle of this.#settles.splice(0)) this.refuse(settle, unknownOutcome(settle));
    this.lose([...this.held.keys()], why);
    this.held.clear();
    this.#notify();
  }

  /** @internal */
  confirm(settle: Settle): void {
    const { message, kind } = settle;
    this.#unconfirmedCount -= 1;
    if (kind !== "extend") {
      this.held.delete(message.handle);
      if (kind === "ack") this.stats.acked += 1;
      else if (kind === "nack") this.stats.nacked += 1;
      else this.stats.deadLettered += 1;
    }
    settle.resolve();
    this.#notify();
  }

  /** @internal */
  refuse(settle: Settle, error: MqError): void {
    this.#unconfirmedCount -= 1;
    this.stats.settleFailed += 1;
    if (settle.kind !== "extend" || error instanceof LeaseExpiredError) this.held.delete(settle.message.handle);
    settle.reject(error);
    this.#notify();
  }

  /** @internal The service does not want this subscription any more. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.#failure ??= error;
    this.loseAll("closed");
    this.#end();
  }

  // Settling --------------------------------------------------------------------------------------

  /** @internal */
  settle(message: Message, kind: SettleKind, ms?: number, reason?: string): Promise<void> {
    const promise = new Promise<void>((resolve, reject) => {
      const settle: Settle = { message, kind, ms, reason, resolve, reject };
      const problem = this.#problemOf(message, kind);
      if (problem) {
        this.stats.settleFailed += 1;
        return reject(problem);
      }
      if (kind !== "extend") message.settled = settle;
      this.#unconfirmedCount += 1;
      this.#settles.push(settle);
      if (!this.#isFlushScheduled) {
        this.#isFlushScheduled = true;
        soon(() => this.#flush());
      }
    });
    // Whoever awaits it gets the error; nobody has to.
    promise.catch(() => undefined);
    return promise;
  }

  #problemOf(message: Message, kind: SettleKind): MqError | undefined {
    if (message.settled) return new UsageError(`message ${message.id} is settled already (${message.settled.kind})`);
    const isLost = message.lost !== undefined && !(kind === "ack" && LATE_ACK.has(message.lost));
    if (isLost || message.epoch !== this.#epoch) {
      return new LeaseExpiredError(`message ${message.id} is no longer this consumer's: ${message.lost ?? "session lost"}`);
    }
    if (this.#isOver) return new LeaseExpiredError(`message ${message.id} was given back: the subscription is closed`);
    return undefined;
  }

  #flush(): void {
    this.#isFlushScheduled = false;
    const settles = this.#settles;
    this.#settles = [];
    if (settles.length) this.#link?.settle(settles);
  }

  // Inside ----------------------------------------------------------------------------------------

  #takeBuffered(): Message | undefined {
    while (this.#next < this.#buffer.length) {
      const message = this.#buffer[this.#next++]!;
      if (this.#next === this.#buffer.length) {
        this.#buffer = [];
        this.#next = 0;
      }
      if (message.lost === undefined) return message;
    }
    return undefined;
  }

  #change(waitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, waitMs);
      this.#changed.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #notify(): void {
    if (this.#changed.length) for (const each of this.#changed.splice(0)) each();
  }

  #wakeAll(): void {
    for (const waiter of this.#waiters.splice(0)) {
      if (this.#failure !== undefined) waiter.reject(this.#failure);
      else waiter.resolve({ value: undefined, done: true });
    }
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.options.signal?.removeEventListener("abort", this.#onAbort);
    this.#wakeAll();
    this.#notify();
    this.onEnd(this);
  }
}

export function unknownOutcome(settle: Settle): OutcomeUnknownError {
  return new OutcomeUnknownError(
    `the ${settle.kind} of message ${settle.message.id} was not confirmed; the message may come again`,
  );
}
