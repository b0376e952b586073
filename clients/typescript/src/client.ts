// The client: where the service is, who is asking, and everything that can be asked.
import { Batch, type BatchOptions } from "./batch.js";
import { UsageError } from "./errors.js";
import { DeadLetters, Groups, Issues, Keys, Messages, Scheduled, Schedules, Tasks, Tickets, Topics } from "./generated/api.js";
import { outgoing, type Body, type OutgoingMessage, type SendOptions } from "./outgoing.js";
import { Rest, type Fetch } from "./rest.js";
import { RestLink } from "./rest-link.js";
import { Sender, restPublish, storedOf, type SendResult, type Stored } from "./sender.js";
import { isUpgradeBlocked, type Connector } from "./session.js";
import { SocketLink } from "./socket-link.js";
import { SocketPublisher } from "./socket-publisher.js";
import type { WebSocketClass } from "./socket.js";
import { Subscription, type SubscribeOptions } from "./subscription.js";
import { toMs, type Duration } from "./timing.js";

/** The address of the service, the credentials, and how to connect. */
export interface ClientOptions {
  /** `MQ_BASE_URL`, or `http://127.0.0.1:8000`, by default. */
  baseUrl?: string;
  /** `MQ_API_KEY` by default. Never give a key to a web page; see `ticket`. */
  apiKey?: string;
  /** `MQ_NAMESPACE`, or the one that the key is bound to, by default. */
  namespace?: string;
  /** Fetches a ticket from your own server, for each connection a new one. Replaces the key. */
  ticket?: (signal: AbortSignal) => Promise<string>;
  /** What the service shows in its list of connections. */
  clientName?: string;
  /** How long to wait for the response to one request; 30 s by default. */
  timeout?: Duration;
  /** How long a send is repeated where that is harmless; 30 s by default. */
  sendTimeout?: Duration;
  /** How long the first connection of a subscription is tried; 30 s by default. Later it is for ever. */
  connectTimeout?: Duration;
  /** A WebSocket class to use instead of what the platform has. It connects with tickets. */
  webSocket?: WebSocketClass;
  /** Used instead of the platform's. */
  fetch?: Fetch;
}

const BASE_URL_DEFAULT = "http://127.0.0.1:8000";

/** A client of one service. Connections are opened when they are needed; `close` ends them. */
export class Client implements AsyncDisposable {
  /** Without a slash at its end. */
  readonly baseUrl: string;
  /** `-` for the one that the key is bound to. */
  readonly namespace: string;
  /** Topics and their settings. */
  readonly topics: Topics;
  /** Consumer groups: settings, progress and members. */
  readonly groups: Groups;
  /** Messages that groups could not process. */
  readonly deadLetters: DeadLetters;
  /** Long operations, such as a redrive, and their progress. */
  readonly tasks: Tasks;
  /** Stored messages, read without affecting their delivery. */
  readonly messages: Messages;
  /** Messages that wait for their time. */
  readonly scheduled: Scheduled;
  /** Messages that are sent at the times of a cron expression. */
  readonly schedules: Schedules;
  /** Dead letters by their cause. */
  readonly issues: Issues;
  /** API keys. */
  readonly keys: Keys;
  /** Tickets that open WebSockets from web pages. */
  readonly tickets: Tickets;
  readonly #rest: Rest;
  readonly #connector: Connector;
  readonly #sender: Sender;
  readonly #publisher: SocketPublisher | undefined;
  readonly #subscriptions = new Set<Subscription>();
  readonly #batches = new Set<Batch>();
  #isClosed = false;

  constructor(options: ClientOptions = {}) {
    this.baseUrl = checkedUrl(options.baseUrl ?? variable("MQ_BASE_URL") ?? BASE_URL_DEFAULT);
    this.namespace = options.namespace ?? variable("MQ_NAMESPACE") ?? "-";
    const apiKey = options.ticket ? undefined : (options.apiKey ?? variable("MQ_API_KEY"));
    if (!apiKey && !options.ticket) throw new UsageError("give an apiKey, set MQ_API_KEY, or give a ticket function");
    const fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    const timeoutMs = toMs(options.timeout ?? "30s");
    const rest = new Rest(this.baseUrl, this.namespace, apiKey, fetch, timeoutMs);
    this.#rest = rest;
    this.#connector = {
      url: socketUrl(this.baseUrl, this.namespace),
      apiKey,
      webSocket: options.webSocket,
      clientName: options.clientName ?? "mqservice-ts/0.1",
      connectTimeoutMs: toMs(options.connectTimeout ?? "30s"),
      hasTickets: options.ticket !== undefined,
      ticket: options.ticket ?? (async (signal) => (await this.tickets.create({}, { signal })).ticket),
    };
    this.#publisher = apiKey ? undefined : new SocketPublisher(this.#connector, timeoutMs);
    this.#sender = new Sender(this.#publisher?.publish ?? restPublish(rest), toMs(options.sendTimeout ?? "30s"));
    this.topics = new Topics(rest.call);
    this.groups = new Groups(rest.call);
    this.deadLetters = new DeadLetters(rest.call);
    this.tasks = new Tasks(rest.call);
    this.messages = new Messages(rest.call);
    this.scheduled = new Scheduled(rest.call);
    this.schedules = new Schedules(rest.call);
    this.issues = new Issues(rest.call);
    this.keys = new Keys(rest.call);
    this.tickets = new Tickets(rest.call);
  }

  /**
   * Stores one message; resolves when it is on disk (or as the topic's `durability` says). It is sent again
   * until `sendTimeout` while that is harmless. Throws OutcomeUnknownError if nobody knows whether it is
   * stored: with an `idempotencyKey` you can send again; UnreachableError and RejectedError if it is not.
   */
  async send(topic: string, body: Body, options: SendOptions & { signal?: AbortSignal } = {}): Promise<Stored> {
    this.#checkOpen();
    const { signal, ...fields } = options;
    const [result] = await this.#sender.sendAll(topic, [outgoing(body, fields)], signal);
    return storedOf(result);
  }

  /** Stores many messages, as few requests; a result for each, in their order. It does not throw for them. */
  async sendBatch(topic: string, messages: readonly OutgoingMessage[], options: { signal?: AbortSignal } = {}): Promise<SendResult[]> {
    this.#checkOpen();
    const checked = messages.map(({ body, ...fields }) => outgoing(body, fields));
    return this.#sender.sendAll(topic, checked, options.signal);
  }

  /** Collects single sends into few requests. Close it in the end. */
  batch(topic: string, options: BatchOptions = {}): Batch {
    this.#checkOpen();
    const batch: Batch = new Batch(topic, this.#sender, options, () => this.#batches.delete(batch));
    this.#batches.add(batch);
    return batch;
  }

  /**
   * Messages of a topic for a group, across reconnects: `for await (const message of client.subscribe(…))`.
   * The loop throws RejectedError if the service refuses or ends the subscription, and ConnectionLostError
   * or UnreachableError if it cannot be reached.
   */
  subscribe(topic: string, options: SubscribeOptions): Subscription {
    this.#checkOpen();
    if (options.transport === "rest" && !this.#rest.apiKey) throw new UsageError("a ticket opens a WebSocket only");
    const subscription = new Subscription(topic, options, (ended) => this.#subscriptions.delete(ended));
    this.#subscriptions.add(subscription);
    if (options.signal?.aborted) void subscription.close({ drain: 0 });
    else void this.#run(subscription);
    return subscription;
  }

  /**
   * Sends what is waiting in batches, and closes subscriptions: messages in hand may be settled until
   * `drain` is over (10 s by default), the others are given back.
   */
  async close(options: { drain?: Duration } = {}): Promise<void> {
    this.#isClosed = true;
    const results = await Promise.allSettled([
      ...[...this.#subscriptions].map((each) => each.close(options)),
      ...[...this.#batches].map((each) => each.close()),
    ]);
    await this.#publisher?.close();
    const failed = results.find((each) => each.status === "rejected");
    if (failed) throw failed.reason;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #run(subscription: Subscription): Promise<void> {
    const { transport = "auto" } = subscription.options;
    try {
      if (transport !== "rest") {
        const link = new SocketLink(this.#connector, subscription);
        subscription.attach(link);
        try {
          return await link.run();
        } catch (error) {
          if (transport !== "auto" || !this.#rest.apiKey || !isUpgradeBlocked(error)) throw error;
          subscription.loseAll("session_lost");
        }
      }
      const link = new RestLink(this.#rest, subscription);
      subscription.attach(link);
      await link.run();
    } catch (error) {
      subscription.fail(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new UsageError("the client is closed");
  }
}

function variable(name: string): string | undefined {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env?.[name] || undefined;
}

function checkedUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.search || url.hash) {
    throw new UsageError(`${text} is no address such as https://mq.example.com`);
  }
  return url.href.replace(/\/+$/, "");
}

function socketUrl(baseUrl: string, namespace: string): string {
  const url = `${baseUrl.replace(/^http/, "ws")}/v1/ws`;
  return namespace === "-" ? url : `${url}?ns=${encodeURIComponent(namespace)}`;
}
