// A WebSocket (RFC 6455, the client's side) over Node's own HTTP module.
//
//     handshake ─▶ 101 ─▶ frames      or RejectedError with the status and the problem of the response
//
// No extensions are offered. A frame beyond `FRAME_BYTES_MAX` ends the connection before it is read.
import type * as Crypto from "node:crypto";
import type * as Http from "node:http";
import type { Duplex } from "node:stream";
import { MalformedResponseError, UnreachableError } from "./errors.js";
import { rejectionOf } from "./problems.js";
import { BROKEN, type Socket, type SocketHandlers, type SocketRequest } from "./socket.js";

const FRAME_BYTES_MAX = 16 * 1024 * 1024;
const PROBLEM_BYTES_MAX = 64 * 1024;
const GOODBYE_MS = 1_000;
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const CONTINUATION = 0x0;
const TEXT = 0x1;
const BINARY = 0x2;
const CLOSE = 0x8;
const PING = 0x9;
const FINAL = 0x80;
const MASKED = 0x80;
const NORMAL = 1000;
const PROTOCOL_ERROR = 1002;
const TOO_LARGE = 1009;

export function openNodeSocket(request: SocketRequest, nodeModule: (name: string) => unknown): Promise<Socket> {
  const crypto = nodeModule("node:crypto") as typeof Crypto;
  const url = new URL(request.url.replace(/^ws/, "http"));
  const http = nodeModule(url.protocol === "https:" ? "node:https" : "node:http") as typeof Http;
  const nonce = crypto.randomBytes(16).toString("base64");
  return new Promise((resolve, reject) => {
    const asked = http.request(url, {
      agent: false,
      timeout: request.timeoutMs,
      signal: request.signal,
      headers: {
        connection: "Upgrade",
        upgrade: "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": nonce,
        "sec-websocket-protocol": request.protocols.join(", "),
        ...(request.authorization ? { authorization: request.authorization } : {}),
      },
    });
    const fail = (reason: string): void => reject(new UnreachableError(`cannot open ${request.url}: ${reason}`));
    asked.on("error", (error: NodeJS.ErrnoException) => fail(error.code ?? error.message));
    asked.on("timeout", () => {
      fail(`no answer within ${request.timeoutMs} ms`);
      asked.destroy();
    });
    asked.on("response", (response) => {
      const parts: Buffer[] = [];
      let size = 0;
      const finish = (): void => reject(rejectionOf(response.statusCode ?? 0, Buffer.concat(parts)));
      response.on("data", (part: Buffer) => {
        parts.push(part);
        size += part.length;
        if (size > PROBLEM_BYTES_MAX) asked.destroy();
      });
      response.on("end", finish);
      response.on("error", finish);
      response.on("close", finish);
    });
    asked.on("upgrade", (response, stream, head) => {
      const wanted = crypto.createHash("sha1").update(nonce + GUID).digest("base64");
      if (response.headers["sec-websocket-accept"] !== wanted || response.headers["sec-websocket-protocol"] !== request.protocols[0]) {
        stream.destroy();
        reject(new MalformedResponseError(`${request.url} is no WebSocket of this service`));
        return;
      }
      const socket = new NodeSocket(stream, crypto, request.handlers);
      resolve(socket);
      // The frames that came with the handshake are handled once the caller has the socket.
      if (head.length) stream.unshift(head);
      queueMicrotask(() => socket.start());
    });
    asked.end();
  });
}

class NodeSocket implements Socket {
  #chunks: Buffer[] = [];
  #size = 0;
  /** So many bytes are needed before the next frame can be taken. */
  #needed = 2;
  #fragments: Buffer[] = [];
  #fragmentBytes = 0;
  #isOver = false;
  #isClosing = false;
  #closeCode = BROKEN;
  #closeReason = "the connection broke";
  #goodbye: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly stream: Duplex,
    readonly crypto: typeof Crypto,
    readonly handlers: SocketHandlers,
  ) {}

  start(): void {
    const stream = this.stream;
    (stream as Duplex & { setTimeout(ms: number): void; setNoDelay(on: boolean): void }).setTimeout(0);
    (stream as Duplex & { setNoDelay(on: boolean): void }).setNoDelay(true);
    stream.on("data", (chunk: Buffer) => this.#receive(chunk));
    stream.on("error", (error: Error) => (this.#closeReason = error.message));
    stream.on("end", () => stream.destroy());
    stream.on("close", () => this.#end());
    if (stream.destroyed) this.#end();
  }

  send(bytes: Uint8Array): void {
    this.#write(BINARY, bytes);
  }

  close(): void {
    this.#sayGoodbye(NORMAL);
    this.#goodbye ??= setTimeout(() => this.destroy(), GOODBYE_MS);
  }

  destroy(): void {
    this.stream.destroy();
    this.#end();
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#goodbye);
    this.#chunks = [];
    this.handlers.onClose(this.#closeCode, this.#closeReason);
  }

  #receive(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    while (this.#size >= this.#needed && !this.#isOver) {
      const bytes = this.#chunks.length === 1 ? this.#chunks[0]! : Buffer.concat(this.#chunks);
      const rest = this.#takeFrames(bytes);
      this.#chunks = rest.length ? [rest] : [];
      this.#size = rest.length;
    }
  }

  /** Handles every whole frame, notes how much the next one needs, and returns what is left. */
  #takeFrames(bytes: Buffer): Buffer {
    let at = 0;
    while (!this.#isOver) {
      this.#needed = 2;
      if (bytes.length - at < 2) break;
      const first = bytes[at]!;
      let size = bytes[at + 1]!;
      let start = at + 2;
      if (size & MASKED || first & 0x70) {
        this.#fail(PROTOCOL_ERROR, "a frame that a client must not get");
        break;
      }
      if (size >= 126) {
        start += size === 126 ? 2 : 8;
        this.#needed = start - at;
        if (bytes.length < start) break;
        size = size === 126 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2));
      }
      if (size > FRAME_BYTES_MAX) {
        this.#fail(TOO_LARGE, `a frame of ${size} bytes`);
        break;
      }
      this.#needed = start + size - at;
      if (bytes.length < start + size) break;
      at = start + size;
      this.#handle(first, bytes.subarray(start, at));
    }
    return bytes.subarray(at);
  }

  #handle(first: number, payload: Buffer): void {
    const opcode = first & 0x0f;
    if (opcode === PING) return this.#write(0xa, payload);
    if (opcode === CLOSE) return this.#receiveClose(payload);
    if (opcode > BINARY) return; // a pong
    if (opcode === TEXT) return this.#fail(PROTOCOL_ERROR, "a text frame");
    if (first & FINAL && opcode === BINARY) return this.handlers.onMessage(payload);
    if ((opcode === CONTINUATION) !== this.#fragments.length > 0) return this.#fail(PROTOCOL_ERROR, "a stray fragment");
    this.#fragments.push(payload);
    this.#fragmentBytes += payload.length;
    if (this.#fragmentBytes > FRAME_BYTES_MAX) return this.#fail(TOO_LARGE, "a message of too many fragments");
    if (first & FINAL) {
      const whole = Buffer.concat(this.#fragments);
      this.#fragments = [];
      this.#fragmentBytes = 0;
      this.handlers.onMessage(whole);
    }
  }

  #receiveClose(payload: Buffer): void {
    this.#closeCode = payload.length >= 2 ? payload.readUInt16BE(0) : 1005;
    this.#closeReason = payload.toString("utf8", 2);
    this.#sayGoodbye(payload.length >= 2 ? this.#closeCode : NORMAL);
    this.stream.end();
    this.#goodbye ??= setTimeout(() => this.destroy(), GOODBYE_MS);
  }

  #fail(code: number, reason: string): void {
    this.#closeCode = code;
    this.#closeReason = reason;
    this.#sayGoodbye(code);
    this.destroy();
  }

  #sayGoodbye(code: number): void {
    if (this.#isClosing) return;
    const payload = Buffer.alloc(2);
    payload.writeUInt16BE(code);
    this.#write(CLOSE, payload);
    this.#isClosing = true;
  }

  #write(opcode: number, payload: Uint8Array): void {
    if (this.#isClosing || this.stream.destroyed) return;
    const size = payload.length;
    const headSize = size < 126 ? 2 : size < 65_536 ? 4 : 10;
    const frame = Buffer.allocUnsafe(headSize + 4 + size);
    frame[0] = FINAL | opcode;
    frame[1] = MASKED | (size < 126 ? size : size < 65_536 ? 126 : 127);
    if (headSize === 4) frame.writeUInt16BE(size, 2);
    else if (headSize === 10) frame.writeBigUInt64BE(BigInt(size), 2);
    this.crypto.randomFillSync(frame, headSize, 4);
    const start = headSize + 4;
    for (let index = 0; index < size; index++) frame[start + index] = payload[index]! ^ frame[headSize + (index & 3)]!;
    this.stream.write(frame);
  }
}
