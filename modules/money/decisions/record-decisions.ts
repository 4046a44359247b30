// Makes decisions durable: the audit, then the log, then the commit of the caller.
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

/** Who decides, and why: the same of every decision. */
export interface DecisionWords {
  /** In words, for the audit. */
  readonly reason: string;
  /** As the claim names the person: user:7, operator:ana. */
  readonly actor: string;
}

/** A decision with the lines that it is about, as they were before. */
export interface NewDecision {
  readonly decided: PersonsDecision;
  readonly lines: readonly Line[];
}

export interface DecisionOutcome {
  /** Null: nothing was decided. */
  readonly decision_id: string | null;
  /** accepted: the log has it; applied: settle has, too. unchanged, rejected: of one of many. */
  readonly status: "accepted" | "applied" | "unchanged" | "rejected";
  /** Of the newest row of its lines; null: there is none yet. */
  readonly version: number | null;
  /** A month of its lines is locked. */
  readonly closed_period?: boolean;
  /** Where one of many stands in the input, and why it is rejected. */
  readonly index?: number;
  readonly code?: string | null;
}
export interface DecidedSales {
  /** One for each sale, in their order. */
  readonly outcomes: readonly DecisionOutcome[];
  readonly sales: readonly SaleMatch[];
}

/**
 * The audit first, then the log, and then the commit. A process that dies between the last two has
 * decided without an audit row; the same request with its key is the same decision, and writes it.
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

/** How a decision about these lines stands before settle has applied it. */
export const acceptedOutcome = (decision_id: string, lines: readonly Line[]): DecisionOutcome => ({
  decision_id,
  status: "accepted",
  version: newestVersion(lines),
  closed_period: lines.some(({ at }) => Date.now() >= lockedFrom(dayOf(at))),
});
