// Settles the orders of the window again with today's rows in their claims, and compares each line
// with the one that settle remembers.
import { emptyOrder, type Line, type OrderState, order, rowOf } from "../../processors/settle/order.ts";
import { settle } from "../../processors/settle/settle.ts";
import type { Claim, EventAttributed } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { type Change, changeOf, type Deciding, recreditOf } from "./changes.ts";
import type { Claims, KeptOrder } from "./claims.ts";
import { changedParts, type Part, withStanding } from "./compare.ts";
import { type ReprocessPorts, type ReprocessSettings, TooMuch } from "./ports.ts";

export interface ComparedLines {
  readonly changes: readonly Change[];
  readonly counts: LineCounts;
}
export interface LineCounts {
  /** Whose first copy was received in the window. */
  readonly lines: number;
  /** Settle has not met them yet, or began the order with another copy. */
  readonly not_settled: number;
  /**
   * Not met in events.raw near their window, as after a long outage of the log: compared as they
   * were read then.
   */
  readonly not_read: number;
  /** Would differ, and a person has decided about them. */
  readonly decided: number;
}

/**
 * What a person decides; a finding of a job belongs to what is known about the order, independent
 * of the credit.
 */
const byPeople: ReadonlySet<string> = new Set(["assign", "reattribute", "take_back", "release", "reject"]);
const computed: ReadonlySet<string> = new Set(["reprocess", "recredit"]);

/** Loaded at once: one round trip to the database. */
const ORDERS_AT_ONCE = 200;

const keyOf = ({ client_id, order_key }: KeptOrder): string => `${client_id}:${order_key}`;

/** As the order would stand, had its events been read today. */
const settledAgain = (
  kept: KeptOrder,
  claims: Claims,
  rowOfToday: (eventId: string) => EventAttributed | undefined,
  hasDecisions: boolean,
): OrderState => {
  const seen = new Set<string>();
  let state = emptyOrder;
  for (const one of kept.claims) {
    const claim = claims.decode(one);
    if (seen.has(claim.id)) continue;
    seen.add(claim.id);
    const kind = claim.data.decision?.kind;
    if (kind !== undefined && (computed.has(kind) || (!hasDecisions && byPeople.has(kind)))) continue;
    const today = claim.data.kind === "conversion" ? rowOfToday(claim.id) : undefined;
    const read: Recorded<Claim> =
      today === undefined ? claim : { ...claim, data: { ...claim.data, attributed: today } };
    const outcome = settle(read, state, null);
    if (outcome.kind === "emit") state = outcome.state;
  }
  return state;
};

const load = async (
  { memory }: ReprocessPorts,
  kept: readonly KeptOrder[],
): Promise<ReadonlyMap<string, OrderState>> => {
  const keys = kept.map(keyOf);
  const { versions } = await memory.load({
    stage: "settle",
    keys,
    eventIds: [],
    topic: topics.claims.name,
    partition: 0,
  });
  return new Map(
    [...versions].flatMap(([key, found]) =>
      found.length === 0 ? [] : [[key, order.stateOf([key], [found.at(-1)!.value])]],
    ),
  );
};

const isIn = (line: Line, { from, to }: ReprocessSettings): boolean =>
  line.received_at >= from && line.received_at < to;

/** In pieces, so that neither memory nor the loop of this process is held for long. */
const eachOrder = async (
  ports: ReprocessPorts,
  claims: Claims,
  work: (kept: KeptOrder, state: OrderState | undefined) => void,
): Promise<void> => {
  const all = [...claims.orders.values()];
  for (let n = 0; n < all.length; n += ORDERS_AT_ONCE) {
    const some = all.slice(n, n + ORDERS_AT_ONCE);
    const states = await load(ports, some);
    for (const kept of some) work(kept, states.get(keyOf(kept)));
  }
};

export const compareLines = async (
  ports: ReprocessPorts,
  settings: ReprocessSettings,
  claims: Claims,
  rowOfToday: (eventId: string) => EventAttributed | undefined,
  deciding: Deciding,
): Promise<ComparedLines> => {
  const changes: Change[] = [];
  const counts = { lines: 0, not_settled: 0, not_read: 0, decided: 0 };
  const one = ({ order_key }: KeptOrder, made: Line, line: Line): void => {
    const before = rowOf(line);
    const row = rowOf(made);
    const isDecided = line.is_decided && !settings.overridesDecisions;
    const target: EventAttributed = {
      ...before,
      ...withStanding(before, { enrichment: row.enrichment, fraud: row.fraud, credit: row.credit }, settings.stage),
    };
    const found = changedParts(before, target, settings.stage);
    const parts: readonly Part[] = line.review === made.review ? found : [...found, "review"];
    if (isDecided && parts.some((part) => part === "credit" || part === "review")) counts.decided += 1;
    const kept = isDecided ? parts.filter((part) => part === "fraud" || part === "enrichment") : parts;
    if (kept.length === 0) return;
    const today = isDecided ? { ...target, credit: before.credit } : target;
    const review = isDecided ? line.review : made.review;
    changes.push(
      changeOf(deciding, {
        scope: "line",
        order_key,
        at: line.at,
        before,
        today,
        review,
        overrides: settings.overridesDecisions,
        parts: kept,
      }),
    );
    if (changes.length > ports.limits.changes) throw new TooMuch("sales that would change", ports.limits.changes);
  };
  await eachOrder(ports, claims, (kept, state) => {
    const again = settledAgain(kept, claims, rowOfToday, !settings.overridesDecisions);
    const hasDecided = !settings.overridesDecisions && state?.lines.some(({ is_decided }) => is_decided) === true;
    // What would be without the decision that stands: to say that it stands against something.
    const without = hasDecided ? settledAgain(kept, claims, rowOfToday, false) : again;
    for (const made of again.lines.filter((line) => isIn(line, settings))) {
      counts.lines += 1;
      if (rowOfToday(made.event_id) === undefined) counts.not_read += 1;
      const line = state?.lines.find(({ product_key }) => product_key === made.product_key);
      if (line === undefined || line.event_id !== made.event_id) counts.not_settled += 1;
      else
        one(
          kept,
          line.is_decided ? (without.lines.find(({ product_key }) => product_key === made.product_key) ?? made) : made,
          line,
        );
    }
  });
  return { changes, counts };
};

/**
 * Every line of the window that somebody is credited for, credited again; which of them moves money
 * is seen when it is settled.
 */
export const creditedLines = async (
  ports: ReprocessPorts,
  settings: ReprocessSettings,
  claims: Claims,
  deciding: Deciding,
): Promise<ComparedLines> => {
  const changes: Change[] = [];
  let lines = 0;
  await eachOrder(ports, claims, ({ order_key }, state) => {
    for (const line of state?.lines.filter((known) => isIn(known, settings)) ?? []) {
      lines += 1;
      if (line.status !== "credited") continue;
      const conversion = `${line.conversion_id} ${line.conversion_version}`;
      changes.push(recreditOf(deciding, { order_key, at: line.at, row: rowOf(line), conversion }));
      if (changes.length > ports.limits.changes) throw new TooMuch("credited sales", ports.limits.changes);
    }
  });
  return { changes, counts: { lines, not_settled: 0, not_read: 0, decided: 0 } };
};
