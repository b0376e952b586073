/// <reference lib="esnext.disposable" preserve="true" />
export { Batch, type BatchOptions } from "./batch.js";
export { Client, type ClientOptions } from "./client.js";
export * from "./errors.js";
export type * as api from "./generated/api.js";
export { Message } from "./message.js";
export type { Body, JsonValue, OutgoingMessage, SendOptions } from "./outgoing.js";
export type { CallOptions } from "./rest.js";
export type { SendResult, Stored } from "./sender.js";
export type { WebSocketClass, WebSocketLike } from "./socket.js";
export { Subscription, type SubscribeOptions, type SubscriptionStats } from "./subscription.js";
export type { Duration } from "./timing.js";
