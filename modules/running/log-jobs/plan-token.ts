// The token by which a plan is taken: signed, of one user, good for ten minutes and for one move.
import { createHmac, timingSafeEqual } from "node:crypto";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Move } from "./move.ts";

export const PLAN_MS = 600_000;

export interface Planned {
  readonly plan_id: string;
  readonly user_id: number;
  readonly expires_at: UnixMs;
  readonly move: Move;
  readonly digest: string;
  /** The newest move of the same subject, which had been asked for when this was planned. */
  readonly before: string | null;
}

const macOf = (key: Buffer, body: string): Buffer => createHmac("sha256", key).update(body).digest();

/** Of several keys the first one signs, each is accepted. */
export const planToken = ([key]: readonly Buffer[], planned: Planned): string => {
  const body = Buffer.from(JSON.stringify(planned)).toString("base64url");
  return `${body}.${macOf(key!, body).toString("base64url")}`;
};

/** Undefined for what this installation has not given out. */
export const plannedIn = (keys: readonly Buffer[], token: string): Planned | undefined => {
  const [body = "", mac = "", ...more] = token.split(".");
  const given = Buffer.from(mac, "base64url");
  const isOurs = keys.some((key) => {
    const right = macOf(key, body);
    return given.length === right.length && timingSafeEqual(given, right);
  });
  if (!isOurs || more.length > 0 || given.toString("base64url") !== mac) return undefined;
  return JSON.parse(Buffer.from(body, "base64url").toString()) as Planned;
};
