// Sending: requests cut to size, a result for each message, and repeats where they are harmless.
//
// A message is sent again only when the service promised that it was not stored, or when it has an
// `idempotencyKey`. Every message gets exactly one result. What is to stay in order waits while
// something before it is sent again.
import { MqError, OutcomeUnknownError, RejectedError, UnreachableError, rejection } from "./errors.js";
import type { BatchResponse, RejectedResult, StoredResult } from "./generated/api.js";
import { jsonForm, type Outgoing } from "./outgoing.js";
import type { Rest } from "./rest.js";
import { backoffMs, sleep } from "./timing.js";

/** The service accepts 1,000 messages and 4 MiB of bodies; half of that keeps one request short. */
const REQUEST_COUNT_MAX = 1_000;
const REQUEST_BYTES_MAX = 2 * 1024 * 1024;

const NOT_SENT: SendResult = { ok: false, error: new UnreachableError("not sent: a message before it could not be stored") };

/** Where a message is stored. With a delay it has no offset yet, but a handle to recall it by. */
export interface Stored {
  /** The message's id, in every delivery. */
  id: string;
  /** Number of its queue in the topic, from 0. */
  queue: number;
  /** Its place in the queue, from 0; null before it is delivered. */
  offset: number | null;
  /** When the service stored it. */
  storedAt: Date;
  /** `synced`: on disk. `buffered`: on disk within 200 ms. `replicated`: in the replicated log. */
  durability: string;
  /** When it will be delivered; null for now. */
  deliverAt: Date | null;
  /** What `scheduled.cancel` takes; null where there is no delay. */
  recallHandle: string | null;
  /** Whether an earlier send under the same key had stored it already. */
  duplicate: boolean;
}

/** What became of one message of `sendBatch`. */
export type SendResult = { ok: true; stored: Stored } | { ok: false; error: MqError };
export type WireResult = StoredResult | RejectedResult;

/** Sends one request and returns a result for each message, or throws what became of all of them. */
export type Publish = (topic: string, messages: readonly Outgoing[], signal?: AbortSignal) => Promise<WireResult[]>;

export function restPublish(rest: Rest): Publish {
  return async (topic, messages, signal) => {
    const body = `[${messages.map(jsonForm).join(",")}]`;
    const path = rest.pathOf("/v1/ns/{ns}/topics/{topic}/messages:batch", { topic });
    return ((await rest.request({ method: "POST", path, body, signal })) as BatchResponse).results;
  };
}

export class Sender {
  constructor(
    readonly publish: Publish,
    readonly timeoutMs: number,
  ) {}

  /** One result for each message, in their order. Rejects only with the reason of `signal`. */
  async sendAll(topic: string, messages: readonly Outgoing[], signal?: AbortSignal): Promise<SendResult[]> {
    const results = new Array<SendResult>(messages.length);
    const deadline = Date.now() + this.timeoutMs;
    const isOrdered = messages.some((each) => each.options.messageGroup !== undefined);
    let waiting = messages.map((_, index) => index);
    for (let attempt = 1; waiting.length; attempt++) {
      let isHeldUp = false;
      for (const part of parts(waiting, messages)) {
        const found = isHeldUp
          ? part.map(() => NOT_SENT)
          : await this.#request(topic, part.map((index) => messages[index]!), signal);
        part.forEach((index, place) => (results[index] = found[place]!));
        isHeldUp ||= isOrdered && part.some((index) => isHarmless(results[index]!, messages[index]!));
      }
      const again = waiting.filter((index) => isHarmless(results[index]!, messages[index]!));
      const floor = Math.max(0, ...again.map((index) => retryAfter(results[index]!)));
      const wait = backoffMs(attempt, floor);
      if (!again.length || Date.now() + wait > deadline) break;
      await sleep(wait, signal);
      waiting = again;
    }
    return results;
  }

  /** One request, and more where one bad message keeps good ones from being stored. */
  async #request(topic: string, messages: readonly Outgoing[], signal: AbortSignal | undefined): Promise<SendResult[]> {
    try {
      return (await this.publish(topic, messages, signal)).map(resultOf);
    } catch (error) {
      if (!(error instanceof MqError)) throw error;
      const bad = faultyMessages(error, messages.length);
      if (!bad.size) return messages.map(() => ({ ok: false, error }));
      const good = messages.filter((_, index) => !bad.has(index));
      const found = good.length ? await this.#request(topic, good, signal) : [];
      return messages.map((_, index) => (bad.has(index) ? { ok: false, error } : found.shift()!));
    }
  }
}

/** In order, each part within the limits of one request. */
function* parts(indexes: readonly number[], messages: readonly Outgoing[]): Generator<number[]> {
  let part: number[] = [];
  let size = 0;
  for (const index of indexes) {
    const more = messages[index]!.size;
    if (part.length && (part.length >= REQUEST_COUNT_MAX || size + more > REQUEST_BYTES_MAX)) {
      yield part;
      part = [];
      size = 0;
    }
    part.push(index);
    size += more;
  }
  if (part.length) yield part;
}

/** Which messages a rejection of the whole request points to. */
function faultyMessages(error: MqError, count: number): Set<number> {
  if (!(error instanceof RejectedError) || error.retryable || count === 1) return new Set();
  const indexes = error.faults.map((fault) => Number(/^\/(?:m\/)?(\d+)(?:\/|$)/.exec(fault.pointer)?.[1] ?? -1));
  return new Set(indexes.filter((index) => index >= 0 && index < count));
}

function isHarmless(result: SendResult, message: Outgoing): boolean {
  if (result.ok || !result.error.retryable) return false;
  return result.error.stored === false || message.options.idempotencyKey !== undefined;
}

function retryAfter(result: SendResult): number {
  return result.ok ? 0 : (result.error.retryAfterMs ?? 0);
}

function resultOf(item: WireResult): SendResult {
  if ("id" in item && item.id) {
    return {
      ok: true,
      stored: {
        id: item.id,
        queue: item.queue,
        offset: item.offset ?? null,
        storedAt: new Date(item.stored_at),
        durability: item.durability,
        deliverAt: item.deliver_at ? new Date(item.deliver_at) : null,
        recallHandle: item.recall_handle ?? null,
        duplicate: item.duplicate ?? false,
      },
    };
  }
  const failed = item as RejectedResult;
  if (failed.code === "OUTCOME_UNKNOWN") return { ok: false, error: new OutcomeUnknownError(failed.detail) };
  const error = rejection({
    code: failed.code,
    detail: failed.detail,
    status: failed.status,
    retryable: failed.retryable,
    stored: failed.stored ?? null,
  });
  return { ok: false, error };
}

/** The one result of a single send: what is stored, or its error. */
export function storedOf(result: SendResult | undefined): Stored {
  if (result?.ok) return result.stored;
  const error = result?.error ?? new OutcomeUnknownError("the response has no result");
  // A failure that leaves open whether the message is stored is one kind of error, whoever reported it.
  if (error.stored === null && !(error instanceof OutcomeUnknownError)) {
    throw new OutcomeUnknownError(`the outcome is unknown: ${error.message}`, { cause: error });
  }
  throw error;
}
