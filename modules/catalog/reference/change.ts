// Saves reference data within a unit of work: whatever a transaction saves is one change with one
// moment.
import type { UnixMs } from "../../../stream/flow.ts";
import { keepScope } from "../../access/scope.ts";
import { conflict, type Refusal, RefusalError } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import type { ReferenceChanges } from "./entities.ts";
import { beginChange, type OpenChange, stampChange } from "./open-change.ts";
import { type ReferenceProblem, ReferenceRefused } from "./problem.ts";
import { insertChange, type WrittenIds } from "./writer.ts";

export interface ChangeWords {
  /**
   * Codes of the domain for fields that another thing has already, by field: { slug: "slug_taken"
   * }.
   */
  readonly conflicts?: Readonly<Record<string, string>>;
  /**
   * Where an entry of the changes stands in the input, e.g. /commissions/2; else it is the input.
   */
  readonly placeOf?: (entity: string, n: number) => string;
}

/** The change that a work has begun, until its transaction ends. */
const begun = new WeakMap<Work, OpenChange>();
const moments = new WeakMap<Work, UnixMs>();

/**
 * The receive time of events from which on the change of this work is known; undefined before its
 * end, and when it changed nothing.
 */
export const actsFrom = (work: Work): UnixMs | undefined => moments.get(work);

/**
 * Adds rows to the change of this work, within the scope of the caller; the first call begins it,
 * and its moment is set at the end of the work. From the first call on the work has 2 s. Throws
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
 * A field that another thing has is a conflict with the code of the domain, all else is invalid.
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

/** `clients[0].attribution.click_window_days` is /attribution/click_window_days of the input. */
const pathOf = (field: string, placeOf: NonNullable<ChangeWords["placeOf"]>): string => {
  const [, entity = "", n, rest = ""] = /^(\w+)\[(\d+)\](.*)$/.exec(field) ?? [];
  return placeOf(entity, Number(n)) + rest.replace(/\[(\d+)\]/g, ".$1").replaceAll(".", "/");
};
