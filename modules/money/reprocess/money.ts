// Computes the money that decisions would move: runs settle and commission on top of their memory,
// without writing to it.
import type { Claim, Conversion, LedgerEntry } from "../../../schemas/generated.ts";
import { chain } from "../../../stream/chain.ts";
import type { Recorded } from "../../../stream/flow.ts";
import { inMemory } from "../../../stream/memory/in-memory.ts";
import type { Memory } from "../../../stream/memory/memory.ts";
import { topics } from "../../../topics.ts";
import { type Change, readAgain } from "./changes.ts";
import { overlay, tentative } from "./overlay.ts";
import type { ReprocessPorts } from "./ports.ts";
import { shadow } from "./shadow.ts";

export interface MoneyMove {
  readonly client_id: number;
  readonly partner_id: number;
  readonly year: number;
  readonly month: number;
  readonly currency: string;
  /** The gain or loss of the partner's commission in that month. */
  readonly commission_minor: bigint;
}
export interface MovedMoney {
  readonly moved: readonly MoneyMove[];
  /** Whether a decision moves anything, by its id. */
  readonly moves: ReadonlySet<string>;
}
export type MoneyPorts = Pick<ReprocessPorts, "topology" | "wire" | "memory" | "read">;

/** Decisions whose memory is loaded at once. */
const DECISIONS_AT_ONCE = 200;
const NO_PARTITION = { topic: topics.claims.name, partition: 0 } as const;

/** A ledger entry that would be written, and the decision that causes it. */
export interface BookedBy {
  readonly entry: LedgerEntry;
  readonly decision_id: string;
}
type Sendable = Pick<Change, "decision_id" | "message">;

/** Folds decisions on top of a memory; later calls see what earlier ones left in it. */
const folding = (ports: MoneyPorts, durable: Memory) => {
  const fold = (stage: string) =>
    shadow(chain(ports.topology, [stage]), {
      wire: ports.wire,
      memories: { fast: inMemory("fast"), durable },
      read: ports.read,
    });
  const [settled, committed] = [fold("settle"), fold("commission")];
  return async (changes: readonly Pick<Change, "message">[]): Promise<readonly BookedBy[]> => {
    const decisions: readonly Recorded<Claim>[] = changes.map((change, at) => readAgain(ports.wire, change, at));
    const conversions = (await settled(decisions, NO_PARTITION))
      .filter(({ topic }) => topic === topics.conversions)
      .map(({ event }) => event as Recorded<Conversion>);
    const causes = new Map(conversions.map(({ id, data }) => [id, data.cause_event_id]));
    return (await committed(conversions, NO_PARTITION)).map(({ event }) => {
      const entry = event.data as LedgerEntry;
      return { entry, decision_id: causes.get(entry.change_id)! };
    });
  };
};

/** The first of the changes that is left out because of the entries that it would write. */
type Judge<One extends Sendable> = (changes: readonly One[], booked: readonly BookedBy[]) => number;

/**
 * Returns a function that chooses among decisions, in their order, by what each would write once
 * those before it have been chosen. What it returns as booked is the fold of exactly the chosen
 * ones: a decision that is left out fills no cap and moves no tier for the others. Later calls
 * continue from there.
 */
export const choosing = <One extends Sendable>(ports: MoneyPorts, firstLeft: Judge<One>) => {
  const memory = tentative(overlay(ports.memory));
  const fold = folding(ports, memory);
  return async (changes: readonly One[]) => {
    const chosen: One[] = [];
    const booked: BookedBy[] = [];
    const left: { readonly change: One; readonly booked: readonly BookedBy[] }[] = [];
    for (let n = 0, size = DECISIONS_AT_ONCE; n < changes.length; ) {
      const some = changes.slice(n, n + size);
      const entries = await fold(some);
      const first = firstLeft(some, entries);
      if (first === -1) {
        await memory.keep();
        chosen.push(...some);
        booked.push(...entries);
        n += some.length;
        size = Math.min(size * 2, DECISIONS_AT_ONCE);
        continue;
      }
      memory.drop();
      // Those before it are folded once more without it. One that comes first is left out.
      if (first > 0) size = first;
      else {
        const change = some[0]!;
        left.push({ change, booked: entries.filter(({ decision_id }) => decision_id === change.decision_id) });
        n += 1;
        // Where one is left out there are often more.
        size = 1;
      }
    }
    return { chosen, booked, left };
  };
};

export const moneyOf = async (ports: MoneyPorts, changes: readonly Pick<Change, "message">[]): Promise<MovedMoney> => {
  const sums = new Map<string, MoneyMove>();
  const byDecision = new Map<string, Map<string, bigint>>();
  const fold = folding(ports, overlay(ports.memory));
  const add = ({ entry, decision_id }: BookedBy): void => {
    const { client_id, partner_id, year, month, currency, amount_minor } = entry;
    const key = `${client_id} ${partner_id} ${year} ${month} ${currency}`;
    const known = sums.get(key) ?? { client_id, partner_id, year, month, currency, commission_minor: 0n };
    sums.set(key, { ...known, commission_minor: known.commission_minor + amount_minor });
    const own = byDecision.get(decision_id) ?? new Map<string, bigint>();
    own.set(key, (own.get(key) ?? 0n) + amount_minor);
    byDecision.set(decision_id, own);
  };
  for (let n = 0; n < changes.length; n += DECISIONS_AT_ONCE)
    for (const one of await fold(changes.slice(n, n + DECISIONS_AT_ONCE))) add(one);
  const moves = [...byDecision].filter(([, own]) => [...own.values()].some((sum) => sum !== 0n)).map(([id]) => id);
  return {
    moved: [...sums.values()].filter(({ commission_minor }) => commission_minor !== 0n).sort(inOrder),
    moves: new Set(moves),
  };
};

const inOrder = (a: MoneyMove, b: MoneyMove): number =>
  a.client_id - b.client_id ||
  a.partner_id - b.partner_id ||
  a.year - b.year ||
  a.month - b.month ||
  (a.currency < b.currency ? -1 : 1);
