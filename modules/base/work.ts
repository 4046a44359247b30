// One unit of work: the transaction of a use case with its audit, its outbox and its moment. The
// platform API, the command line and jobs each open one and run use cases in it.
import type { PoolClient } from "pg";
import type { UnixMs } from "../../stream/flow.ts";
import { type Act, type AuditEntry, writeAudit } from "./audit/audit.ts";

/** Whose rows the caller sees. */
export interface Scope {
  readonly clients: readonly number[];
  /** Admin, the operator's command line, and a viewer to whom no client is assigned. */
  readonly isAll: boolean;
}

/** What a use case works with, all of it one transaction. */
export interface Work {
  readonly tx: PoolClient;
  readonly scope: Scope;
  /** Who acts, for the audit. */
  readonly act: Act;
  /** When the work began. */
  readonly now: UnixMs;
  /** Writes rows of the audit. */
  readonly audit: (...entries: readonly AuditEntry[]) => Promise<void>;
  /**
   * A UUID for the n-th thing that the work makes outside of Postgres: the same each time the
   * request comes with its Idempotency-Key. Without a key each call makes another.
   */
  readonly idOf: (n: number) => string;
  /** Runs `step` once after the use case, and before the answer is built from what it saved. */
  readonly atEnd: (step: () => Promise<void>) => void;
}

export type WorkParts = Pick<Work, "tx" | "scope" | "act" | "idOf">;

/**
 * Runs a use case, then what it left for the end, then `answer`: all in the transaction of `parts`.
 */
export const runWork = async <Result, Answer>(
  parts: WorkParts,
  useCase: (work: Work) => Promise<Result>,
  answer: (result: Result, work: Work) => Answer | Promise<Answer>,
): Promise<Answer> => {
  const { tx, act } = parts;
  const steps: (() => Promise<void>)[] = [];
  const work: Work = {
    ...parts,
    now: Date.now(),
    audit: (...entries) => writeAudit(tx, act, ...entries),
    atEnd: (step) => void steps.push(step),
  };
  const result = await useCase(work);
  for (const step of steps) await step();
  return answer(result, work);
};
