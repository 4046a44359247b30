// Saves reference data within a unit of work. Everything that a transaction saves is one change
// that takes effect at one time.
import type { UnixMs } from "../../../stream/flow.ts";
import { keepScope } from "../../access/scope.ts";
import { conflict, type Refusal, RefusalError } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import type { ReferenceChanges } from "./entities.ts";
import { beginChange, type OpenChange, stampChange } from "./open-change.ts";
import { type ReferenceProblem, ReferenceRefused } from "./problem.ts";
import { insertChange, type WrittenIds } from "./writer.ts";

export interface ChangeWords {
  /** Refusal codes for values that another record has already, by field: { slug: "slug_taken" }. */
  readonly conflicts?: Readonly<Record<string, string>>;
  /**
   * Returns the place in the input of an entry of the changes, e.g. /commissions/2. By default the
   * entry is the whole input.
   */
  readonly placeOf?: (entity: string, n: number) => string;
}

/** The change that a work has begun, until its transaction ends. */
const begun = new WeakMap<Work, OpenChange>();
const moments = new WeakMap<Work, UnixMs>();

/**
 * The receive time of events from which on this work's change applies. Undefined before the end of
 * the work, and if it changed nothing.
 */
export const actsFrom = (work: Work): UnixMs | undefined => moments.get(work);

/**
 * Adds rows to this work's change, within the caller's scope. The first call begins the change,
 * which then has 2 s; the end of the work sets the time at which it takes effect. Throws
 * RefusalError.
 */
export const changeReference = async (
  work: Work,
  changes: ReferenceChanges,
  words: ChangeWords = {},
): Promise<WrittenIds> => {
  const { tx, scope, act } = work;
  let change = begun.get(work);
  if (change === undefined) {
    const opened = await beginChange(tx, act.actor);
    begun.set(work, opened);
    work.atEnd(async () => void moments.set(work, await stampChange(tx, opened)));
    change = opened;
  }
  try {
    const written = await insertChange(tx, changes, change, new Set(scope.clients));
    await keepScope(tx, scope);
    return { change_id: change.change_id, ...written };
  } catch (error) {
    throw error instanceof ReferenceRefused ? refusalOf(error.problems, words) : error;
  }
};

/**
 * A value that another record has already is a conflict with the domain's code; any other problem
 * is invalid input.
 */
const refusalOf = (
  problems: readonly ReferenceProblem[],
  { conflicts = {}, placeOf = () => "" }: ChangeWords,
): RefusalError => {
  const refusals = problems.map(({ code, field, message }): Refusal => {
    const path = pathOf(field, placeOf);
    return { kind: "invalid", code, path, message };
  });
  for (const { path, code, message } of refusals) {
    const known = conflicts[path.slice(path.lastIndexOf("/") + 1)];
    if (code === "conflict" && known !== undefined) return conflict(known, message, { path });
  }
  return new RefusalError(refusals);
};

/**
 * Maps `clients[0].attribution.click_window_days` to /attribution/click_window_days of the input.
 */
const pathOf = (field: string, placeOf: NonNullable<ChangeWords["placeOf"]>): string => {
  const [, entity = "", n, rest = ""] = /^(\w+)\[(\d+)\](.*)$/.exec(field) ?? [];
  return placeOf(entity, Number(n)) + rest.replace(/\[(\d+)\]/g, ".$1").replaceAll(".", "/");
};
