// The route of consumer groups.
import { type GroupRead, groupsNow } from "../../../../modules/log/groups/group-reads.ts";
import { pipeline } from "../../../../topology.ts";
import { readGroups } from "../../contract/system/groups.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

/** Callers at once share one answer: it asks the broker a question a group. */
const CACHED_MS = 2_000;
/** A rate over less says nothing, over more it says nothing of now. */
const RATE_MS = { least: 1_000, most: 300_000 };

interface GroupsAt {
  readonly at: number;
  /** Of each group how far it was. */
  readonly read: ReadonlyMap<string, number>;
}

export const routes = ({ pool, log }: Pick<ApiPorts, "pool" | "log">): readonly Route[] => {
  let asked: { readonly at: number; readonly answer: Promise<readonly object[]> } | undefined;
  let before: GroupsAt | undefined;
  const look = async (): Promise<readonly object[]> => {
    const groups = await log((sources) => groupsNow({ pool, ...sources, topology: pipeline }, Date.now()));
    const now: GroupsAt = { at: performance.now(), read: new Map(groups.map((one) => [one.group, readOf(one)])) };
    const shown = groups.map((one) => ({ ...shownOf(one), rate: rateOf(one.group, before, now) }));
    if (before === undefined || now.at - before.at >= RATE_MS.least) before = now;
    return shown;
  };
  return [
    route(readGroups, async () => {
      const now = performance.now();
      if (asked === undefined || now - asked.at > CACHED_MS) {
        const answer = look();
        const current = { at: now, answer };
        asked = current;
        // A failure is answered once, and not kept.
        answer.catch(() => {
          if (asked === current) asked = undefined;
        });
      }
      return { body: { data: await asked.answer } };
    }),
  ];
};

const readOf = ({ partitions }: GroupRead): number =>
  partitions.reduce((sum, { committed, low }) => sum + (committed ?? low), 0);

/** Null also after a rewind: what was gone back by is no rate. */
const rateOf = (group: string, before: GroupsAt | undefined, now: GroupsAt): number | null => {
  const was = before?.read.get(group);
  if (before === undefined || was === undefined) return null;
  const ms = now.at - before.at;
  const records = now.read.get(group)! - was;
  return ms < RATE_MS.least || ms > RATE_MS.most || records < 0 ? null : Math.round((records / ms) * 10_000) / 10;
};

const shownOf = ({ members, seconds, partitions, hold, ...group }: GroupRead) => ({
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
