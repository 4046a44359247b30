// Computes the money that decisions would move: runs settle and commission on top of their memory,
// without writing to it.
import type { Claim, Conversion, LedgerEntry } from "../../../schemas/generated.ts";
import { chain } from "../../../stream/chain.ts";
import type { Recorded } from "../../../stream/flow.ts";
import { inMemory } from "../../../stream/memory/in-memory.ts";
import { topics } from "../../../topics.ts";
import { type Change, readAgain } from "./changes.ts";
import { overlay } from "./overlay.ts";
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
/** Called for each ledger entry that would be written, with the decision that causes it. */
export type OnEntry = (entry: LedgerEntry, decisionId: string) => void;
export type MoneyPorts = Pick<ReprocessPorts, "topology" | "wire" | "memory" | "read">;

/** Decisions whose memory is loaded at once. */
const DECISIONS_AT_ONCE = 200;
const NO_PARTITION = { topic: topics.claims.name, partition: 0 } as const;

/**
 * Returns a function that computes the ledger entries of decisions. It keeps its memory in this
 * process only.
 */
export const entriesOf = (ports: MoneyPorts, onEntry: OnEntry) => {
  const durable = overlay(ports.memory);
  const fold = (stage: string) =>
    shadow(chain(ports.topology, [stage]), {
      wire: ports.wire,
      memories: { fast: inMemory("fast"), durable },
      read: ports.read,
    });
  const settled = fold("settle");
  const committed = fold("commission");
  /**
   * Later calls add changes of the same run, on top of the memory that earlier calls left in the
   * shadow.
   */
  return async (changes: readonly Pick<Change, "message">[]): Promise<void> => {
    for (let n = 0; n < changes.length; n += DECISIONS_AT_ONCE) {
      const decisions: readonly Recorded<Claim>[] = changes
        .slice(n, n + DECISIONS_AT_ONCE)
        .map((change, at) => readAgain(ports.wire, change, n + at));
      const conversions = (await settled(decisions, NO_PARTITION))
        .filter(({ topic }) => topic === topics.conversions)
        .map(({ event }) => event as Recorded<Conversion>);
      const causes = new Map(conversions.map(({ id, data }) => [id, data.cause_event_id]));
      for (const { event } of await committed(conversions, NO_PARTITION)) {
        const entry = event.data as LedgerEntry;
        onEntry(entry, causes.get(entry.change_id)!);
      }
    }
  };
};

export const moneyOf = async (ports: MoneyPorts, changes: readonly Pick<Change, "message">[]): Promise<MovedMoney> => {
  const sums = new Map<string, MoneyMove>();
  const byDecision = new Map<string, Map<string, bigint>>();
  const fold = entriesOf(ports, ({ client_id, partner_id, year, month, currency, amount_minor }, decisionId) => {
    const key = `${client_id} ${partner_id} ${year} ${month} ${currency}`;
    const known = sums.get(key) ?? { client_id, partner_id, year, month, currency, commission_minor: 0n };
    sums.set(key, { ...known, commission_minor: known.commission_minor + amount_minor });
    const own = byDecision.get(decisionId) ?? new Map<string, bigint>();
    own.set(key, (own.get(key) ?? 0n) + amount_minor);
    byDecision.set(decisionId, own);
  });
  await fold(changes);
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
