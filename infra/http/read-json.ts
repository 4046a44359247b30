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
 * The bytes alone: size and type are answered before the role is looked at, the content after.
 * Throws Problem 413 and 415.
 */
export const readBytes = (request: IncomingMessage): Promise<Buffer> => {
  checkType(request);
  return withBody(request, { address: request.socket.remoteAddress ?? "" }, async (body) => body, MAX_BYTES);
};

/** Throws Problem 400 for what is no JSON in UTF-8, or holds what no store takes. */
export const parseJson = (bytes: Buffer): unknown => {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new Problem("bad_request", "the body is no JSON in UTF-8");
  }
  check(value, "", { keys: 0 }, 1);
  return value;
};

const check = (value: unknown, pointer: string, seen: { keys: number }, depth: number): void => {
  const refuse = (code: string, detail: string): never => {
    throw new Problem("validation_failed", detail, { errors: [{ pointer, code, detail }] });
  };
  if (typeof value === "string") {
    if (value.length > MAX_TEXT) refuse("text_too_long", `a text has at most ${MAX_TEXT} characters`);
    if (/\0|\p{Surrogate}/u.test(value)) refuse("bad_text", "NUL and lone surrogates cannot be stored");
    return;
  }
  if (typeof value !== "object" || value === null) return;
  if (depth > MAX_DEPTH) refuse("too_deep", `at most ${MAX_DEPTH} levels`);
  for (const [key, part] of Object.entries(value)) {
    seen.keys += 1;
    if (seen.keys > MAX_KEYS) refuse("too_many_keys", `at most ${MAX_KEYS} keys`);
    if (DANGEROUS.has(key)) refuse("bad_key", `the key ${key} is not taken`);
    check(part, `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1").slice(0, 100)}`, seen, depth + 1);
  }
};
