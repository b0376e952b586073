// One WebSocket, whoever provides it: Node's own HTTP module, or a WebSocket class.
//
//     openSocket ─▶ node-socket.ts    Node: the key travels in the handshake, a rejection has a status
//                └▶ here              browsers: a ticket travels as a subprotocol
//
// Node has a WebSocket class only since version 22, and that class, like a browser's, neither sends a
// key nor says why a handshake failed; hence the first way.
import { UnreachableError, UsageError } from "./errors.js";
import { openNodeSocket } from "./node-socket.js";
import { BROKEN, type Socket, type SocketRequest, type WebSocketClass } from "./socket.js";

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
