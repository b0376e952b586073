// Made from the service's AsyncAPI document by `python -m tests.docs`; do not edit it.

export const SUBPROTOCOL = "mq.v1.msgpack";

export const OP = { hello: 1, pub: 3, sub: 4, credit: 5, ack: 7, nack: 8, extend: 9, dlq: 10, unsub: 15, ping: 16, pong: 17, welcome: 2, msgs: 6, lost: 11, flow: 12, ok: 18, err: 19, goaway: 20 } as const;

/** An array in both subprotocols: [tag, reason], the reason may be left out. */
export type DeadLetterItem = [t: number, reason?: string | null];

/** An array in both subprotocols: [sid, upto, [tag, ...]]. */
export type Have = [sid: number, upto?: number, t?: number[]];

/** An array in both subprotocols: [tag, delay_ms, reason], the last two may be left out. */
export type NackItem = [t: number, delay_ms?: number | null, reason?: string | null];

export type PackAck = [op: 7, id: number | null, sid: number, t?: number[] | null, upto?: number | null];

export type PackAddCredit = [op: 5, sid: number, msgs?: number, bytes?: number, id?: number | null];

export type PackCredit = [msgs?: number, bytes?: number];

export type PackDeadLetter = [op: 10, id: number | null, sid: number, t: DeadLetterItem[]];

/** The body is binary, as it is. */
export type PackDelivered = [t: number, id: string, q: number, o: number, s: number, a: number, tag: string | null, keys: string[], g: string | null, p: Record<string, string>, b: Uint8Array];

export type PackErr = [op: 19, id: number | null, code: string, retryable: boolean, msg: string];

export type PackExtend = [op: 9, id: number | null, sid: number, t: number[], ms: number];

export type PackFlow = [op: 12, sid: number, state: string];

export type PackGoaway = [op: 20, why: string, grace_ms: number, retry_ms: number];

export type PackHello = [op: 1, id?: number | null, client?: string | null, resume?: PackResume | null, max_frame?: number | null, resume_ttl_ms?: number | null];

export type PackLimits = [credit_msgs?: number, credit_bytes?: number, max_frame?: number, max_commands?: number];

export type PackLost = [op: 11, sid: number, t: number[], why: string, generation?: number | null];

export type PackMessages = [op: 6, sid: number, m: PackDelivered[]];

export type PackNack = [op: 8, id: number | null, sid: number, t: NackItem[]];

export type PackOk = [op: 18, id: number, r: unknown];

export type PackPing = [op: 16];

export type PackPong = [op: 17];

export type PackPublish = [op: 3, id: number | null, topic: string, m: PackedMessage[], key?: string | null];

export type PackResume = [session: string, token: string, have?: Have[] | null];

export type PackSubscribe = [op: 4, id: number | null, sid: number, topic: string, group: string, filter?: string | SqlFilter | null, mode?: string | null, lease_ms?: number | null, auto_extend_ms?: number | null, credit?: PackCredit | null, from?: null, client_id?: string | null, consumer_id?: string | null, consumer_zone?: string | null];

export type PackUnsubscribe = [op: 15, id: number | null, sid: number, drain?: boolean];

export type PackWelcome = [op: 2, id: number | null, session: string, resume_token?: string | null, resumed?: boolean, ping_ms?: number, pong_ms?: number, limits?: PackLimits];

/** The MessagePack form: positions instead of names, and the body as it is. */
export type PackedMessage = [body: Uint8Array, tag?: string | null, keys?: string[], message_group?: string | null, properties?: Record<string, string>, queue?: number | null, delay_level?: number | null, delay?: string | null, delay_ms?: number | null, deliver_at?: string | null, dedup_id?: string | null];

/** Result of ack, nack, dlq and extend; the count that belongs to the command is there. */
export interface Settled {
  failed: TagFailure[];
  acked?: number | null;
  nacked?: number | null;
  dead_lettered?: number | null;
  extended?: number | null;
}

/** A condition in SQL92 on the properties of a message; a map in both subprotocols. */
export interface SqlFilter {
  sql: string;
}

export interface TagFailure {
  t: number;
  code: string;
}

export interface Unsubscribed {
  outstanding: number;
}

export type Push = PackWelcome | PackMessages | PackLost | PackFlow | PackOk | PackErr | PackGoaway | PackPing | PackPong;

export type Command = PackHello | PackPublish | PackSubscribe | PackAddCredit | PackAck | PackNack | PackExtend | PackDeadLetter | PackUnsubscribe | PackPing | PackPong;
