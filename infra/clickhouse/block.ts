// The buffer that a block is written into: numbers of variable length, and texts behind their
// lengths.

/** From this length on one call into native code costs less than a loop over characters. */
const SHORT = 64;
const LAST_ASCII = 0x7f;
const SMALLEST_BYTES = 1024 * 1024;

/** A buffer that grows. It may be used for the next block once its bytes have been sent. */
export class Block {
  bytes: Buffer;
  view: DataView;
  pos = 0;
  constructor(size = SMALLEST_BYTES) {
    this.bytes = Buffer.allocUnsafeSlow(size);
    this.view = new DataView(this.bytes.buffer);
  }

  room(more: number): void {
    if (this.pos + more <= this.bytes.length) return;
    const { bytes } = this;
    this.bytes = Buffer.allocUnsafeSlow(Math.max(this.pos + more, bytes.length * 2));
    bytes.copy(this.bytes, 0, 0, this.pos);
    this.view = new DataView(this.bytes.buffer);
  }

  varint(value: number): void {
    let left = value;
    for (; left > LAST_ASCII; left = Math.floor(left / 128)) this.bytes[this.pos++] = (left % 128) | 0x80;
    this.bytes[this.pos++] = left;
  }

  text(text: string): void {
    const { length } = text;
    // A UTF-16 unit takes three bytes at most, and the length up to five.
    this.room(3 * length + 5);
    const { bytes, pos } = this;
    if (length < SHORT) {
      let n = 0;
      for (; n < length; n++) {
        const code = text.charCodeAt(n);
        if (code > LAST_ASCII) break;
        bytes[pos + 1 + n] = code;
      }
      if (n === length) {
        bytes[pos] = length;
        this.pos = pos + 1 + length;
        return;
      }
    }
    // The text has nearly always one byte a character, so the length fits into the room that was
    // left for it.
    const head = sizeOf(length);
    const written = bytes.write(text, pos + head, "utf8");
    if (sizeOf(written) !== head) bytes.copyWithin(pos + sizeOf(written), pos + head, pos + head + written);
    this.varint(written);
    this.pos += written;
  }
}

const sizeOf = (length: number): number => {
  let size = 1;
  for (let left = length; left > LAST_ASCII; left = Math.floor(left / 128)) size++;
  return size;
};
