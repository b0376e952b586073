// Responses that are no success, as errors.
import { rejection, type Fault, type RejectedError } from "./errors.js";
import type { Problem } from "./generated/api.js";

const DETAIL_CHARS_MAX = 300;

/** The error of a response; a body that is no problem document is quoted in part. */
export function rejectionOf(status: number, body: Uint8Array): RejectedError {
  const text = new TextDecoder().decode(body);
  const problem = problemOf(text);
  const isRefused = status >= 400 && status < 500;
  if (!problem) {
    const detail = text.replace(/\s+/g, " ").trim().slice(0, DETAIL_CHARS_MAX);
    return rejection({
      code: `HTTP_${status}`,
      detail: detail || "no explanation given",
      status,
      retryable: status === 429 || status >= 500,
      // Something between the client and the service may have sent this after the service had stored.
      stored: isRefused ? false : null,
    });
  }
  return rejection({
    code: problem.code,
    detail: problem.detail ?? "",
    status,
    retryable: problem.retryable ?? false,
    // A 4xx is rejected before anything is written, whether or not the response says so.
    stored: isRefused ? false : (problem.stored ?? null),
    retryAfterMs: problem.retry_after_ms ?? undefined,
    requestId: problem.request_id,
    faults: (problem.errors ?? []) as Fault[],
  });
}

function problemOf(text: string): Partial<Problem> & { code: string } | undefined {
  try {
    const found: unknown = JSON.parse(text);
    if (typeof found === "object" && found !== null && "code" in found && typeof found.code === "string") {
      return found as Partial<Problem> & { code: string };
    }
  } catch {
    // Not of this service.
  }
  return undefined;
}
