// One WebSocket, whoever provides it: Node's own HTTP module, or a WebSocket class.
//
//     openSocket ─▶ node-socket.ts    Node: the key travels in the handshake, a rejection has a status
//                └▶ here              browsers: a ticket travels as a subprotocol
//
// Node has a WebSocket class only since version 22, and that class, like a browser's, neither sends a
// key nor says why a handshake failed; hence the first way.
import { UnreachableError, UsageError } from "./errors.js";
import { openNodeSocket } from "./node-socket.js";

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

export const GOING_AWAY = 1001;
export const BROKEN = 1006;

/** Whether sockets can carry a key, so that no ticket is needed. */
export function sendsKeys(webSocket: WebSocketClass | undefined): boolean {
  return webSocket === undefined && nodeModule("node:http") !== undefined;
}

/** Connects. Throws UnreachableError, or RejectedError where the way of connecting tells. */
export function openSocket(request: SocketRequest, webSocket: WebSocketClass | undefined): Promise<Socket> {
  if (sendsKeys(webSocket)) return openNodeSocket(request, nodeModule);
  const given = webSocket ?? (globalThis as { WebSocket?: WebSocketClass }).WebSocket;
  if (!given) throw new UsageError("there is no WebSocket here; pass a class as `webSocket`");
  return openStandardSocket(request, given);
}

type Runtime = { process?: { versions?: { node?: string; bun?: string }; getBuiltinModule?: (name: string) => unknown }; Deno?: unknown };

/** A module of Node without an import, which bundlers for browsers would stumble over. */
function nodeModule(name: string): unknown {
  const { process, Deno } = globalThis as Runtime;
  if (!process?.versions?.node || process.versions.bun || Deno) return undefined;
  return process.getBuiltinModule?.(name);
}

function openStandardSocket(request: SocketRequest, given: WebSocketClass): Promise<Socket> {
  const { handlers } = request;
  return new Promise((resolve, reject) => {
    const socket = new given(request.url, request.protocols);
    socket.binaryType = "arraybuffer";
    let isOpen = false;
    let isOver = false;
    const end = (code: number, reason: string): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      request.signal.removeEventListener("abort", onAbort);
      socket.onopen = socket.onmessage = socket.onclose = socket.onerror = null;
      if (isOpen) handlers.onClose(code, reason);
      else reject(new UnreachableError(`cannot open ${request.url}: ${reason || `closed with ${code}`}`));
    };
    const drop = (reason: string): void => {
      try {
        socket.close();
      } catch {
        // It never opened.
      }
      end(BROKEN, reason);
    };
    const onAbort = (): void => drop("given up");
    request.signal.addEventListener("abort", onAbort);
    const timer = setTimeout(() => drop(`no answer within ${request.timeoutMs} ms`), request.timeoutMs);
    socket.onopen = () => {
      clearTimeout(timer);
      request.signal.removeEventListener("abort", onAbort);
      isOpen = true;
      resolve({
        send: (bytes) => socket.send(bytes),
        close: () => {
          socket.close(1000);
          // A peer that is gone would keep the page waiting for its part of the goodbye.
          setTimeout(() => end(BROKEN, "no goodbye"), 1_000);
        },
        destroy: () => drop("dropped"),
      });
    };
    socket.onmessage = (event: { data: ArrayBuffer | string }) => {
      if (typeof event.data !== "string") handlers.onMessage(new Uint8Array(event.data));
    };
    socket.onclose = (event: { code: number; reason: string }) => end(event.code, event.reason);
    socket.onerror = () => {
      if (!isOpen) end(BROKEN, "the handshake failed");
    };
  });
}
