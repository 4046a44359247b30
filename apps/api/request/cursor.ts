// The cursor of a list: the place where the next page begins, signed together with the request, so
// that it continues the same list only.
import { createHmac, timingSafeEqual } from "node:crypto";
import { Problem } from "../../../infra/http/problem.ts";
import type { PageKey } from "../../../infra/postgres/rows.ts";

/** 128 bits are enough: a forger can only guess, one request a guess. */
const MAC_BYTES = 16;

/** A cursor is valid for one route with its params and its query, except cursor and limit. */
export const listKey = (route: string, params: unknown, query: object): string => {
  const { cursor: _, limit: __, format: ___, ...asked } = query as Readonly<Record<string, unknown>>;
  return JSON.stringify([route, params, Object.entries(asked).sort(([a], [b]) => (a < b ? -1 : 1))]);
};

const macOf = (key: Buffer, list: string, place: Buffer): Buffer =>
  createHmac("sha256", key).update(list).update("\0").update(place).digest().subarray(0, MAC_BYTES);

export const cursorText = ([key]: readonly Buffer[], list: string, behind: PageKey): string => {
  const place = Buffer.from(JSON.stringify(behind));
  return Buffer.concat([macOf(key!, list, place), place]).toString("base64url");
};

/** Throws Problem 400 `bad_cursor` for a cursor that this list has not given out. */
export const readCursor = (keys: readonly Buffer[], list: string, text: string): PageKey => {
  const bytes = Buffer.from(text, "base64url");
  const [mac, place] = [bytes.subarray(0, MAC_BYTES), bytes.subarray(MAC_BYTES)];
  const isOurs =
    bytes.toString("base64url") === text &&
    mac.length === MAC_BYTES &&
    keys.some((key) => timingSafeEqual(mac, macOf(key, list, place)));
  if (isOurs) return JSON.parse(place.toString()) as PageKey;
  const detail = "take next_cursor of the answer before, with the same sort and filters";
  throw new Problem("validation_failed", detail, {
    code: "bad_cursor",
    errors: [{ pointer: "/cursor", code: "bad_cursor", detail }],
  });
};
