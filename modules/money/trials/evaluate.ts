// Tries a rule on stored events, oldest first, page by page: the credits it would make, the
// decisions for them, and what these would book. Writes nothing.
import { reference } from "../../../domain/reference/reference.ts";
import { keysOfEvent, orderKeyOf } from "../../../processors/attribute/claims.ts";
import { isLeftToRecalc } from "../../../processors/settle/decisions/reprocess.ts";
import { DISPUTED, type Line, type OrderState, rowOf } from "../../../processors/settle/order.ts";
import type { Credit, EventAttributed } from "../../../schemas/generated.ts";
import type { History, HistoryPlace, HistoryWindow, StoredEvent } from "../../../sinks/analytics/history.ts";
import { type Change, changeOf, type DecisionInput, recreditOf } from "../reprocess/changes.ts";
import { changedParts } from "../reprocess/compare.ts";
import type { BookedBy } from "../reprocess/money.ts";
import { rememberedOrders } from "../reprocess/orders/lines.ts";
import { holdingClaimsOf } from "../reprocess/orders/settle-again.ts";
import type { ReprocessPorts } from "../reprocess/ports.ts";
import { choosingDecisions, type Fate, type Period, type Proposal } from "./choose-decisions.ts";
import { type RuleTrial, standsAgainstRules, type TriedRule, tryRule } from "./try-rule.ts";

export interface EvaluationPorts extends Pick<ReprocessPorts, "topology" | "wire" | "memory" | "read" | "now"> {
  readonly history: History;
}
export interface EvaluationInput {
  readonly rule: TriedRule;
  readonly window: HistoryWindow;
  /** The actor that every decision names. */
  readonly actor: string;
  readonly reason: string;
  /** False: the decisions move no money. */
  readonly recalculates?: boolean;
  /** The progress of an earlier process; null: start at the beginning. */
  readonly after?: HistoryPlace | null;
}

export interface Match {
  readonly stored: StoredEvent;
  /** The stored credit. */
  readonly before: Credit;
  readonly after: Credit;
  /** The decision that makes it so. Undefined if nothing is to decide. */
  readonly change: Change | undefined;
  readonly fate: Fate;
}
export interface Page {
  readonly matches: readonly Match[];
  /** Matching events that another rule wins, counted by that rule. */
  readonly lostTo: ReadonlyMap<number, number>;
  /** Ledger entries of exactly the decisions that are sent, with the decision of each. */
  readonly entries: readonly BookedBy[];
  /** Where decisions that are left in closed months would have moved money. */
  readonly closed: readonly Period[];
  /** Events of the window that were processed so far, and all of them. */
  readonly passed: number;
  readonly total: number;
  /** The place of the page's last event; for an empty page, the place where it began. */
  readonly end: HistoryPlace | null;
}
export interface EvaluationCounts {
  readonly evaluated: number;
  /** More events lie in the window, or `onPage` stopped the run. */
  readonly truncated: boolean;
}

/** The limit in the contract of a backfill. */
const MOST_EVENTS = 50_000;
const PAGE = 1_000;
/** A snapshot may be a second old, while a change saved this moment has to count. */
const FRESH_MS = 1_000;

/** `onPage` returns whether to continue. Throws what its ports throw. */
export const evaluateRule = async (
  ports: EvaluationPorts,
  { rule, window, actor, reason, recalculates, after: begins = null }: EvaluationInput,
  onPage: (page: Page) => Promise<boolean>,
): Promise<EvaluationCounts> => {
  const { rule_id, client_id } = rule;
  const known = await ports.read(reference, ports.now + FRESH_MS);
  const deciding: DecisionInput = { wire: ports.wire, now: ports.now, actor, reason, recalculates };
  const { times, last, isCut } = await ports.history.end(client_id, window, MOST_EVENTS);
  if (last === undefined) return { evaluated: 0, truncated: false };
  const total = times.length;
  const choose = choosingDecisions(ports, recalculates ?? true, ports.now);
  for (let after = begins; ; ) {
    const found = await ports.history.matching(client_id, window, {
      ...{ when: rule.when, rule_id, after: after ?? undefined, last, limit: PAGE },
    });
    const tried = found.flatMap((stored) => {
      const one = tryRule(stored, rule, known);
      return one === null ? [] : [{ stored, ...one }];
    });
    const proposed = await matchesIn(ports, rule, tried, deciding);
    const { fateOf, booked, closed } = await choose(proposed);
    const matches = proposed.map((one) => ({ ...one, fate: fateOf(one) }));
    const lostTo = new Map<number, number>();
    for (const one of tried) if (one.lostTo !== null) lostTo.set(one.lostTo, (lostTo.get(one.lostTo) ?? 0) + 1);
    const [isLast, newest] = [found.length < PAGE, found.at(-1)];
    if (newest !== undefined) after = { ts: newest.event.ts, event_id: newest.event.event_id };
    const end = after;
    const passed = isLast ? total : times.filter((ts) => ts <= end!.ts).length;
    const goesOn = await onPage({ matches, lostTo, entries: booked, closed, passed, total, end });
    if (isLast) return { evaluated: total, truncated: isCut };
    if (!goesOn) return { evaluated: passed, truncated: true };
  }
};

type ProposedMatch = Omit<Match, "fate"> & Proposal;
type TriedEvent = RuleTrial & { readonly stored: StoredEvent };

/** True when the rule gains the event, or loses one that it is credited with now. */
const concerns = ({ isMatch, stored }: TriedEvent, { rule_id, mode }: TriedRule): boolean =>
  !standsAgainstRules(stored.credit) && (isMatch || (mode === "with_active" && stored.credit.rule_id === rule_id));

const matchesIn = async (
  ports: EvaluationPorts,
  rule: TriedRule,
  tried: readonly TriedEvent[],
  deciding: DecisionInput,
): Promise<readonly ProposedMatch[]> => {
  const concerned = tried.filter((one) => concerns(one, rule));
  const keys = [...new Set(concerned.flatMap(({ stored }) => keysOf(stored)).map((key) => `${rule.client_id}:${key}`))];
  const orders = new Map<string, OrderState>();
  for (let n = 0; n < keys.length; n += ORDERS_AT_ONCE)
    for (const [key, state] of await rememberedOrders(ports.memory, keys.slice(n, n + ORDERS_AT_ONCE)))
      orders.set(key, state);
  const isConcerned = new Set(concerned.map(({ stored }) => stored.event.event_id));
  return concerned.flatMap((one) => {
    const place = lineOf(one.stored, rule.client_id, orders);
    if (place !== undefined) return lineMatch(one, place, isConcerned, deciding);
    // A sale that settle has not read yet, or refused, has no line to decide about.
    return one.isConversion ? [] : [eventMatch(one, deciding)];
  });
};

/** Orders loaded in one round trip to the database. */
const ORDERS_AT_ONCE = 200;

const keysOf = ({ event }: StoredEvent): readonly string[] => keysOfEvent(event);

interface Place {
  readonly order_key: string;
  readonly line: Line;
  readonly order: OrderState;
}
const lineOf = (stored: StoredEvent, clientId: number, orders: ReadonlyMap<string, OrderState>): Place | undefined => {
  for (const order_key of keysOf(stored)) {
    const order = orders.get(`${clientId}:${order_key}`);
    const line = order?.lines.find(({ event_id }) => event_id === stored.event.event_id);
    if (order !== undefined && line !== undefined) return { order_key, line, order };
  }
  return undefined;
};

const eventMatch = ({ stored, credit }: TriedEvent, deciding: DecisionInput): ProposedMatch => {
  const { event, enrichment, fraud, version, merged_into } = stored;
  const before: EventAttributed = {
    ...{ event, enrichment, fraud, credit: stored.credit, version, merged_into },
    refunded_minor: null,
  };
  const today = { ...before, credit };
  const parts = changedParts(before, today, "attribute");
  const about = {
    ...({ scope: "event", order_key: orderKeyOf(event), at: Math.min(event.ts, stored.received_at) } as const),
    ...{ before, today, parts, review: null, overrides: false, claimed_by: [] },
  };
  const change = parts.length === 0 ? undefined : changeOf(deciding, about);
  return { stored, before: stored.credit, after: credit, change, isHeld: false, isAgain: false };
};

const lineMatch = (
  { stored, credit }: TriedEvent,
  { order_key, line, order }: Place,
  isConcerned: ReadonlySet<string>,
  deciding: DecisionInput,
): readonly ProposedMatch[] => {
  const before = rowOf(line);
  if (line.is_decided || standsAgainstRules(before.credit)) return [];
  const today: EventAttributed = { ...before, credit };
  const parts = changedParts(before, today, "attribute");
  const match = { stored, before: before.credit, after: credit };
  if (parts.length === 0) {
    if (line.status !== "credited") return [{ ...match, change: undefined, isHeld: false, isAgain: false }];
    const conversion = `${line.conversion_id} ${line.conversion_version}`;
    const again = recreditOf(deciding, { order_key, at: line.at, row: before, conversion });
    return [{ ...match, change: again, isHeld: false, isAgain: true }];
  }
  const others = order.lines
    .filter(({ event_id }) => event_id !== line.event_id && !isConcerned.has(event_id))
    .flatMap(holdingClaimsOf);
  const isDisputed = credit.partner_id !== null && others.some((partner) => partner !== credit.partner_id);
  const review = line.review ?? (isDisputed ? DISPUTED : null);
  const change = changeOf(deciding, {
    ...({ scope: "line", order_key, at: line.at, before, today, parts, overrides: false, review } as const),
    claimed_by: credit.partner_id === null ? [] : [credit.partner_id],
  });
  const { partner_id, campaign_id } = credit;
  return [{ ...match, change, isHeld: isLeftToRecalc(line, { partner_id, campaign_id, review }), isAgain: false }];
};
