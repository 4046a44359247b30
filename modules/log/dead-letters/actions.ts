// Retries and discards dead letters for a person, with an audit entry. The command line and the
// platform API call these functions.
import type { Pool } from "pg";
import { beginOperation, type OperationPorts } from "../../base/operations/operations.ts";
import { conflict, missing, type RefusalError } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import type { Letter } from "./letter.ts";
import { discardOpen, type LetterFilter, type LetterScope, listLetters, makeDue } from "./letter-reads.ts";

export interface ActionPorts {
  readonly pool: Pool;
  readonly audit: OperationPorts;
}
export interface ActionResult {
  readonly operation: string;
  /** Letters that the action changed. */
  readonly ids: readonly string[];
}

const said = (filter: LetterFilter): string =>
  filter.ids?.join(" ") ?? (JSON.stringify(filter) === "{}" ? "all" : JSON.stringify(filter));

/**
 * Makes waiting and parked letters due now; the keeper sends them within seconds. Writes to the
 * audit before and after. A crash in between leaves them either due or unchanged.
 */
export const retryLetters = async (
  { pool, audit }: ActionPorts,
  filter: LetterFilter,
  actor: string,
): Promise<ActionResult> => {
  const operation = await beginOperation(audit, { kind: "dead_letter_retry", actor, target: said(filter) }, { filter });
  try {
    const ids = await makeDue(pool, filter, Date.now());
    await operation.end("succeeded", { letters: ids.length, ids: ids.slice(0, 1_000) });
    return { operation: operation.id, ids };
  } catch (error) {
    await operation.end("failed", { problem: (error as Error).message });
    throw error;
  }
};

/** Discards open letters for good. The letter and the audit record who did it and why. */
export const discardLetters = async (
  { pool, audit }: ActionPorts,
  filter: LetterFilter,
  { actor, reason }: { readonly actor: string; readonly reason: string },
): Promise<ActionResult> => {
  const operation = await beginOperation(
    audit,
    { kind: "dead_letter_discard", actor, target: said(filter), reason },
    { filter },
  );
  try {
    const ids = await discardOpen(pool, filter, { actor, reason, now: Date.now() });
    await operation.end("succeeded", { letters: ids.length, ids: ids.slice(0, 1_000) });
    return { operation: operation.id, ids };
  } catch (error) {
    await operation.end("failed", { problem: (error as Error).message });
    throw error;
  }
};

/**
 * Returns one letter within a scope (null: every letter), or undefined when the scope has no such
 * letter.
 */
export const findLetter = async (pool: Pool, letterId: string, scope: LetterScope): Promise<Letter | undefined> =>
  (await listLetters(pool, { ids: [letterId] }, { scope, limit: 1 }))[0];

/** Makes a waiting or parked letter due now. Throws RefusalError: missing, conflict. */
export const retryLetter = async (
  ports: ActionPorts,
  letterId: string,
  by: { readonly actor: string; readonly scope: LetterScope },
): Promise<Letter> => {
  const { state } = await letterOf(ports.pool, letterId, by.scope);
  if (state !== "waiting" && state !== "parked") throw notOpen();
  const { ids } = await retryLetters(ports, { ids: [letterId] }, by.actor);
  if (ids.length === 0) throw notOpen();
  return letterOf(ports.pool, letterId, by.scope);
};

/** Discards an open letter. Throws RefusalError: missing, conflict. */
export const discardLetter = async (
  ports: ActionPorts,
  letterId: string,
  by: { readonly actor: string; readonly reason: string; readonly scope: LetterScope },
): Promise<Letter> => {
  await letterOf(ports.pool, letterId, by.scope);
  const { ids } = await discardLetters(ports, { ids: [letterId] }, by);
  if (ids.length === 0) throw notOpen();
  return letterOf(ports.pool, letterId, by.scope);
};

const letterOf = async (pool: Pool, letterId: string, scope: LetterScope): Promise<Letter> => {
  const letter = await findLetter(pool, letterId, scope);
  if (letter === undefined) throw missing();
  return letter;
};

const notOpen = (): RefusalError => conflict("conflict", "this letter is not open, or is on its way just now");

/** Records an action on a letter in the audit of Postgres. */
export const recordLetter = (
  { audit }: Pick<Work, "audit">,
  action: "dead_letter.retried" | "dead_letter.discarded",
  { letter_id, client_id, kind, stage, code, state, close_reason }: Letter,
): Promise<void> => {
  const after = { kind, stage, code, state, ...(close_reason !== null && { reason: close_reason }) };
  return audit({ action, client_id, entity: `dead_letter:${letter_id}`, after });
};
