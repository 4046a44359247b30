// A unit of work: the transaction of a use case with its audit, its outbox and its time. The
// platform API, the command line and jobs open one and run use cases in it.
import type { PoolClient } from "pg";
import type { UnixMs } from "../../stream/flow.ts";
import { type Act, type AuditEntry, writeAudit } from "./audit/audit.ts";
import { missing } from "./refusal.ts";

/** The clients whose rows the caller sees. */
export interface Scope {
  readonly clients: readonly number[];
  /** True for admins, the operator's command line, and viewers without assigned clients. */
  readonly isAll: boolean;
}

/**
 * The clients of a filter; undefined: every client of the caller. Throws RefusalError: missing for
 * an unknown client, and for one that the caller may not see.
 */
export const clientsAsked = ({ clients }: Pick<Scope, "clients">, clientId: number | undefined): readonly number[] => {
  if (clientId === undefined) return clients;
  if (!clients.includes(clientId)) throw missing();
  return [clientId];
};

/** Reads in one snapshot that sees the clients of the caller and no others. */
export type ScopedRead = <T>(work: (tx: PoolClient, scope: Scope) => Promise<T>) => Promise<T>;

/** The tools of a use case, all in one transaction. */
export interface Work {
  readonly tx: PoolClient;
  readonly scope: Scope;
  /** The actor, for the audit. */
  readonly act: Act;
  /** When the work began. */
  readonly now: UnixMs;
  /** Writes rows of the audit. */
  readonly audit: (...entries: readonly AuditEntry[]) => Promise<void>;
  /**
   * Returns a UUID for the n-th thing that the work makes outside of Postgres. It stays the same if
   * the request is repeated with its Idempotency-Key. Without a key each call returns a new one.
   */
  readonly idOf: (n: number) => string;
  /** Runs `step` once after the use case, before the answer is built from the saved rows. */
  readonly atEnd: (step: () => Promise<void>) => void;
}

export type WorkParts = Pick<Work, "tx" | "scope" | "act" | "idOf">;

/**
 * Runs a use case, then its steps for the end, then `answer`, all in the transaction of `parts`.
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
