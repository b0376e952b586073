// Sending over a WebSocket, for clients that have tickets and no key.
import { ConnectionLostError, OutcomeUnknownError, UnreachableError, type MqError } from "./errors.js";
import { OP, type Push } from "./generated/frames.js";
import { packedForm, type Outgoing } from "./outgoing.js";
import type { WireResult } from "./sender.js";
import { stayConnected, type Connector, type Session, type SessionUser } from "./session.js";
import { abortable, within } from "./timing.js";

export class SocketPublisher implements SessionUser {
  readonly resumeTtlMs = 0;
  readonly signal: AbortSignal;
  #stop = new AbortController();
  #running: Promise<void> | undefined;
  #session: Session | undefined;
  #waiters: { resolve: (session: Session) => void; reject: (error: unknown) => void }[] = [];

  constructor(
    readonly connector: Connector,
    readonly timeoutMs: number,
  ) {
    this.signal = this.#stop.signal;
  }

  readonly publish = async (topic: string, messages: readonly Outgoing[], signal?: AbortSignal): Promise<WireResult[]> => {
    const late = `no connection within ${this.timeoutMs} ms`;
    const session = this.#session ?? (await abortable(within(this.timeoutMs, this.#connected(), () => new UnreachableError(late)), signal));
    try {
      const sent = session.command((id) => [OP.pub, id, topic, messages.map(packedForm)]);
      const unknown = (): MqError => new OutcomeUnknownError(`no reply within ${this.timeoutMs} ms; the outcome is unknown`);
      return ((await abortable(within(this.timeoutMs, sent, unknown), signal)) as { results: WireResult[] }).results;
    } catch (error) {
      if (!(error instanceof ConnectionLostError)) throw error;
      throw new OutcomeUnknownError(`the connection broke before the reply: ${error.message}`);
    }
  };

  async close(): Promise<void> {
    await this.#session?.close();
    this.#stop.abort();
    await this.#running;
    this.#fail(new UnreachableError("the client is closed"));
  }

  #connected(): Promise<Session> {
    this.#running ??= stayConnected(this.connector, this)
      .catch((error: unknown) => this.#fail(error))
      .finally(() => (this.#running = undefined));
    return new Promise((resolve, reject) => this.#waiters.push({ resolve, reject }));
  }

  #fail(error: unknown): void {
    for (const each of this.#waiters.splice(0)) each.reject(error);
  }

  resume(): undefined {
    return undefined;
  }

  async onOpen(session: Session): Promise<void> {
    this.#session = session;
    for (const each of this.#waiters.splice(0)) each.resolve(session);
  }

  onClosed(): void {
    this.#session = undefined;
  }

  onPush(_: Push): void {
    // Nothing is subscribed to.
  }

  onRetry(_: MqError): void {
    // The senders decide how long they wait.
  }
}
