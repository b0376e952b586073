// A subscription over a WebSocket of its own: credit, confirmed settles, resuming.
//
// Settles that were not confirmed when the connection broke are sent again under the same tags if the
// session is resumed; the service ignores those that it knows. If it is not resumed, the tags are void:
// messages come again, and their settles end with OutcomeUnknownError.
import { ConnectionLostError, RejectedError, rejection, type MqError } from "./errors.js";
import { OP, type Command, type Have, type PackDelivered, type PackResume, type Push, type Settled } from "./generated/frames.js";
import type { Message, Settle } from "./message.js";
import { stayConnected, type Connector, type Session, type SessionUser } from "./session.js";
import { unknownOutcome, type Link, type SubscribeOptions, type Subscription } from "./subscription.js";
import { backoffMs, sleep, toMs } from "./timing.js";

const SID = 1;
const RESUME_TTL_MS = 30_000;
const TAGS_MAX = 1_000;
const PREFETCH_DEFAULT = 64;
const PREFETCH_BYTES_DEFAULT = 4 * 1024 * 1024;
/** How long closing waits for a connection that is just away. */
const RELEASE_WAIT_MS = 5_000;

/** Settles of one kind that travel in one command. */
interface Group {
  settles: Settle[];
  attempt: number;
}

export class SocketLink implements Link, SessionUser {
  readonly kind = "websocket";
  readonly resumeTtlMs = RESUME_TTL_MS;
  readonly signal: AbortSignal;
  #session: Session | undefined;
  #former: { id: string; token: string } | undefined;
  #hasSubscribed = false;
  #isDraining = false;
  #unconfirmed = new Set<Group>();
  #stop = new AbortController();
  #onOpened: (() => void)[] = [];
  #finished: Promise<void> = Promise.resolve();

  constructor(
    readonly connector: Connector,
    readonly subscription: Subscription,
  ) {
    this.signal = this.#stop.signal;
  }

  /** Until `release`; throws the error that ends the subscription. */
  async run(): Promise<void> {
    const running = stayConnected(this.connector, this);
    this.#finished = running.then(undefined, () => undefined);
    try {
      await running;
    } finally {
      this.#giveUp();
    }
  }

  // The connection --------------------------------------------------------------------------------

  resume(): PackResume | undefined {
    if (!this.#former) return undefined;
    const tags = ([...this.subscription.held.keys()] as number[]).sort((one, other) => one - other);
    // Older ones by their highest: what the service no longer has outstanding does not matter.
    const older = tags.splice(0, Math.max(0, tags.length - TAGS_MAX));
    const have: Have[] = [[SID, older.at(-1) ?? 0, tags]];
    return [this.#former.id, this.#former.token, have];
  }

  async onOpen(session: Session): Promise<void> {
    if (!session.isResumed) {
      if (this.#hasSubscribed) {
        this.subscription.loseAll("session_lost");
        this.#giveUp();
      }
      if (!this.subscription.isClosing) {
        await session.command((id) => this.#subscribe(id, session));
        this.#hasSubscribed = true;
      }
    } else if (this.#isDraining) {
      await this.#unsubscribe(session, true);
    }
    this.#former = session.resumeToken === null ? undefined : { id: session.id, token: session.resumeToken };
    this.#session = session;
    for (const group of [...this.#unconfirmed]) this.#send(group);
    for (const each of this.#onOpened.splice(0)) each();
    // It was closed while this subscribed, so nobody else gives back what comes.
    if (this.signal.aborted) await this.#unsubscribe(session, false);
  }

  onClosed(): void {
    this.#session = undefined;
  }

  onRetry(): void {
    this.subscription.stats.reconnects += 1;
  }

  onPush(push: Push): void {
    if (push[0] === OP.msgs) for (const each of push[2]) this.#receive(each);
    else if (push[0] === OP.lost) this.subscription.lose(push[2], push[3]);
  }

  #receive(delivered: PackDelivered): void {
    const [tag, id, queue, offset, storedAtMs, attempt, label, keys, messageGroup, properties, body] = delivered;
    const { topic, group } = this.subscription;
    // Sent again after a resume, although it had arrived.
    if (this.subscription.held.has(tag)) return;
    this.subscription.receive(tag, {
      id, topic, group, tag: label, keys, messageGroup, properties, queue, offset, attempt, storedAtMs, body,
    });
  }

  #subscribe(id: number, session: Session): Command {
    const { topic, options } = this.subscription;
    const [msgsMax = TAGS_MAX, bytesMax = PREFETCH_BYTES_DEFAULT] = session.limits;
    const msgs = Math.min(options.prefetch ?? PREFETCH_DEFAULT, msgsMax);
    const bytes = Math.min(options.prefetchBytes ?? PREFETCH_BYTES_DEFAULT, bytesMax);
    return [
      OP.sub, id, SID, topic, options.group, options.filter ?? null, null, optionalMs(options.lease),
      optionalMs(options.autoExtend), [msgs, bytes], null, options.clientId ?? null, options.consumerId ?? null,
      options.consumerZone ?? null,
    ];
  }

  // Settling --------------------------------------------------------------------------------------

  settle(settles: Settle[]): void {
    const groups = new Map<string, Settle[]>();
    for (const settle of settles) {
      const key = settle.kind === "extend" ? `extend ${settle.ms}` : settle.kind;
      const group = groups.get(key);
      if (group) group.push(settle);
      else groups.set(key, [settle]);
    }
    for (const group of groups.values()) {
      for (let start = 0; start < group.length; start += TAGS_MAX) {
        this.#send({ settles: group.slice(start, start + TAGS_MAX), attempt: 0 });
      }
    }
  }

  #send(group: Group): void {
    this.#unconfirmed.add(group);
    const session = this.#session;
    if (!session) return;
    session.command((id) => commandOf(id, group.settles)).then(
      (result) => this.#confirm(group, result as Settled),
      (error: MqError) => this.#refuse(group, error, session),
    );
  }

  #confirm(group: Group, result: Settled): void {
    this.#unconfirmed.delete(group);
    const failed = new Map(result.failed.map((each) => [each.t, each.code]));
    for (const settle of group.settles) {
      const code = failed.size ? failed.get(settle.message.handle as number) : undefined;
      if (code === undefined) this.subscription.confirm(settle);
      else this.subscription.refuse(settle, rejection({ code, detail: `message ${settle.message.id} was not settled` }));
    }
  }

  #refuse(group: Group, error: MqError, session: Session): void {
    if (error instanceof ConnectionLostError) return; // it goes out again with the next session
    if (error.retryable) {
      group.attempt += 1;
      void sleep(backoffMs(group.attempt, error.retryAfterMs), this.signal).then(
        () => {
          if (this.#unconfirmed.has(group) && this.#session === session) this.#send(group);
        },
        () => undefined, // it is over
      );
      return;
    }
    this.#unconfirmed.delete(group);
    for (const settle of group.settles) this.subscription.refuse(settle, error);
  }

  #giveUp(): void {
    for (const group of this.#unconfirmed) {
      for (const settle of group.settles) this.subscription.refuse(settle, unknownOutcome(settle));
    }
    this.#unconfirmed.clear();
  }

  // Closing ---------------------------------------------------------------------------------------

  async stopReceiving(): Promise<void> {
    this.#isDraining = true;
    if (this.#session) await this.#unsubscribe(this.#session, true);
  }

  async release(held: readonly Message[]): Promise<void> {
    if (!this.#session && held.length) await this.#openedWithin(RELEASE_WAIT_MS);
    const session = this.#session;
    if (session) {
      await this.#unsubscribe(session, false);
      void session.close();
    }
    this.#stop.abort();
    await session?.closed;
    await this.#finished;
  }

  async #unsubscribe(session: Session, drain: boolean): Promise<void> {
    try {
      await session.command((id) => [OP.unsub, id, SID, drain]);
    } catch (error) {
      // A subscription that is over has nothing left; a lost connection is somebody else's affair.
      if (!(error instanceof ConnectionLostError || error instanceof RejectedError)) throw error;
    }
  }

  #openedWithin(waitMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, waitMs);
      this.#onOpened.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}

function commandOf(id: number, settles: readonly Settle[]): Command {
  const tag = (settle: Settle): number => settle.message.handle as number;
  const { kind, ms } = settles[0]!;
  switch (kind) {
    case "ack":
      return [OP.ack, id, SID, settles.map(tag)];
    case "nack":
      return [OP.nack, id, SID, settles.map((each) => [tag(each), each.ms ?? null, each.reason ?? null])];
    case "deadLetter":
      return [OP.dlq, id, SID, settles.map((each) => [tag(each), each.reason ?? null])];
    case "extend":
      return [OP.extend, id, SID, settles.map(tag), ms ?? 0];
  }
}

function optionalMs(duration: SubscribeOptions["lease"]): number | null {
  return duration === undefined ? null : toMs(duration);
}
