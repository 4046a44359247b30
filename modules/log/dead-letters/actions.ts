// Retries and discards dead letters for a person, with an audit entry. The command line and the
// platform API call these functions.
import type { Pool } from "pg";
import { beginOperation, type OperationPorts } from "../../base/operations/operations.ts";
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

/**
 * A route maps undefined to 404 and `wrong_state` to 409, and otherwise returns the changed letter.
 */
type Answer = Letter | "wrong_state" | undefined;

/** Makes a waiting or parked letter due now. */
export const retryLetter = async (
  ports: ActionPorts,
  letterId: string,
  by: { readonly actor: string; readonly scope: LetterScope },
): Promise<Answer> => {
  const letter = await findLetter(ports.pool, letterId, by.scope);
  if (letter === undefined) return undefined;
  if (letter.state !== "waiting" && letter.state !== "parked") return "wrong_state";
  const { ids } = await retryLetters(ports, { ids: [letterId] }, by.actor);
  return ids.length === 0 ? "wrong_state" : findLetter(ports.pool, letterId, by.scope);
};

/** Discards an open letter. */
export const discardLetter = async (
  ports: ActionPorts,
  letterId: string,
  by: { readonly actor: string; readonly reason: string; readonly scope: LetterScope },
): Promise<Answer> => {
  const letter = await findLetter(ports.pool, letterId, by.scope);
  if (letter === undefined) return undefined;
  const { ids } = await discardLetters(ports, { ids: [letterId] }, by);
  return ids.length === 0 ? "wrong_state" : findLetter(ports.pool, letterId, by.scope);
};
