// MessagePack, as much of it as the service's frames need.
//
// Integers are exact up to 2^53; the service sends none beyond. Binary is copied out of the frame, so
// that one message that is kept does not keep the megabyte that it came in.
import { MalformedResponseError } from "./errors.js";

const utf8 = new TextDecoder("utf-8", { fatal: true });
const utf8Encoder = new TextEncoder();
const SHORT_TEXT_BYTES = 48;
const TWO_32 = 2 ** 32;

class Reader {
  #at = 0;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  value(): unknown {
    const head = this.#view.getUint8(this.#at++);
    if (head < 0x80) return head;
    if (head < 0x90) return this.#map(head & 0x0f);
    if (head < 0xa0) return this.#array(head & 0x0f);
    if (head < 0xc0) return this.#text(head & 0x1f);
    if (head >= 0xe0) return head - 0x100;
    switch (head) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: return this.#binary(this.#uint(1));
      case 0xc5: return this.#binary(this.#uint(2));
      case 0xc6: return this.#binary(this.#uint(4));
      case 0xca: return this.#view.getFloat32(this.#skip(4));
      case 0xcb: return this.#view.getFloat64(this.#skip(8));
      case 0xcc: return this.#uint(1);
      case 0xcd: return this.#uint(2);
      case 0xce: return this.#uint(4);
      case 0xcf: return this.#uint(4) * TWO_32 + this.#uint(4);
      case 0xd0: return this.#view.getInt8(this.#skip(1));
      case 0xd1: return this.#view.getInt16(this.#skip(2));
      case 0xd2: return this.#view.getInt32(this.#skip(4));
      case 0xd3: return this.#view.getInt32(this.#skip(4)) * TWO_32 + this.#uint(4);
      case 0xd9: return this.#text(this.#uint(1));
      case 0xda: return this.#text(this.#uint(2));
      case 0xdb: return this.#text(this.#uint(4));
      case 0xdc: return this.#array(this.#uint(2));
      case 0xdd: return this.#array(this.#uint(4));
      case 0xde: return this.#map(this.#uint(2));
      case 0xdf: return this.#map(this.#uint(4));
      default: throw new MalformedResponseError(`no MessagePack type ${head}`);
    }
  }

  #skip(size: number): number {
    const start = this.#at;
    this.#at += size;
    return start;
  }

  #uint(size: 1 | 2 | 4): number {
    const start = this.#skip(size);
    if (size === 1) return this.#view.getUint8(start);
    return size === 2 ? this.#view.getUint16(start) : this.#view.getUint32(start);
  }

  #take(size: number): number {
    const start = this.#skip(size);
    if (this.#at > this.#bytes.length) throw new RangeError("the frame is cut off");
    return start;
  }

  #binary(size: number): Uint8Array {
    const start = this.#take(size);
    return new Uint8Array(this.#bytes.subarray(start, start + size));
  }

  #text(size: number): string {
    const start = this.#take(size);
    const bytes = this.#bytes;
    if (size <= SHORT_TEXT_BYTES) {
      // Ids, tags and keys are short ASCII, for which a decoder is slower than this.
      let text = "";
      for (let at = start; at < start + size; at++) {
        const byte = bytes[at]!;
        if (byte >= 0x80) return utf8.decode(bytes.subarray(start, start + size));
        text += String.fromCharCode(byte);
      }
      return text;
    }
    return utf8.decode(bytes.subarray(start, start + size));
  }

  #array(count: number): unknown[] {
    // Every element takes a byte at least, so a length that lies is found before room is made for it.
    if (count > this.#bytes.length - this.#at) throw new RangeError("the frame is cut off");
    const values = new Array<unknown>(count);
    for (let index = 0; index < count; index++) values[index] = this.value();
    return values;
  }

  #map(count: number): Record<string, unknown> {
    const found: Record<string, unknown> = {};
    for (let index = 0; index < count; index++) {
      const key = String(this.value());
      const value = this.value();
      // A property may be called __proto__, and is nothing but a property then.
      if (key === "__proto__") Object.defineProperty(found, key, { value, enumerable: true });
      else found[key] = value;
    }
    return found;
  }
}

/** The one value that `bytes` hold. Throws MalformedResponseError. */
export function decode(bytes: Uint8Array): unknown {
  try {
    const reader = new Reader(bytes);
    const value = reader.value();
    if (reader.isAtEnd) return value;
  } catch (error) {
    if (error instanceof MalformedResponseError) throw error;
    throw new MalformedResponseError(`${bytes.length} bytes are no MessagePack: ${String(error)}`);
  }
  throw new MalformedResponseError(`${bytes.length} bytes hold more than one MessagePack value`);
}

/** Numbers, text, bytes, booleans, null, arrays and plain objects. */
export function encode(value: unknown): Uint8Array {
  const writer = new Writer();
  writer.value(value);
  return writer.bytes();
}

class Writer {
  #at = 0;
  #bytes = new Uint8Array(256);
  #view = new DataView(this.#bytes.buffer);

  bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#at);
  }

  value(value: unknown): void {
    if (value === null || value === undefined) this.#byte(0xc0);
    else if (typeof value === "number") this.#number(value);
    else if (typeof value === "string") this.#text(value);
    else if (typeof value === "boolean") this.#byte(value ? 0xc3 : 0xc2);
    else if (value instanceof Uint8Array) this.#binary(value);
    else if (Array.isArray(value)) {
      this.#head(value.length, 0x90, 0xdc);
      for (const each of value) this.value(each);
    } else {
      const entries = Object.entries(value);
      this.#head(entries.length, 0x80, 0xde);
      for (const [key, each] of entries) {
        this.#text(key);
        this.value(each);
      }
    }
  }

  #number(value: number): void {
    if (Number.isSafeInteger(value) && value >= 0) {
      if (value < 0x80) return this.#byte(value);
      if (value <= 0xffff_ffff) return this.#uint32(0xce, value);
      this.#uint32(0xcf, Math.floor(value / TWO_32));
      const start = this.#room(4);
      this.#view.setUint32(start, value % TWO_32);
      return;
    }
    this.#byte(0xcb);
    const start = this.#room(8);
    this.#view.setFloat64(start, value);
  }

  #text(value: string): void {
    const bytes = utf8Encoder.encode(value);
    if (bytes.length < 32) this.#byte(0xa0 | bytes.length);
    else this.#uint32(0xdb, bytes.length);
    this.#append(bytes);
  }

  #binary(value: Uint8Array): void {
    this.#uint32(0xc6, value.length);
    this.#append(value);
  }

  #head(count: number, small: number, large: number): void {
    if (count < 16) return this.#byte(small | count);
    this.#uint32(large + 1, count);
  }

  #append(bytes: Uint8Array): void {
    const start = this.#room(bytes.length);
    this.#bytes.set(bytes, start);
  }

  #byte(value: number): void {
    const start = this.#room(1);
    this.#bytes[start] = value;
  }

  #uint32(head: number, value: number): void {
    this.#byte(head);
    const start = this.#room(4);
    this.#view.setUint32(start, value);
  }

  /** Where `size` more bytes begin. It may replace the buffer, so call it before you use that. */
  #room(size: number): number {
    const start = this.#at;
    this.#at += size;
    if (this.#at > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(this.#bytes.length * 2, this.#at));
      larger.set(this.#bytes);
      this.#bytes = larger;
      this.#view = new DataView(larger.buffer);
    }
    return start;
  }
}
