// The subject of an erasure, in the forms in which the stores hold it. The plain subject stays
// inside the call.
import { isPlaceholder, spelling, spellingsOf } from "../../../domain/ids.ts";
import { hashedForm } from "../../../domain/personal/across.ts";
import { SCRUBBED } from "../../../domain/personal/erased-mark.ts";
import type { Identify } from "../../../domain/personal/identify.ts";
import { scrubText } from "../../../domain/personal/personal-data.ts";
import { type SubjectKind, subjectsOf } from "../../../domain/personal/suppression.ts";
import { isWeakDid } from "../../../processors/admit/event.ts";
import { invalid } from "../../base/refusal.ts";

export interface ErasedSubject {
  readonly kind: SubjectKind;
  /** As the list of erased subjects has it. */
  readonly forms: readonly string[];
  /** The ids of a lead or of an order as rows have them. Empty for other kinds. */
  readonly ids: readonly string[];
  /**
   * What stands in the place of an order's id. One for all of its rows, so that it counts as one
   * order.
   */
  readonly orderName: string | null;
}

const MAX = 1_024;
const HASH = /^[0-9a-f]{64}$/;

const problemOf = (kind: SubjectKind, value: string): string | null => {
  if (value === "" || value.length > MAX) return `give 1 to ${MAX} characters`;
  if ((kind === "email" || kind === "phone") && !HASH.test(value) && hashedForm(kind, value) === undefined)
    return `this is no ${kind === "email" ? "e-mail address" : "telephone number"}`;
  if (kind === "did" && isWeakDid(value)) return "this is a placeholder that many devices share";
  if (kind === "order_id" && isPlaceholder(spelling(value))) return "this is a placeholder that many orders share";
  return null;
};

/**
 * Refuses what many share and what is malformed. A device is given as its sender knows it, or as
 * events show it (64 hex digits); such a text is taken as both.
 */
export const subjectOf = (kind: SubjectKind, given: string, identify: Identify): ErasedSubject => {
  const value = kind === "order_id" ? spelling(given) : given.trim();
  const problem = problemOf(kind, value);
  if (problem !== null) throw invalid(`/${kind}`, "bad_subject", problem);
  const forms = [
    ...subjectsOf(kind, kind === "email" || kind === "phone" ? value : given, identify),
    ...(kind === "did" && HASH.test(value) ? [value] : []),
  ];
  const leadIds =
    kind === "client_lead_id"
      ? [...new Set([given, ...spellingsOf(given)].flatMap((id) => [id, scrubText(id, identify).value]))]
      : [];
  return {
    kind,
    forms,
    ids: kind === "order_id" ? spellingsOf(given) : leadIds,
    orderName: kind === "order_id" ? `${SCRUBBED}${identify.plain(`order ${value}`).slice(0, 32)}` : null,
  };
};
