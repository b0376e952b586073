// What can go wrong between the client and the service, as one tree.
//
//     MqError
//     ├── UsageError             the call makes no sense; nothing was sent
//     ├── UnreachableError       no connection; nothing was sent
//     ├── OutcomeUnknownError    it was sent and no answer came: nobody knows what became of it
//     ├── RejectedError          the service said no, with a code
//     │   └── LeaseExpiredError  the message is no longer this consumer's
//     ├── ConnectionLostError    the WebSocket was closed, with its close code
//     └── MalformedResponseError bytes that are not what the service promises
import { REMEDIES, type ErrorCode } from "./generated/api.js";

export type { ErrorCode } from "./generated/api.js";

/** Root of all errors of this package; an aborted call throws the reason of its signal instead. */
export class MqError extends Error {
  /** Whether the same call may succeed later. */
  readonly retryable: boolean = false;
  /** Of a send: false is a promise that nothing of it will be delivered, null that nobody knows. */
  readonly stored: boolean | null = false;
  /** How long the service asked to wait before the next try. */
  readonly retryAfterMs: number | undefined = undefined;

  override get name(): string {
    return this.constructor.name;
  }
}

/** The call makes no sense; nothing was sent. */
export class UsageError extends MqError {}

/** There is no connection; nothing was sent. */
export class UnreachableError extends MqError {
  override readonly retryable: boolean = true;
}

/**
 * A send, or the settling of a message, that may or may not have happened. A send with an
 * `idempotencyKey` is repeated automatically and ends here only after `sendTimeout`.
 */
export class OutcomeUnknownError extends MqError {
  override readonly retryable: boolean = true;
  override readonly stored: boolean | null = null;
}

export interface Rejection {
  code: ErrorCode | (string & {});
  detail: string;
  status?: number;
  retryable?: boolean;
  stored?: boolean | null;
  retryAfterMs?: number | undefined;
  requestId?: string | undefined;
  faults?: readonly Fault[];
}

/** One mistake in a request, and where it is: `/1/body_b64`. */
export interface Fault {
  /** A JSON pointer into the body. */
  pointer: string;
  /** What is wrong, for programs. */
  code: string;
  /** The same for people. */
  detail: string;
}

/** The service said no. Branch on `code`; `remedy` says what to do about it. */
export class RejectedError extends MqError {
  /** What is wrong: one of the codes that the service documents. */
  readonly code: ErrorCode | (string & {});
  /** The HTTP status; 0 for a rejection on a WebSocket. */
  readonly status: number;
  /** What the service calls this request in its logs. */
  readonly requestId: string | undefined;
  /** Each mistake in the request. */
  readonly faults: readonly Fault[];
  override readonly retryable: boolean;
  override readonly stored: boolean | null;
  override readonly retryAfterMs: number | undefined;

  constructor(rejection: Rejection) {
    const { code, detail, status = 0, requestId } = rejection;
    const places = (rejection.faults ?? []).map((each) => `${each.pointer} ${each.detail || each.code}`.trim());
    super(
      `${code}${status ? ` (HTTP ${status})` : ""}: ${detail}` +
        (places.length ? ` (${places.join("; ")})` : "") +
        (requestId ? ` [request ${requestId}]` : ""),
    );
    this.code = code;
    this.status = status;
    this.requestId = requestId;
    this.faults = rejection.faults ?? [];
    this.retryable = rejection.retryable ?? false;
    this.stored = rejection.stored ?? false;
    this.retryAfterMs = rejection.retryAfterMs;
  }

  /** One sentence: what to do about it. */
  get remedy(): string | undefined {
    return (REMEDIES as Record<string, string>)[this.code];
  }
}

/** The message is no longer this consumer's: its lease ended, or it was settled elsewhere. */
export class LeaseExpiredError extends RejectedError {
  constructor(detail: string) {
    super({ code: "LEASE_EXPIRED", detail });
  }
}

/** Close codes after which the service does not want this client back. */
const FINAL_CLOSE_CODES = new Set([1008, 4400, 4401, 4403, 4404, 4413]);

/** The WebSocket was closed for good. */
export class ConnectionLostError extends MqError {
  /** Of the WebSocket. */
  readonly closeCode: number;
  override readonly retryable: boolean;
  override readonly retryAfterMs: number | undefined;

  constructor(closeCode: number, reason: string, retryAfterMs?: number) {
    super(`the connection was closed with ${closeCode}${reason ? ` (${reason})` : ""}`);
    this.closeCode = closeCode;
    this.retryable = !FINAL_CLOSE_CODES.has(closeCode);
    this.retryAfterMs = retryAfterMs;
  }
}

/** The response is none that the service gives: something between answered. */
export class MalformedResponseError extends MqError {
  override readonly stored: boolean | null = null;
}

/** Whether `error` is a rejection by the service with this code. */
export function isRejected(error: unknown, code: ErrorCode): error is RejectedError {
  return error instanceof RejectedError && error.code === code;
}

export function rejection(given: Rejection): RejectedError {
  return given.code === "LEASE_EXPIRED" ? new LeaseExpiredError(given.detail) : new RejectedError(given);
}
