// Many single sends as few requests: what comes within `linger` goes together.
//
//     send ─▶ waiting ── full, or linger is over ─▶ request (a few at a time) ─▶ the result of each send
//
// Messages with a message group go one request at a time, so that their order here is their order in
// the topic.
import { UsageError } from "./errors.js";
import { outgoing, type Body, type Outgoing, type SendOptions } from "./outgoing.js";
import { storedOf, type Sender, type SendResult, type Stored } from "./sender.js";
import { toMs, type Duration } from "./timing.js";

/** When the requests of a batch are sent. */
export interface BatchOptions {
  /** How long the first message of a request waits for others; 5 ms by default. */
  linger?: Duration;
  /** A request goes as soon as it has so many messages, 500 by default… */
  countMax?: number;
  /** …or so many bytes of bodies, 1 MiB by default. */
  bytesMax?: number;
  /** How many requests may be under way at the same time; 4 by default. */
  inFlightMax?: number;
  /** `ready` waits while so many messages have no result yet; 10,000 by default. */
  pendingMax?: number;
}

const FAILURES_MAX = 100;

interface Pending {
  message: Outgoing;
  resolve: (stored: Stored) => void;
  reject: (error: unknown) => void;
}

/** Messages for one topic, sent together. */
export class Batch implements AsyncDisposable {
  #waiting: Pending[] = [];
  #waitingBytes = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #inFlight = 0;
  #pendingCount = 0;
  #isOrdered = false;
  #isClosed = false;
  #wake: (() => void)[] = [];
  #failureCount = 0;
  readonly #failures: unknown[] = [];
  readonly #lingerMs: number;
  readonly #countMax: number;
  readonly #bytesMax: number;
  readonly #inFlightMax: number;
  readonly #pendingMax: number;

  constructor(
    readonly topic: string,
    readonly sender: Sender,
    options: BatchOptions,
    readonly onClosed: () => void,
  ) {
    this.#lingerMs = toMs(options.linger ?? 5);
    this.#countMax = options.countMax ?? 500;
    this.#bytesMax = options.bytesMax ?? 1024 * 1024;
    this.#inFlightMax = options.inFlightMax ?? 4;
    this.#pendingMax = options.pendingMax ?? 10_000;
  }

  /**
   * Resolves when the message is stored. You need not await each of them: a failure that nobody awaits
   * is not an unhandled rejection, and `close` throws.
   */
  send(body: Body, options: SendOptions = {}): Promise<Stored> {
    if (this.#isClosed) throw new UsageError("the batch is closed");
    if (this.#pendingCount >= this.#pendingMax) {
      throw new UsageError(`${this.#pendingCount} messages have no result yet; await ready() before you send more`);
    }
    const message = outgoing(body, options);
    const result = new Promise<Stored>((resolve, reject) => {
      this.#waiting.push({ message, resolve, reject });
    });
    result.catch((error: unknown) => {
      this.#failureCount += 1;
      if (this.#failures.length < FAILURES_MAX) this.#failures.push(error);
    });
    this.#pendingCount += 1;
    this.#waitingBytes += message.size;
    this.#isOrdered ||= options.messageGroup !== undefined;
    if (this.#isFull) this.#cut();
    else this.#timer ??= setTimeout(() => this.#cut(), this.#lingerMs);
    return result;
  }

  /** Resolves when there is room for more. */
  async ready(): Promise<void> {
    while (this.#pendingCount >= this.#pendingMax) await this.#nextResult();
  }

  /** Sends what is waiting; resolves when every message has its result. */
  async flush(): Promise<void> {
    this.#cut();
    while (this.#pendingCount) await this.#nextResult();
  }

  /** Flushes. Throws an AggregateError if any send of this batch failed, with the first 100 errors. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.flush();
    this.onClosed();
    if (this.#failureCount) {
      throw new AggregateError(this.#failures, `${this.#failureCount} messages were not stored, or nobody knows`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  get #isFull(): boolean {
    return this.#waiting.length >= this.#countMax || this.#waitingBytes >= this.#bytesMax;
  }

  #nextResult(): Promise<void> {
    return new Promise((resolve) => this.#wake.push(resolve));
  }

  #cut(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const roomFor = this.#isOrdered ? 1 : this.#inFlightMax;
    if (!this.#waiting.length || this.#inFlight >= roomFor) return;
    const part = this.#waiting;
    this.#waiting = [];
    this.#waitingBytes = 0;
    this.#inFlight += 1;
    void this.#send(part);
  }

  async #send(part: Pending[]): Promise<void> {
    let results: SendResult[];
    try {
      results = await this.sender.sendAll(this.topic, part.map((each) => each.message));
      part.forEach((each, index) => settle(each, results[index]));
    } catch (error) {
      part.forEach((each) => each.reject(error));
    }
    this.#inFlight -= 1;
    this.#pendingCount -= part.length;
    // What came meanwhile has waited for as long as the request took.
    if (this.#waiting.length && !this.#timer) this.#cut();
    for (const wake of this.#wake.splice(0)) wake();
  }
}

function settle(pending: Pending, result: SendResult | undefined): void {
  try {
    pending.resolve(storedOf(result));
  } catch (error) {
    pending.reject(error);
  }
}
