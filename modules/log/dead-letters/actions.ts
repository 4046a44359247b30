// What people do with dead letters, audited: retry and discard, for the command line and the
// platform API.
import type { Pool } from "pg";
import { beginOperation, type OperationPorts } from "../../base/operations/operations.ts";
import type { Letter } from "./letter.ts";
import { discardOpen, type LetterFilter, type LetterScope, listLetters, makeDue } from "./letter-reads.ts";

export interface ActionPorts {
  readonly pool: Pool;
  readonly audit: OperationPorts;
}
export interface Done {
  readonly operation: string;
  /** Letters that were touched. */
  readonly ids: readonly string[];
}

const said = (filter: LetterFilter): string =>
  filter.ids?.join(" ") ?? (JSON.stringify(filter) === "{}" ? "all" : JSON.stringify(filter));

/**
 * Waiting and parked letters are due now, and the keeper sends them within seconds. Written to the
 * audit before and after; dying in between, the letters are due or they are not.
 */
export const retryLetters = async (
  { pool, audit }: ActionPorts,
  filter: LetterFilter,
  actor: string,
): Promise<Done> => {
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

/** Open letters are given up for good, with who and why in the letter and in the audit. */
export const discardLetters = async (
  { pool, audit }: ActionPorts,
  filter: LetterFilter,
  { actor, reason }: { readonly actor: string; readonly reason: string },
): Promise<Done> => {
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

/** One letter within a scope (null: every letter); undefined when there is none in it. */
export const findLetter = async (pool: Pool, letterId: string, scope: LetterScope): Promise<Letter | undefined> =>
  (await listLetters(pool, { ids: [letterId] }, { scope, limit: 1 }))[0];

/** For a route: undefined is 404, `wrong_state` is 409, else the letter as it is now. */
type Answer = Letter | "wrong_state" | undefined;

/** A waiting or parked one is due now. */
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

/** An open one is given up. */
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
