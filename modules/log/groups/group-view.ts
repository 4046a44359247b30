// The consumer groups as the platform API shows them: with rates, from an answer that callers
// share.
import type { Pool } from "pg";
import { pipeline } from "../../../topology.ts";
import type { LogReads } from "../log-reads.ts";
import { type GroupRead, groupsNow } from "./group-reads.ts";

interface GroupPorts {
  readonly pool: Pool;
  readonly log: LogReads;
}
/** Where each group was at a time of the monotonic clock. */
interface Snapshot {
  readonly at: number;
  readonly read: ReadonlyMap<string, number>;
}

/** The broker answers one question a group, so callers within this time share an answer. */
const CACHED_MS = 2_000;
/** A rate over a shorter time is noise, one over a longer time is not about now. */
const RATE_MS = { least: 1_000, most: 300_000 };

/** Reads the groups for callers who ask often. A failure is answered once, and not cached. */
export const openGroupView = ({ pool, log }: GroupPorts): (() => Promise<readonly object[]>) => {
  let asked: { readonly at: number; readonly answer: Promise<readonly object[]> } | undefined;
  let before: Snapshot | undefined;
  const look = async (): Promise<readonly object[]> => {
    const groups = await log((sources) => groupsNow({ pool, ...sources, topology: pipeline }, Date.now()));
    const now: Snapshot = { at: performance.now(), read: new Map(groups.map((one) => [one.group, readOf(one)])) };
    const shown = groups.map((one) => ({ ...shownGroup(one), rate: rateOf(one.group, before, now) }));
    if (before === undefined || now.at - before.at >= RATE_MS.least) before = now;
    return shown;
  };
  return () => {
    const now = performance.now();
    if (asked !== undefined && now - asked.at <= CACHED_MS) return asked.answer;
    const current = { at: now, answer: look() };
    asked = current;
    current.answer.catch(() => {
      if (asked === current) asked = undefined;
    });
    return current.answer;
  };
};

const readOf = ({ partitions }: GroupRead): number =>
  partitions.reduce((sum, { committed, low }) => sum + (committed ?? low), 0);

/** Records a second. Null at first, and after a rewind, which has gone back. */
const rateOf = (group: string, before: Snapshot | undefined, now: Snapshot): number | null => {
  const was = before?.read.get(group);
  if (before === undefined || was === undefined) return null;
  const ms = now.at - before.at;
  const records = now.read.get(group)! - was;
  return ms < RATE_MS.least || ms > RATE_MS.most || records < 0 ? null : Math.round((records / ms) * 10_000) / 10;
};

const shownGroup = ({ members, seconds, partitions, hold, ...group }: GroupRead) => ({
  ...group,
  members: members.map(({ clientId, host }) => ({ client_id: clientId, ip: host.replace(/^\//, "") })),
  age_seconds: Math.round(seconds * 10) / 10,
  partitions: partitions.map(({ partition, committed, low, high, lag, waitingSince }) => ({
    ...{ partition, committed, low, high, lag },
    waiting_since: waitingSince,
  })),
  hold: hold && {
    operation: hold.operation,
    kind: hold.kind,
    actor: hold.actor,
    reason: hold.reason,
    since: hold.since,
    released_at: hold.releasedAt,
  },
});
