// A door of the product that strangers reach, and the requests that are dear to store.
import type { Random } from "../bodies.ts";

export interface HostileRequest {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}
/** What the doors of one installation are: the client whose doors are tried, and its names. */
export interface World {
  readonly clientId: number;
  /** The code of one of its tracking links. */
  readonly code: string;
  /** A token that its pages hold, so that every visitor has it. */
  readonly token: string;
  /** The slug of its source that takes payloads without a signature. */
  readonly source: string;
  /** The ticket of GET /config in the network that the requests come from. */
  readonly ticket: string;
  /** New for each run, so that nothing is a copy of what an earlier run sent. */
  readonly run: string;
}
export interface Shape {
  readonly what: string;
  /** The n-th request. */
  readonly make: (random: Random, n: number) => HostileRequest;
}
export interface Door {
  readonly name: string;
  readonly app: "pixel" | "links" | "ingest" | "upload" | "api";
  /** The dearest first: a test sends these alone. */
  readonly shapes: readonly Shape[];
}

const SIGNS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/** A text that no store can make shorter than three quarters. */
export const noise = (random: Random, length: number): string => {
  let text = "";
  while (text.length < length) text += SIGNS[Math.floor(random() * 64)];
  return text;
};
export const json = { "content-type": "application/json" };
/** The shortest address that is hashed, and another one each time. */
export const mails = (random: Random, count: number): string =>
  Array.from({ length: count }, () => `${noise(random, 4).replaceAll("_", "0")}@b.co`).join(",");
/** One letter each, under keys whose values become 64 signs. */
export const personal = (random: Random, count: number): readonly object[] =>
  Array.from({ length: count }, () => ({ email: noise(random, 1) }));
