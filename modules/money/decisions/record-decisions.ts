// Makes decisions durable: first the audit, then the log, then the caller's commit.
import { dayOf, lockedFrom } from "../../../domain/calendar.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import type { Line } from "../../../processors/settle/order.ts";
import type { Claim } from "../../../schemas/generated.ts";
import type { Work } from "../../base/work.ts";
import { auditOf, claimOf, type PersonsDecision } from "./decide.ts";
import { newestVersion, type SaleMatch } from "./find-sales.ts";

export interface DecisionPorts {
  readonly clickhouse: Clickhouse;
  /** Writes decisions to the log; resolves when the log has them. */
  readonly decide: (decisions: readonly Claim[]) => Promise<void>;
}

/** The actor and the reason, which all decisions of a request share. */
export interface DecisionWords {
  /** A sentence for the audit. */
  readonly reason: string;
  /** The person in the claim: user:7, operator:ana. */
  readonly actor: string;
}

/** A decision with the lines concerned, as they were before. */
export interface NewDecision {
  readonly decided: PersonsDecision;
  readonly lines: readonly Line[];
}

export interface DecisionOutcome {
  /** Null: no decision was made. */
  readonly decision_id: string | null;
  /**
   * accepted: the log has it; applied: settle has applied it. unchanged and rejected occur only for
   * one item of many.
   */
  readonly status: "accepted" | "applied" | "unchanged" | "rejected";
  /** The newest version of its lines; null: there is none yet. */
  readonly version: number | null;
  /** True if the month of a line is locked. */
  readonly closed_period?: boolean;
  /** The place of one item in the input, and why it was rejected. */
  readonly index?: number;
  readonly code?: string | null;
}
export interface DecidedSales {
  /** One outcome for each sale, in their order. */
  readonly outcomes: readonly DecisionOutcome[];
  readonly sales: readonly SaleMatch[];
}

/**
 * Writes the audit, then the log; the caller commits. A process that dies before the commit has
 * decided without an audit row. Repeating the request with its key makes the same decision again
 * and writes the row.
 */
export const recordDecisions = async (
  { audit }: Pick<Work, "audit">,
  { decide }: Pick<DecisionPorts, "decide">,
  made: readonly NewDecision[],
  action?: string,
): Promise<void> => {
  await audit(...made.map(({ decided, lines }) => auditOf(decided, lines, action)));
  if (made.length > 0) await decide(made.map(({ decided }) => claimOf(decided)));
};

/** The outcome of a decision that settle has not applied yet. */
export const acceptedOutcome = (decision_id: string, lines: readonly Line[]): DecisionOutcome => ({
  decision_id,
  status: "accepted",
  version: newestVersion(lines),
  closed_period: lines.some(({ at }) => Date.now() >= lockedFrom(dayOf(at))),
});
