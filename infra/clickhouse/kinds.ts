// Describes how each column type holds a value.
import type { Block } from "./block.ts";

export type Plain =
  | "UInt8"
  | "UInt16"
  | "UInt32"
  | "UInt64"
  | "Int32"
  | "Int64"
  | "Bool"
  | "UUID"
  | "String"
  | "DateTime64(3, 'UTC')";
const TWO_32 = 2 ** 32;

/**
 * `put` appends a value of `size` bytes, and returns false for a value that is not of the type.
 */
export interface Kind {
  readonly size: number;
  readonly put: (block: Block, value: unknown) => boolean;
  /** The value that a nullable column holds for null. */
  readonly empty: string | number | boolean;
}

const whole = (
  size: number,
  least: number,
  most: number,
  write: (view: DataView, at: number, value: number) => void,
): Kind => ({
  size,
  empty: 0,
  put: (block, value) => {
    if (!Number.isInteger(value) || (value as number) < least || (value as number) > most) return false;
    write(block.view, block.pos, value as number);
    return true;
  },
});
export const write64 = (view: DataView, at: number, value: number): void => {
  view.setUint32(at, value % TWO_32, true);
  view.setInt32(at + 4, Math.floor(value / TWO_32), true);
};

const digits: Kind = {
  size: 8,
  empty: "0",
  put: (block, value) => {
    if (typeof value !== "string" || !/^-?\d{1,19}$/.test(value)) return false;
    const number = BigInt(value);
    block.view.setBigInt64(block.pos, number, true);
    return BigInt.asIntN(64, number) === number;
  },
};

/** The value of each hexadecimal digit by its character code; -1 for every other character. */
const DIGIT = Int8Array.from({ length: 128 }, (_, code) => {
  const digit = Number.parseInt(String.fromCharCode(code), 16);
  return Number.isNaN(digit) ? -1 : digit;
});
/**
 * For each of the 16 bytes its position in the text of a UUID, which is two numbers of 64 bits,
 * each with its last byte first.
 */
const UUID_BYTES = (() => {
  const inText = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
  return Uint8Array.from([...inText.slice(0, 8).reverse(), ...inText.slice(8).reverse()]);
})();
const NO_UUID = "00000000-0000-0000-0000-000000000000";

const uuid: Kind = {
  size: UUID_BYTES.length,
  empty: NO_UUID,
  put: (block, value) => {
    if (typeof value !== "string" || value.length !== NO_UUID.length) return false;
    for (let n = 0; n < UUID_BYTES.length; n++) {
      const at = UUID_BYTES[n]!;
      const high = DIGIT[value.charCodeAt(at)] ?? -1;
      const low = DIGIT[value.charCodeAt(at + 1)] ?? -1;
      if (high < 0 || low < 0) return false;
      block.bytes[block.pos + n] = high * 16 + low;
    }
    return true;
  },
};

export const kinds: Readonly<Record<Exclude<Plain, "String">, Kind>> = {
  UInt8: whole(1, 0, 0xff, (view, at, value) => view.setUint8(at, value)),
  UInt16: whole(2, 0, 0xffff, (view, at, value) => view.setUint16(at, value, true)),
  UInt32: whole(4, 0, TWO_32 - 1, (view, at, value) => view.setUint32(at, value, true)),
  UInt64: whole(8, 0, Number.MAX_SAFE_INTEGER, write64),
  Int32: whole(4, -(2 ** 31), 2 ** 31 - 1, (view, at, value) => view.setInt32(at, value, true)),
  Int64: digits,
  "DateTime64(3, 'UTC')": whole(8, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, write64),
  Bool: {
    size: 1,
    empty: false,
    put: (block, value) => {
      block.bytes[block.pos] = value === true ? 1 : 0;
      return typeof value === "boolean";
    },
  },
  UUID: uuid,
};
