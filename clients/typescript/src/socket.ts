// What a WebSocket is to the rest of the client, whoever provides it; `open-socket.ts` opens one.

/** What of the standard's WebSocket class is used here; pass one as `webSocket` to replace it. */
export interface WebSocketLike {
  binaryType: string;
  onopen: ((event: any) => void) | null; // any: each implementation has event types of its own
  onmessage: ((event: any) => void) | null;
  onclose: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  readonly protocol: string;
  send(data: Uint8Array): void;
  close(code?: number, reason?: string): void;
}
export type WebSocketClass = new (url: string, protocols: string[]) => WebSocketLike;

export interface SocketHandlers {
  onMessage(bytes: Uint8Array): void;
  /** Called once, after the last message. */
  onClose(code: number, reason: string): void;
}

export interface Socket {
  send(bytes: Uint8Array): void;
  /** Says goodbye; `onClose` follows. */
  close(): void;
  /** Drops the connection without waiting for anybody; `onClose` follows at once. */
  destroy(): void;
}

export interface SocketRequest {
  url: string;
  protocols: string[];
  authorization: string | undefined;
  timeoutMs: number;
  signal: AbortSignal;
  handlers: SocketHandlers;
}

/** The code of a connection that ended without a goodbye. */
export const BROKEN = 1006;
