// A shop whose past can be reprocessed: the ports of reprocessing on a log and memories in this
// process.

import type { ReferenceRows } from "../../domain/reference/reference.ts";
import { type Difference, differenceOf } from "../../modules/money/reprocess/difference.ts";
import {
  defaultLimits,
  type LatestRow,
  type ReprocessPorts,
  type ReprocessSettings,
} from "../../modules/money/reprocess/ports.ts";
import type { EventAttributed } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { inMemory } from "../../stream/memory/in-memory.ts";
import type { Memory } from "../../stream/memory/memory.ts";
import { pipeline } from "../../topology.ts";
import { dayMs, noon } from "./builders.ts";
import { readingOf } from "./reprocess-log.ts";
import { knowing, type Shop, shop } from "./shop.ts";

/** The time of the decisions: two days after all events. */
export const later: UnixMs = noon + 2 * dayMs;

export interface Reprocessed extends Shop {
  /** Computes the difference with today's reference rows; writes nothing. */
  readonly difference: (
    rows: Partial<ReferenceRows>,
    over?: Partial<ReprocessSettings> &
      Partial<Pick<ReprocessPorts, "limits" | "now" | "withholds">> &
      Parameters<typeof readingOf>[1],
  ) => Promise<Difference>;
  readonly memory: Memory;
  /** Publishes what a difference would write, then runs every stage. */
  readonly write: (difference: Pick<Difference, "changes">) => Promise<void>;
  /** The newest version of each event. */
  readonly current: () => ReadonlyMap<string, EventAttributed>;
  /**
   * The net earnings of each partner in each month, by `partner year-month currency`. Zeros are
   * included.
   */
  readonly earnings: () => Readonly<Record<string, bigint>>;
}

export const reprocessed = (rows: Partial<ReferenceRows>): Reprocessed => {
  const memories = { fast: inMemory("fast"), durable: inMemory("durable") };
  const driven = shop(rows, { memories });
  const current = (): ReadonlyMap<string, EventAttributed> => {
    const newest = new Map<string, EventAttributed>();
    for (const row of driven.stored())
      if ((newest.get(row.event.event_id)?.version ?? 0) < row.version) newest.set(row.event.event_id, row);
    return newest;
  };
  return {
    ...driven,
    current,
    memory: memories.durable,
    difference: async (today, { limits = defaultLimits, now = later, withholds, lateBy, onMessage, ...over } = {}) => {
      const rowsOf = current();
      return differenceOf(
        {
          topology: pipeline,
          wire: driven.wire,
          read: knowing(today),
          memory: memories.durable,
          now,
          limits,
          withholds,
          ...readingOf(driven, { lateBy, onMessage }),
          standing: async (_, events) =>
            new Map<string, LatestRow>(
              events.flatMap(({ event_id }) => (rowsOf.has(event_id) ? [[event_id, rowsOf.get(event_id)!]] : [])),
            ),
        },
        {
          from: noon - dayMs,
          to: noon + dayMs,
          stage: "attribute",
          clientId: null,
          overridesDecisions: false,
          actor: "operator:test",
          reason: "a rule was wrong",
          ...over,
        },
      );
    },
    write: async ({ changes }) => {
      for (const { message } of changes) await driven.sendMessage(message);
    },
    earnings: () => {
      const sums: Record<string, bigint> = {};
      const seen = new Set<string>();
      for (const { entry_id, partner_id, year, month, currency, amount_minor } of driven.entries()) {
        if (seen.has(entry_id)) continue;
        seen.add(entry_id);
        const key = `${partner_id} ${year}-${month} ${currency}`;
        sums[key] = (sums[key] ?? 0n) + amount_minor;
      }
      return Object.fromEntries(Object.entries(sums).filter(([, sum]) => sum !== 0n));
    },
  };
};
