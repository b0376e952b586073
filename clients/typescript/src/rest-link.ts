// A subscription over REST, for where no WebSocket gets through: receive, settle, again.
//
// It receives when there is room and the loop has taken what came before. HTTP has no way to give a
// message back without counting an attempt, so closing nacks those that the loop has not seen.
import { OutcomeUnknownError, rejection, MqError } from "./errors.js";
import type { ReceivedMessage, ReceiveOptions, SettleOptions, SettleResponse } from "./generated/api.js";
import type { Message, Settle } from "./message.js";
import type { Rest } from "./rest.js";
import { unknownOutcome, type Link, type Subscription } from "./subscription.js";
import { backoffMs, sleep, toMs } from "./timing.js";

const RECEIVE_MAX = 32;
const WAIT_MS = 20_000;
const LEASE_MS_DEFAULT = 60_000;
const SETTLE_MAX = 1_000;
const SETTLE_TRIES_MAX = 8;
const MARGIN_MS = 10_000;

type Received = ReceivedMessage & { body: Uint8Array };

export class RestLink implements Link {
  readonly kind = "rest";
  #stop = new AbortController();
  readonly #consumerId: string;

  constructor(
    readonly rest: Rest,
    readonly subscription: Subscription,
  ) {
    this.#consumerId = subscription.options.consumerId ?? `ts-${crypto.randomUUID()}`;
  }

  /** Until `stopReceiving`; throws the error that ends the subscription. */
  async run(): Promise<void> {
    const { signal } = this.#stop;
    let attempt = 0;
    let attemptId = crypto.randomUUID();
    while (!signal.aborted) {
      try {
        if (await this.#waitForRoom()) continue;
        const messages = await this.#receive(attemptId);
        attempt = 0;
        attemptId = crypto.randomUUID();
        for (const each of messages) this.#take(each);
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof MqError) || !error.retryable) throw error;
        this.subscription.stats.reconnects += 1;
        // The same id again: it gets the messages of a response that was lost.
        await sleep(backoffMs(++attempt, error.retryAfterMs), signal).catch(() => undefined);
      }
    }
  }

  /** Whether it waited, because there is as much here as may be. */
  async #waitForRoom(): Promise<boolean> {
    const { options, held } = this.subscription;
    if (held.size < this.#receiveMax()) return false;
    const leaseMs = toMs(options.lease ?? LEASE_MS_DEFAULT);
    await this.subscription.changed(leaseMs / 3);
    // Nothing else shows the service that this consumer is alive.
    if (options.autoExtend !== undefined && held.size >= this.#receiveMax()) await this.#post({ consumer_id: this.#consumerId });
    return true;
  }

  #receiveMax(): number {
    return Math.min(this.subscription.options.prefetch ?? RECEIVE_MAX, RECEIVE_MAX);
  }

  async #receive(attemptId: string): Promise<Received[]> {
    const { topic, group, options, held } = this.subscription;
    const asked: Partial<ReceiveOptions> = {
      max: this.#receiveMax() - held.size,
      wait_ms: WAIT_MS,
      consumer_id: this.#consumerId,
      attempt_id: attemptId,
      ...(options.filter === undefined ? {} : { filter: options.filter }),
      ...(options.lease === undefined ? {} : { lease_ms: toMs(options.lease) }),
      ...(options.autoExtend === undefined ? {} : { auto_extend: `${toMs(options.autoExtend)}ms` }),
      ...(options.clientId === undefined ? {} : { client_id: options.clientId }),
      ...(options.consumerZone === undefined ? {} : { consumer_zone: options.consumerZone }),
    };
    const response = (await this.rest.request({
      method: "POST",
      path: this.rest.pathOf("/v1/ns/{ns}/topics/{topic}/groups/{group}:receive", { topic, group }),
      body: JSON.stringify(asked),
      signal: this.#stop.signal,
      timeoutMs: WAIT_MS + MARGIN_MS,
      isPacked: true,
    })) as { messages: Received[] };
    return response.messages;
  }

  #take(message: Received): void {
    const { topic, group } = this.subscription;
    if (this.subscription.held.has(message.receipt)) return;
    this.subscription.receive(message.receipt, {
      id: message.id,
      topic,
      group,
      tag: message.tag ?? null,
      keys: message.keys ?? [],
      messageGroup: message.message_group ?? null,
      properties: message.properties ?? {},
      queue: message.queue,
      offset: message.offset,
      attempt: message.attempt,
      storedAtMs: Date.parse(message.stored_at),
      body: message.body,
    });
  }

  // Settling --------------------------------------------------------------------------------------

  settle(settles: Settle[]): void {
    for (let start = 0; start < settles.length; start += SETTLE_MAX) {
      void this.#settle(settles.slice(start, start + SETTLE_MAX));
    }
  }

  /** Sending the same receipts again is safe, so it is done whatever went wrong. */
  async #settle(settles: Settle[]): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        const result = await this.#post(bodyOf(settles, this.#consumerId));
        const failed = new Map(result.failed.map((each) => [each.receipt, each]));
        for (const settle of settles) {
          const why = failed.get(settle.message.handle as string);
          if (!why) this.subscription.confirm(settle);
          else this.subscription.refuse(settle, rejection({ code: why.code, detail: why.message }));
        }
        return;
      } catch (error) {
        const known = error instanceof MqError ? error : new OutcomeUnknownError(String(error));
        if (known.retryable && attempt < SETTLE_TRIES_MAX) {
          await sleep(backoffMs(attempt, known.retryAfterMs));
          continue;
        }
        const isUnknown = known.retryable;
        for (const settle of settles) this.subscription.refuse(settle, isUnknown ? unknownOutcome(settle) : known);
        return;
      }
    }
  }

  async #post(body: Partial<SettleOptions>): Promise<SettleResponse> {
    const path = this.rest.pathOf("/v1/ns/{ns}/groups/{group}:settle", { group: this.subscription.group });
    return (await this.rest.request({ method: "POST", path, body: JSON.stringify(body) })) as SettleResponse;
  }

  // Closing ---------------------------------------------------------------------------------------

  async stopReceiving(): Promise<void> {
    this.#stop.abort(); // the service gives back what it was about to send
  }

  async release(held: readonly Message[]): Promise<void> {
    const nack = held.map((each) => ({ receipt: each.handle as string, delay_ms: 0, reason: "consumer closed" }));
    for (let start = 0; start < nack.length; start += SETTLE_MAX) {
      // If it fails, their leases expire.
      await this.#post({ nack: nack.slice(start, start + SETTLE_MAX) }).catch(() => undefined);
    }
  }
}

function bodyOf(settles: readonly Settle[], consumerId: string): Partial<SettleOptions> {
  const of = (kind: Settle["kind"]): Settle[] => settles.filter((each) => each.kind === kind);
  const receipt = (settle: Settle): string => settle.message.handle as string;
  const reason = (settle: Settle): { reason?: string } => (settle.reason === undefined ? {} : { reason: settle.reason });
  return {
    consumer_id: consumerId,
    ack: of("ack").map(receipt),
    nack: of("nack").map((each) => ({ receipt: receipt(each), ...(each.ms === undefined ? {} : { delay_ms: each.ms }), ...reason(each) })),
    dead_letter: of("deadLetter").map((each) => ({ receipt: receipt(each), ...reason(each) })),
    extend: of("extend").map((each) => ({ receipt: receipt(each), lease_ms: each.ms ?? 0 })),
  };
}
