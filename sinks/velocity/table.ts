// The sets that hints are counted from: which events, devices and clicks have an address, a click
// id or a person in common.
import { hash } from "node:crypto";
import type { UnixMs } from "../../stream/flow.ts";
import { redisTable } from "../stores/redis.ts";

/** One member of one set. */
export interface VelocityRow {
  readonly client_id: number;
  readonly set: string;
  readonly member: string;
  /** The order of members in sets where only the newest are wanted. Null in other sets. */
  readonly at: UnixMs | null;
  /** True if the member is removed from the set instead of added. */
  readonly is_gone?: true;
}

const hourMs = 3_600_000;
const hashLength = 32;

/**
 * Addresses and click ids are stored as hashes, so that the sets reveal nothing about a visitor.
 */
const short = (...parts: readonly string[]): string => hash("sha256", parts.join("\n"), "hex").slice(0, hashLength);

/**
 * Names of the sets. Each contains the client, so equal values of two clients never meet (law T6).
 */
export const sets = {
  conversionsOf: (clientId: number, address: string, at: UnixMs): string =>
    `${clientId}:address:${short(String(clientId), address)}:${Math.floor(at / hourMs)}`,
  devicesOf: (clientId: number, clickId: string): string => `${clientId}:devices:${short(clickId)}`,
  countriesOf: (clientId: number, clickId: string): string => `${clientId}:countries:${short(clickId)}`,
  devicesOfPerson: (clientId: number, person: string): string => `${clientId}:person:${person}`,
  clicksOf: (clientId: number, did: string): string => `${clientId}:clicks:${did}`,
} as const;

/** The Redis key of a set. */
export const velocityKey = (prefix: string, set: string): string => `${prefix}:velocity:${set}`;

/**
 * One day more than the log keeps, so that a rewind still finds every hint that it found before
 * (docs/design/money.md, "Facts").
 */
export const hintLifetimeSeconds = 8 * 86_400;
/** Only the newest members of a device or person count. More would only make a hot key grow. */
const newestKept = 50;

/** Writing a row twice has the same effect as writing it once. */
export const velocity = redisTable<VelocityRow>(
  {
    name: "velocity",
    key: ["client_id", "set", "member"],
    unhashed: "hints in Redis, which may be lost; what they changed stands on the events",
    isBesideFigures: true,
  },
  (commands, rows, prefix) => {
    const touched = new Set<string>();
    const ordered = new Set<string>();
    for (const { set, member, at, is_gone } of rows) {
      const key = velocityKey(prefix, set);
      touched.add(key);
      if (is_gone) commands.zrem(key, member);
      else if (at === null) commands.sadd(key, member);
      else {
        // A later sight of a member moves it up. An earlier one changes nothing.
        commands.zadd(key, "GT", at, member);
        ordered.add(key);
      }
    }
    for (const key of ordered) commands.zremrangebyrank(key, 0, -1 - newestKept);
    for (const key of touched) commands.expire(key, hintLifetimeSeconds);
  },
);
