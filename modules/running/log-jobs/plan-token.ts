// The token that carries out a plan: signed, bound to one user, and valid for ten minutes and one
// job.
import { createHmac, timingSafeEqual } from "node:crypto";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Move } from "./move.ts";

export const PLAN_MS = 600_000;

export interface MovePlanToken {
  readonly plan_id: string;
  readonly user_id: number;
  readonly expires_at: UnixMs;
  readonly move: Move;
  readonly digest: string;
  /** The newest job of the same subject at the time of planning. */
  readonly before: string | null;
}

const macOf = (key: Buffer, body: string): Buffer => createHmac("sha256", key).update(body).digest();

/** The first key signs; every key is accepted. */
export const planToken = ([key]: readonly Buffer[], planned: MovePlanToken): string => {
  const body = Buffer.from(JSON.stringify(planned)).toString("base64url");
  return `${body}.${macOf(key!, body).toString("base64url")}`;
};

/** Returns the plan in a token; undefined when this installation has not signed it. */
export const plannedIn = (keys: readonly Buffer[], token: string): MovePlanToken | undefined => {
  const [body = "", mac = "", ...more] = token.split(".");
  const given = Buffer.from(mac, "base64url");
  const isOurs = keys.some((key) => {
    const right = macOf(key, body);
    return given.length === right.length && timingSafeEqual(given, right);
  });
  if (!isOurs || more.length > 0 || given.toString("base64url") !== mac) return undefined;
  return JSON.parse(Buffer.from(body, "base64url").toString()) as MovePlanToken;
};
