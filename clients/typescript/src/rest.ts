// Requests to the service over `fetch`, with what is known when one fails.
//
//     UnreachableError: nothing was sent.  RejectedError: the service answered.
//     OutcomeUnknownError: it was sent, and nobody knows.
import { MalformedResponseError, MqError, OutcomeUnknownError, UnreachableError, UsageError } from "./errors.js";
import { decode } from "./msgpack.js";
import { rejectionOf } from "./problems.js";

export type Fetch = typeof globalThis.fetch;

/** What every operation of the control plane takes. */
export interface CallOptions {
  /** Aborts the request; the promise is rejected with its reason. */
  signal?: AbortSignal;
  /** Of this request; by default that of the client. */
  timeoutMs?: number;
  /** A POST below a namespace that is sent again under the same key within a day is executed once. */
  idempotencyKey?: string;
}

/** An operation of the control plane: verb, path, what fills its places, options, query, body. */
export type Call = <T>(
  method: string,
  path: string,
  places: Record<string, string | number>,
  options: CallOptions,
  queries?: string[],
  body?: unknown,
) => Promise<T>;

export interface RestRequest {
  method: string;
  path: string;
  body?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  timeoutMs?: number | undefined;
  /** Ask for MessagePack, in which bodies are bytes. */
  isPacked?: boolean;
}

// What `fetch` of Node says where not a byte has left.
const NOTHING_SENT = new Set([
  "ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "EADDRNOTAVAIL", "UND_ERR_CONNECT_TIMEOUT",
  "bad port",
]);

export class Rest {
  constructor(
    readonly baseUrl: string,
    readonly namespace: string,
    readonly apiKey: string | undefined,
    readonly fetch: Fetch,
    readonly timeoutMs: number,
  ) {}

  readonly call: Call = async <T>(
    method: string,
    path: string,
    places: Record<string, string | number>,
    options: CallOptions,
    queries: string[] = [],
    body?: unknown,
  ): Promise<T> => {
    const headers: Record<string, string> = {};
    if (options.idempotencyKey !== undefined) headers["idempotency-key"] = options.idempotencyKey;
    const query = new URLSearchParams();
    for (const name of queries) {
      const value = (options as Record<string, unknown>)[name];
      if (value !== undefined && value !== null) query.set(name, String(value));
    }
    const tail = query.size ? `?${query}` : "";
    return (await this.request({
      method,
      path: this.pathOf(path, places) + tail,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: options.signal,
      timeoutMs: options.timeoutMs,
    })) as T;
  };

  pathOf(template: string, places: Record<string, string | number>): string {
    return template.replace(/\{(\w+)\}/g, (_, name: string) => {
      const value = name === "ns" ? this.namespace : places[name];
      if (value === undefined || value === "") throw new UsageError(`${template} needs a ${name}`);
      // Dots would leave this place of the address: whoever resolves it takes them for folders.
      if (value === "." || value === "..") throw new UsageError(`${value} is no ${name}`);
      return encodeURIComponent(value);
    });
  }

  /** The decoded body of the response, undefined for none. */
  async request(request: RestRequest): Promise<unknown> {
    if (!this.apiKey) throw new UsageError("this needs an API key; a ticket opens a WebSocket only");
    const { method, path, signal } = request;
    const what = `${method} ${path.split("?")[0]}`;
    const timeout = AbortSignal.timeout(request.timeoutMs ?? this.timeoutMs);
    try {
      const response = await this.fetch(this.baseUrl + path, {
        method,
        headers: {
          authorization: `Bearer ${this.apiKey}`,
          accept: request.isPacked ? "application/msgpack" : "application/json",
          ...(request.body === undefined ? {} : { "content-type": "application/json" }),
          ...request.headers,
        },
        ...(request.body === undefined ? {} : { body: request.body }),
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
        // A redirect would take the key elsewhere.
        redirect: "error",
      });
      const content = new Uint8Array(await response.arrayBuffer());
      if (!response.ok) throw this.#failure(what, response.status, content);
      if (!content.length) return undefined;
      return request.isPacked ? decode(content) : parse(what, content);
    } catch (error) {
      if (error instanceof MqError) throw error;
      if (signal?.aborted) throw signal.reason;
      if (timeout.aborted) throw new OutcomeUnknownError(`${what}: no response in time; the outcome is unknown`);
      throw this.#withoutResponse(what, error);
    }
  }

  #failure(what: string, status: number, content: Uint8Array): MqError {
    const error = rejectionOf(status, content);
    if (error.code === "OUTCOME_UNKNOWN") return new OutcomeUnknownError(`${what}: ${error.message}`);
    return error;
  }

  #withoutResponse(what: string, error: unknown): MqError {
    const causes = causesOf(error);
    const cause = causes.find((each) => NOTHING_SENT.has(each));
    if (cause) return new UnreachableError(`cannot reach ${this.baseUrl}: ${cause}`);
    return new OutcomeUnknownError(`${what}: no response (${causes.at(-1)}); the outcome is unknown`);
  }
}

function parse(what: string, content: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(content)) as unknown;
  } catch {
    throw new MalformedResponseError(`${what}: the response is no JSON`);
  }
}

/** The codes, else the messages, of an error and of its causes: several where several addresses were tried. */
function causesOf(error: unknown): string[] {
  if (!(error instanceof Error)) return error === undefined ? [] : [String(error)];
  const { code } = error as Error & { code?: unknown };
  const inner = error instanceof AggregateError ? error.errors.flatMap(causesOf) : [];
  return [typeof code === "string" ? code : error.message, ...inner, ...causesOf(error.cause)];
}
