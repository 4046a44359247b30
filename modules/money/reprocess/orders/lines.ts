// Settles the orders of the window again with today's rows in their claims, and compares each line
// with the one that settle remembers.
import { isSameSet } from "../../../../processors/settle/decisions/reprocess.ts";
import { isInParts, keysOfOrder, orderFrom } from "../../../../processors/settle/memory.ts";
import {
  DISPUTED,
  isUnnamed,
  type Line,
  type OrderState,
  rowOf,
  TOTAL_AND_LINES,
} from "../../../../processors/settle/order.ts";
import type { Claim, EventAttributed } from "../../../../schemas/generated.ts";
import type { Recorded } from "../../../../stream/flow.ts";
import { topics } from "../../../../topics.ts";
import { type Change, changeOf, type DecisionInput, recreditOf } from "../changes.ts";
import type { Claims, KeptOrder } from "../claims.ts";
import { changedParts, type Part, withStanding } from "../compare.ts";
import { type ReprocessPorts, type ReprocessSettings, TooMuch } from "../ports.ts";
import { claimsOf, isLeftAlone, type SettledAgain, settledAgain } from "./settle-again.ts";

export interface ComparedLines {
  readonly changes: readonly Change[];
  readonly counts: LineCounts;
}
export interface LineCounts {
  /** Lines whose first copy was received in the window. */
  readonly lines: number;
  /** Lines that settle has not read yet, or whose order it began with another copy. */
  readonly not_settled: number;
  /**
   * Lines that are missing in events.raw near their window, e.g. after a long outage of the log.
   * They are compared with the rows of their first reading.
   */
  readonly not_read: number;
  /** Lines that would differ but were decided by a person. */
  readonly decided: number;
  /** Lines of orders that stay as they are, because their totals or amounts cannot be set back. */
  readonly of_totals: number;
}

/** Orders loaded in one round trip to the database. */
const ORDERS_AT_ONCE = 200;

const keyOf = ({ client_id, order_key }: KeptOrder): string => `${client_id}:${order_key}`;

/**
 * Returns each claim once; the first one is that which settle used. It may lie before the span:
 * then settle remembers another time of receipt.
 */
const claimsIn = (kept: KeptOrder, claims: Claims, state: OrderState | undefined): readonly Recorded<Claim>[] => {
  const received = new Map(
    [...(state?.lines ?? []), ...(state?.refunds ?? [])].map((one) => [one.event_id, one.received_at]),
  );
  const byId = new Map<string, Recorded<Claim>>();
  for (const one of kept.claims) {
    const claim = claims.decode(one);
    // The order is as if it had never come, and neither has what was sent again under its id.
    const { decision, attributed } = claim.data;
    if (decision === null && state?.withdrawn.includes(attributed.event.event_id) === true) continue;
    const first = claim.data.moved === null ? received.get(claim.id) : undefined;
    if (!byId.has(claim.id) && (first ?? claim.receivedAt) === claim.receivedAt) byId.set(claim.id, claim);
  }
  return [...byId.values()];
};

/**
 * Returns what settle remembers under these record keys of `claims`; an unknown order is absent.
 */
export const rememberedOrders = async (
  memory: ReprocessPorts["memory"],
  keys: readonly string[],
): Promise<ReadonlyMap<string, OrderState>> => {
  const wanted = { stage: "settle", eventIds: [], topic: topics.claims.name, partition: 0 };
  const heads = await memory.load({ ...wanted, keys });
  const inParts = [...heads.versions].flatMap(([key, found]) => (isInParts(found.at(-1)!.value) ? [key] : []));
  const parts =
    inParts.length === 0 ? heads : await memory.load({ ...wanted, keys: inParts.flatMap((key) => keysOfOrder(key)) });
  const bytesOf = (key: string) => (parts.versions.get(key) ?? heads.versions.get(key))?.at(-1)?.value;
  return new Map([...heads.versions.keys()].map((key) => [key, orderFrom(key, bytesOf)!]));
};

const isIn = (line: Line, { from, to }: ReprocessSettings): boolean =>
  line.received_at >= from && line.received_at < to;

/** Works in pieces, to bound memory and to keep the event loop responsive. */
const eachOrder = async (
  ports: ReprocessPorts,
  claims: Claims,
  work: (kept: KeptOrder, state: OrderState | undefined) => void,
): Promise<void> => {
  const all = [...claims.orders.values()];
  for (let n = 0; n < all.length; n += ORDERS_AT_ONCE) {
    const some = all.slice(n, n + ORDERS_AT_ONCE);
    const states = await rememberedOrders(ports.memory, some.map(keyOf));
    for (const kept of some) work(kept, states.get(keyOf(kept)));
  }
};

const isOfAnother = (claims: readonly number[], { partner_id }: Line): boolean =>
  partner_id !== null && claims.some((partner) => partner !== partner_id);

/**
 * Returns why a line of the window waits for review. An earlier line, which is not computed again,
 * blocks it when it would be credited to another partner today, and could still earn when this one
 * came.
 */
const reviewOf = (made: Line, again: SettledAgain, state: OrderState, settings: ReprocessSettings): string | null => {
  const { from } = settings;
  // Whether a line that does not name its product was held when this one came is not remembered.
  const known = lineIn(state, made.event_id)?.review ?? null;
  const isOfUnnamed = made.review === TOTAL_AND_LINES || (made.review === null && known === TOTAL_AND_LINES);
  if (isOfUnnamed && state.lines.some((line) => isUnnamed(line) && !isIn(line, settings))) return known;
  if (made.review !== null) return made.review;
  const ended = again.endedBefore(made.event_id);
  const isHeld = state.lines.some((line) => {
    if (line.received_at >= from || line.event_id === made.event_id) return false;
    const today = lineIn(again.state, line.event_id);
    if (today === undefined || isSameSet(claimsOf(line), claimsOf(today))) return false;
    return isOfAnother(ended.get(line.event_id) ?? claimsOf(line), made);
  });
  return isHeld ? DISPUTED : null;
};

/**
 * Returns lines after the window that now have to wait, because a line of the window is credited to
 * another partner only today, and could still earn when they came.
 */
const heldBehind = (again: SettledAgain, state: OrderState, settings: ReprocessSettings): readonly Line[] => {
  const gained = again.state.lines
    .filter((made) => isIn(made, settings))
    .flatMap((made) => {
      const line = lineIn(state, made.event_id);
      if (line === undefined || (line.is_decided && !settings.overridesDecisions)) return [];
      const claims = claimsOf(made).filter((partner) => !claimsOf(line).includes(partner));
      return claims.length === 0 ? [] : [{ made, claims }];
    });
  if (gained.length === 0) return [];
  const isHeld = (line: Line): boolean => {
    const ended = again.endedBefore(line.event_id);
    return gained.some(({ made, claims }) => {
      const holding = ended.get(made.event_id);
      return isOfAnother(holding === undefined ? claims : claims.filter((one) => holding.includes(one)), line);
    });
  };
  return state.lines.filter(
    (line) =>
      line.received_at >= settings.to &&
      line.status === "credited" &&
      !line.is_decided &&
      line.review === null &&
      isHeld(line),
  );
};

/** Parts that a person decides about. */
const isOfCredit = (part: Part): boolean => part === "credit" || part === "review";

/** Returns today's row of a line, and the parts in which the line differs today. */
const todayOf = (line: Line, made: Line, review: string | null, { stage }: ReprocessSettings) => {
  const before = rowOf(line);
  const { enrichment, fraud, credit } = rowOf(made);
  const today: EventAttributed = { ...before, ...withStanding(before, { enrichment, fraud, credit }, stage) };
  const found = changedParts(before, today, stage);
  const isClaimedAlike = line.claimed_by === null || isSameSet(line.claimed_by, claimsOf(made));
  const parts: readonly Part[] = line.review === review && isClaimedAlike ? found : [...found, "review"];
  return { before, today, parts };
};

/** Returns the change of a line, and whether only a person's decision prevents a larger one. */
const changeOfLine = (
  order_key: string,
  line: Line,
  { made, review }: { readonly made: Line; readonly review: string | null },
  settings: ReprocessSettings,
  deciding: DecisionInput,
): { readonly change: Change | null; readonly isHeldByDecision: boolean } => {
  const { before, today, parts } = todayOf(line, made, review, settings);
  const isDecided = line.is_decided && !settings.overridesDecisions;
  const isHeldByDecision = isDecided && parts.some(isOfCredit);
  const kept = isDecided ? parts.filter((part) => !isOfCredit(part)) : parts;
  if (kept.length === 0) return { change: null, isHeldByDecision };
  const change = changeOf(deciding, {
    scope: "line",
    order_key,
    at: line.at,
    before,
    today: isDecided ? { ...today, credit: before.credit } : today,
    review: isDecided ? line.review : review,
    overrides: settings.overridesDecisions,
    claimed_by: claimsOf(isDecided ? line : made),
    parts: kept,
  });
  return { change, isHeldByDecision };
};

/** Makes a line wait for review. */
const holdOf = (order_key: string, line: Line, deciding: DecisionInput): Change => {
  const row = rowOf(line);
  const said = { review: DISPUTED, overrides: false, claimed_by: claimsOf(line), parts: ["review"] } as const;
  return changeOf(deciding, { scope: "line", order_key, at: line.at, before: row, today: row, ...said });
};

const lineIn = (state: OrderState | undefined, eventId: string): Line | undefined =>
  state?.lines.find(({ event_id }) => event_id === eventId);

export const compareLines = async (
  ports: ReprocessPorts,
  settings: ReprocessSettings,
  claims: Claims,
  rowOfToday: (eventId: string) => EventAttributed | undefined,
  deciding: DecisionInput,
): Promise<ComparedLines> => {
  const changes: Change[] = [];
  const counts = { lines: 0, not_settled: 0, not_read: 0, decided: 0, of_totals: 0 };
  const add = (change: Change): void => {
    changes.push(change);
    if (changes.length > ports.limits.changes) throw new TooMuch("sales that would change", ports.limits.changes);
  };
  await eachOrder(ports, claims, (kept, state) => {
    const read = claimsIn(kept, claims, state);
    if (state !== undefined && isLeftAlone(state, read)) {
      const own = state.lines.filter((line) => isIn(line, settings)).length;
      counts.lines += own;
      counts.of_totals += own;
      return;
    }
    const again = settledAgain(read, state, rowOfToday, !settings.overridesDecisions);
    const hasDecided = !settings.overridesDecisions && state?.lines.some(({ is_decided }) => is_decided) === true;
    // The result without the standing decision shows whether that decision makes a difference.
    const without = hasDecided ? settledAgain(read, state, rowOfToday, false) : again;
    for (const made of again.state.lines.filter((line) => isIn(line, settings))) {
      counts.lines += 1;
      if (rowOfToday(made.event_id) === undefined) counts.not_read += 1;
      const line = lineIn(state, made.event_id);
      if (state === undefined || line === undefined) {
        counts.not_settled += 1;
        continue;
      }
      const like = line.is_decided ? (lineIn(without.state, made.event_id) ?? made) : made;
      const today = { made: like, review: reviewOf(like, again, state, settings) };
      const { change, isHeldByDecision } = changeOfLine(kept.order_key, line, today, settings, deciding);
      if (isHeldByDecision) counts.decided += 1;
      if (change !== null) add(change);
    }
    if (state !== undefined)
      for (const line of heldBehind(again, state, settings)) add(holdOf(kept.order_key, line, deciding));
  });
  return { changes, counts };
};

/** Credits every credited line of the window again. Settle then shows which of them move money. */
export const creditedLines = async (
  ports: ReprocessPorts,
  settings: ReprocessSettings,
  claims: Claims,
  deciding: DecisionInput,
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
  return { changes, counts: { lines, not_settled: 0, not_read: 0, decided: 0, of_totals: 0 } };
};
