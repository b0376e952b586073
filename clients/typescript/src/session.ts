// One WebSocket session, and staying connected.
//
//     stayConnected ─▶ openSession ─▶ [Session] ─▶ command(…) ─▶ the reply
//            ▲                            └──────▶ onPush(frame), pings already answered
//            └── backoff ◀── closed ◀─────┘
//
// Silence longer than the service's ping interval and grace together means that the line is dead.
import { ConnectionLostError, MalformedResponseError, MqError, RejectedError, UnreachableError, rejection } from "./errors.js";
import { OP, SUBPROTOCOL, type Command, type PackLimits, type PackResume, type Push } from "./generated/frames.js";
import { decode, encode } from "./msgpack.js";
import { openSocket, sendsKeys } from "./open-socket.js";
import { BROKEN, type Socket, type WebSocketClass } from "./socket.js";
import { backoffMs, sleep } from "./timing.js";

const OPEN_TIMEOUT_MS = 10_000;
const FRAME_BYTES_MAX = 4 * 1024 * 1024;
const HELLO_ID = 1;
const TICKETS_REFUSED_MAX = 3;
const TAKEN_OVER = 4409;

/** Where to connect, and as whom. */
export interface Connector {
  readonly url: string;
  readonly apiKey: string | undefined;
  readonly webSocket: WebSocketClass | undefined;
  readonly clientName: string;
  /** Tries before the first connection end after so long; later ones do not. */
  readonly connectTimeoutMs: number;
  /** A fresh ticket for each connection, where the key cannot travel in the handshake. */
  ticket(signal: AbortSignal): Promise<string>;
  readonly hasTickets: boolean;
}

export class Session {
  readonly id: string;
  readonly resumeToken: string | null;
  readonly isResumed: boolean;
  readonly limits: PackLimits;
  /** Resolves when the connection is gone, with why. */
  readonly closed: Promise<MqError>;
  /** Whether messages or replies came; a connection that only opens and breaks makes no progress. */
  hasProgressed = false;
  #nextId = HELLO_ID + 1;
  #replies = new Map<number, { resolve: (result: unknown) => void; reject: (error: MqError) => void }>();
  #retryAfterMs: number | undefined;
  #error: MqError | undefined;
  #heardAt = Date.now();

  /** @internal */
  constructor(
    readonly socket: Socket,
    readonly wire: Wire,
    welcome: Extract<Push, [op: typeof OP.welcome, ...rest: unknown[]]>,
    readonly onPush: (push: Push) => void,
  ) {
    this.id = welcome[2];
    this.resumeToken = welcome[3] ?? null;
    this.isResumed = welcome[4] ?? false;
    this.limits = welcome[7] ?? [];
    const silenceMs = (welcome[5] ?? 25_000) + (welcome[6] ?? 10_000);
    const watch = setInterval(() => {
      if (Date.now() - this.#heardAt > silenceMs) this.#fail(new ConnectionLostError(BROKEN, `nothing heard for ${silenceMs} ms`));
    }, silenceMs / 4);
    this.closed = wire.closed.then((error) => {
      clearInterval(watch);
      const why = this.#error ?? (error.retryAfterMs === undefined ? withWait(error, this.#retryAfterMs) : error);
      for (const reply of this.#replies.values()) reply.reject(new ConnectionLostError(BROKEN, why.message));
      this.#replies.clear();
      return why;
    });
  }

  /** Sends a command; resolves with its result. Rejects with ConnectionLostError if nobody knows. */
  command(make: (id: number) => Command): Promise<unknown> {
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#replies.set(id, { resolve, reject });
      this.socket.send(encode(make(id)));
    });
  }

  close(): Promise<MqError> {
    this.socket.close();
    return this.closed;
  }

  destroy(): void {
    this.socket.destroy();
  }

  /** @internal */
  take(pushes: Push[]): void {
    this.#heardAt = Date.now();
    for (const push of pushes) {
      try {
        this.#takeOne(push);
      } catch (error) {
        this.#fail(error instanceof MqError ? error : new MalformedResponseError(String(error)));
        return;
      }
    }
  }

  #takeOne(push: Push): void {
    switch (push[0]) {
      case OP.ping:
        return this.socket.send(encode([OP.pong]));
      case OP.ok:
        this.hasProgressed = true;
        return this.#reply(push[1])?.resolve(push[2]);
      case OP.err: {
        const error = rejection({ code: push[2], detail: push[4], retryable: push[3] });
        if (push[1] !== null) return this.#reply(push[1])?.reject(error);
        return this.#fail(error);
      }
      case OP.goaway:
        this.#retryAfterMs = push[3];
        return;
      default:
        this.hasProgressed = true;
        this.onPush(push);
    }
  }

  #reply(id: number): { resolve: (result: unknown) => void; reject: (error: MqError) => void } | undefined {
    const reply = this.#replies.get(id);
    this.#replies.delete(id);
    return reply;
  }

  #fail(error: MqError): void {
    this.#error ??= error;
    this.socket.destroy();
  }
}

function withWait(error: MqError, retryAfterMs: number | undefined): MqError {
  if (!(error instanceof ConnectionLostError) || retryAfterMs === undefined) return error;
  return new ConnectionLostError(error.closeCode, error.message, retryAfterMs);
}

/** Frames of a connection, before and after there is a session to take them. */
class Wire {
  onFrames: (pushes: Push[]) => void = () => undefined;
  readonly closed: Promise<MqError>;
  #close: (error: MqError) => void = () => undefined;

  constructor() {
    this.closed = new Promise((resolve) => (this.#close = resolve));
  }

  readonly handlers = {
    onMessage: (bytes: Uint8Array): void => {
      try {
        this.onFrames(framesOf(bytes));
      } catch (error) {
        this.#close(error instanceof MqError ? error : new MalformedResponseError(String(error)));
        this.socket?.destroy();
      }
    },
    onClose: (code: number, reason: string): void => this.#close(new ConnectionLostError(code, reason)),
  };

  socket: Socket | undefined;
}

function framesOf(bytes: Uint8Array): Push[] {
  const decoded = decode(bytes);
  if (!Array.isArray(decoded)) throw new MalformedResponseError("a frame is no array");
  return (Array.isArray(decoded[0]) ? decoded : [decoded]) as Push[];
}

/** Connects and exchanges hello and welcome. */
async function openSession(
  connector: Connector,
  resume: PackResume | undefined,
  resumeTtlMs: number,
  onPush: (push: Push) => void,
  signal: AbortSignal,
): Promise<Session> {
  const protocols = [SUBPROTOCOL as string];
  const hasKey = sendsKeys(connector.webSocket) && connector.apiKey !== undefined;
  if (!hasKey) protocols.push(`ticket.${await connector.ticket(signal)}`);
  const wire = new Wire();
  const socket = await openSocket(
    {
      url: connector.url,
      protocols,
      authorization: hasKey ? `Bearer ${connector.apiKey}` : undefined,
      timeoutMs: OPEN_TIMEOUT_MS,
      signal,
      handlers: wire.handlers,
    },
    connector.webSocket,
  );
  wire.socket = socket;
  const timer = setTimeout(() => socket.destroy(), OPEN_TIMEOUT_MS);
  const onAbort = (): void => socket.destroy();
  signal.addEventListener("abort", onAbort);
  try {
    return await new Promise<Session>((resolve, reject) => {
      wire.closed.then(reject, reject);
      wire.onFrames = (pushes) => {
        const [first, ...rest] = pushes;
        if (first?.[0] === OP.err) return reject(rejection({ code: first[2], detail: first[4], retryable: first[3] }));
        if (first?.[0] !== OP.welcome) return reject(new MalformedResponseError("the reply to hello is no welcome"));
        const session = new Session(socket, wire, first, onPush);
        wire.onFrames = (more) => session.take(more);
        resolve(session);
        session.take(rest);
      };
      socket.send(encode([OP.hello, HELLO_ID, connector.clientName, resume ?? null, FRAME_BYTES_MAX, resumeTtlMs]));
    });
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", onAbort);
  }
}

/** Who needs a session, again and again. */
export interface SessionUser {
  readonly signal: AbortSignal;
  readonly resumeTtlMs: number;
  resume(): PackResume | undefined;
  onPush(push: Push): void;
  /** Makes the session usable; its failure counts as a failure to connect. */
  onOpen(session: Session): Promise<void>;
  onClosed(): void;
  /** Told before each wait. */
  onRetry(error: MqError): void;
}

/** Until the user's signal; throws the error after which trying again is of no use. */
export async function stayConnected(connector: Connector, user: SessionUser): Promise<void> {
  const startedAt = Date.now();
  let attempt = 0;
  let wasConnected = false;
  let ticketsRefused = 0;
  let mayResume = true;
  while (!user.signal.aborted) {
    let error: unknown;
    let session: Session | undefined;
    try {
      const resume = mayResume ? user.resume() : undefined;
      session = await openSession(connector, resume, user.resumeTtlMs, (push) => user.onPush(push), user.signal);
      mayResume = true;
      ticketsRefused = 0;
      await user.onOpen(session);
      wasConnected = true;
      // It was told to stop while this was under way, and did not know of the session yet.
      if (user.signal.aborted) void session.close();
      error = await session.closed;
    } catch (caught) {
      error = caught;
      session?.destroy();
    }
    user.onClosed();
    if (user.signal.aborted) return;
    if (!(error instanceof MqError)) throw error;
    if (session?.hasProgressed) attempt = 0;
    if (error instanceof ConnectionLostError && error.closeCode === TAKEN_OVER) mayResume = false;
    const isTicketRefused = connector.hasTickets && error instanceof RejectedError && error.status === 401;
    if (isTicketRefused && ++ticketsRefused < TICKETS_REFUSED_MAX) error = new UnreachableError((error as MqError).message);
    const failure = error as MqError;
    attempt += 1;
    const wait = backoffMs(attempt, failure.retryAfterMs);
    const isTooLate = !wasConnected && Date.now() + wait - startedAt > connector.connectTimeoutMs;
    if (!mayComeBack(failure) || isTooLate) throw failure;
    user.onRetry(failure);
    await sleep(wait, user.signal).catch(() => undefined);
  }
}

function mayComeBack(error: MqError): boolean {
  if (error instanceof RejectedError && error.status >= 500) return true;
  return error.retryable;
}

/** Whether something between here and the service lets no WebSocket through. */
export function isUpgradeBlocked(error: unknown): boolean {
  if (!(error instanceof RejectedError)) return false;
  const { status, code } = error;
  if (code === "NOT_FOUND" || status === 426 || status === 501) return true;
  return code.startsWith("HTTP_") && status < 500 && ![401, 403, 407, 408, 429].includes(status);
}
