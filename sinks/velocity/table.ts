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
  /** Orders the members, where the newest are asked for. */
  readonly at: UnixMs | null;
  /** Taken out of the set, instead of added to it. */
  readonly is_gone?: true;
}

const hourMs = 3_600_000;
const hashLength = 32;

/**
 * Addresses and click ids are kept as hashes: the sets show nothing of a visitor.
 */
const short = (...parts: readonly string[]): string => hash("sha256", parts.join("\n"), "hex").slice(0, hashLength);

/**
 * Names of the sets; every one holds its client, so equal values of two clients never meet (law
 * T6).
 */
export const sets = {
  conversionsOf: (clientId: number, address: string, at: UnixMs): string =>
    `${clientId}:address:${short(String(clientId), address)}:${Math.floor(at / hourMs)}`,
  devicesOf: (clientId: number, clickId: string): string => `${clientId}:devices:${short(clickId)}`,
  countriesOf: (clientId: number, clickId: string): string => `${clientId}:countries:${short(clickId)}`,
  devicesOfPerson: (clientId: number, person: string): string => `${clientId}:person:${person}`,
  clicksOf: (clientId: number, did: string): string => `${clientId}:clicks:${did}`,
} as const;

/** Where the set of that name lies. */
export const velocityKey = (prefix: string, set: string): string => `${prefix}:velocity:${set}`;

/**
 * A day more than the log: whatever a rewind can read again still finds what it found
 * (docs/design/money.md, "Facts").
 */
export const hintLifetimeSeconds = 8 * 86_400;
/** Of a device or a person the newest count; the rest would only make a hot key grow. */
const newestKept = 50;

/** Sets: writing a row twice leaves them as writing it once. */
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
        // A later sight of a member moves it up, an earlier one changes nothing.
        commands.zadd(key, "GT", at, member);
        ordered.add(key);
      }
    }
    for (const key of ordered) commands.zremrangebyrank(key, 0, -1 - newestKept);
    for (const key of touched) commands.expire(key, hintLifetimeSeconds);
  },
);
