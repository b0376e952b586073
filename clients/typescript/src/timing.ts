// Durations, waiting that can be aborted, and how long to wait before trying again.
import { UsageError } from "./errors.js";

/** Milliseconds, or text as the service writes it: `"500ms"`, `"30s"`, `"15m"`, `"12h"`, `"7d"`. */
export type Duration = number | string;

const UNITS_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const BACKOFF_FIRST_MS = 200;
const BACKOFF_CAP_MS = 10_000;

export function toMs(duration: Duration): number {
  if (typeof duration === "number") {
    if (Number.isFinite(duration) && duration >= 0) return Math.round(duration);
  } else {
    const found = /^(\d{1,15})(ms|s|m|h|d)$/.exec(duration);
    if (found) return Number(found[1]) * UNITS_MS[found[2]!]!;
  }
  throw new UsageError(`${JSON.stringify(duration)} is no duration; give milliseconds, or text such as "30s"`);
}

/** Full jitter: evenly spread up to a doubling limit, so that clients do not come back together. */
export function backoffMs(attempt: number, floorMs = 0): number {
  const limit = Math.min(BACKOFF_CAP_MS, BACKOFF_FIRST_MS * 2 ** Math.min(attempt - 1, 20));
  return floorMs + Math.random() * limit;
}

/** Resolves after `ms`; rejects with the reason of `signal` if that comes first. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal!.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** Waits for `promise`; rejects with `makeError()` after `ms`. */
export function within<T>(ms: number, promise: Promise<T>, makeError: () => Error): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(makeError()), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Waits for `promise`; rejects with the reason of `signal` if that comes first. */
export function abortable<T>(promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason as Error);
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
