// The JSON body of a request to the platform API, within the limits of docs/design/contracts.md,
// "Limits".
import type { IncomingMessage } from "node:http";
import { Problem } from "./problem.ts";
import { checkType, withBody } from "./read-body.ts";

const MAX_BYTES = 256 * 1024;
const MAX_DEPTH = 32;
const MAX_KEYS = 1_000;
const MAX_TEXT = 64 * 1024;
const DANGEROUS = new Set(["__proto__", "constructor", "prototype"]);

/**
 * Reads only the bytes: size and type are checked before the role, and the content after it. Throws
 * Problem 413 and 415.
 */
export const readBytes = (request: IncomingMessage): Promise<Buffer> => {
  checkType(request);
  return withBody(request, senderOf(request), async (body) => body, MAX_BYTES);
};

/**
 * Reads the bytes as `readBytes` does; undefined for an empty body, which has no type to check when
 * its length says so.
 */
export const readBytesIfAny = async (request: IncomingMessage): Promise<Buffer | undefined> => {
  const { "transfer-encoding": encoding, "content-length": length = 0 } = request.headers;
  if (encoding === undefined && Number(length) === 0) return undefined;
  const bytes = await readBytes(request);
  return bytes.length === 0 ? undefined : bytes;
};

/**
 * Reads the bytes as they came, of any type, for signed bodies: nothing in them is parsed before.
 * Throws Problem 413.
 */
export const readRawBytes = (request: IncomingMessage): Promise<Buffer> =>
  withBody(request, senderOf(request), async (body) => body, MAX_BYTES, "as it came");

const senderOf = ({ socket }: IncomingMessage) => ({ address: socket.remoteAddress ?? "" });

/**
 * `mostKeys` counts the keys of all objects and the items of lists. Throws Problem 400 for a body
 * that is no JSON in UTF-8, or that holds a value that no store takes.
 */
export const parseJson = (bytes: Buffer, mostKeys = MAX_KEYS): unknown => {
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    value = JSON.parse(text);
  } catch {
    throw new Problem("bad_request", "the body is no JSON in UTF-8");
  }
  checkTexts(value, mostKeys);
  checkRepeated(text);
  return value;
};

/** Checks a path or a query in the same way. Throws Problem 400 with a pointer to the place. */
export const checkTexts = (value: unknown, mostKeys = MAX_KEYS): void =>
  check(value, "", { left: mostKeys, mostKeys }, 1);

const refuseAt = (pointer: string, code: string, detail: string): never => {
  throw new Problem("validation_failed", detail, { errors: [{ pointer, code, detail }] });
};
/**
 * A key may hold characters that no text may; the pointer replaces them by a letter that every
 * store takes.
 */
const inside = (pointer: string, key: string): string =>
  `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1").slice(0, 100).replaceAll(UNSTORABLE, "\ufffd")}`;
const UNSTORABLE = /\0|\p{Surrogate}/gu;
const isUnstorable = (text: string): boolean => text.search(UNSTORABLE) >= 0;

/**
 * JSON.parse keeps the last of repeated keys, other parsers keep the first. A body that two readers
 * could read differently is refused. The text is JSON, at most as deep as `check` allows.
 */
const checkRepeated = (text: string): void => {
  const open: { readonly keys: Set<string> | null; key: string; items: number; expectsKey: boolean }[] = [];
  for (const [token] of text.matchAll(/"(?:[^"\\]+|\\.)*"|[{}[\]:,]/g)) {
    const at = open.at(-1);
    if (token === "{") open.push({ keys: new Set(), key: "", items: 0, expectsKey: true });
    else if (token === "[") open.push({ keys: null, key: "0", items: 0, expectsKey: false });
    else if (token === "}" || token === "]") open.pop();
    else if (at === undefined || token === ":") continue;
    else if (token === ",") {
      at.items += 1;
      if (at.keys === null) at.key = String(at.items);
      else at.expectsKey = true;
    } else if (at.expectsKey && at.keys !== null) {
      at.key = JSON.parse(token);
      at.expectsKey = false;
      if (at.keys.has(at.key))
        refuseAt(
          open.reduce((path, { key }) => inside(path, key), ""),
          "repeated_key",
          "the key stands twice in one object",
        );
      at.keys.add(at.key);
    }
  }
};

interface Allowance {
  left: number;
  readonly mostKeys: number;
}
const check = (value: unknown, pointer: string, allowed: Allowance, depth: number): void => {
  const refuse = (code: string, detail: string): never => refuseAt(pointer, code, detail);
  if (typeof value === "string") {
    if (value.length > MAX_TEXT) refuse("text_too_long", `a text has at most ${MAX_TEXT} characters`);
    if (isUnstorable(value)) refuse("bad_text", "NUL and lone surrogates cannot be stored");
    return;
  }
  if (typeof value !== "object" || value === null) return;
  if (depth > MAX_DEPTH) refuse("too_deep", `at most ${MAX_DEPTH} levels`);
  for (const [key, part] of Object.entries(value)) {
    allowed.left -= 1;
    if (allowed.left < 0) refuse("too_many_keys", `at most ${allowed.mostKeys} keys`);
    const place = inside(pointer, key);
    if (DANGEROUS.has(key)) refuseAt(place, "bad_key", `the key ${key} is not taken`);
    if (isUnstorable(key)) refuseAt(place, "bad_key", "NUL and lone surrogates cannot be stored");
    check(part, place, allowed, depth + 1);
  }
};
