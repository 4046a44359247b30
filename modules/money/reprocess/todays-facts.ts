// Facts of today: those valid at event time, as they are known now. Hints are the ones recorded on
// each event, because hints are read only once (law R14).

import { type Reference, reference } from "../../../domain/reference/reference.ts";
import { type IdentityClicks, identityClicks } from "../../../processors/attribute/facts.ts";
import { type Hints, hints } from "../../../processors/score/facts.ts";
import type { Credit, Fraud, FraudHints } from "../../../schemas/generated.ts";
import type { Read, UnixMs } from "../../../stream/flow.ts";

export interface TodaysFacts {
  readonly read: Read;
  readonly reference: Reference;
  /** Call it before an event is folded; `clear` forgets the rows. */
  readonly recorded: (eventId: string, row: { readonly fraud: Fraud; readonly credit: Credit }) => void;
  readonly clear: () => void;
}

export const openToday = async (read: Read, now: UnixMs): Promise<TodaysFacts> => {
  const known = await read(reference, now);
  // Includes rows that were saved this very moment: after a rule is corrected, reprocessing at once
  // must use the corrected rule.
  const today: Reference = { ...known, asOf: now, at: (validAt) => known.at(validAt, Number.MAX_SAFE_INTEGER) };
  const hinted = new Map<string, FraudHints>();
  const linked = new Map<string, string>();
  const asRecorded: Hints = { lookUp: async () => hinted };
  const asLinked: IdentityClicks = { lookUp: async () => linked };
  const served: Readonly<Record<string, unknown>> = {
    [reference.view]: today,
    [hints.view]: asRecorded,
    [identityClicks.view]: asLinked,
  };
  return {
    reference: today,
    read: async (view, asOf) =>
      (Object.hasOwn(served, view.view) ? served[view.view] : await read(view, asOf)) as never,
    recorded: (eventId, { fraud, credit }) => {
      if (fraud.hints !== null) hinted.set(eventId, fraud.hints);
      const link = credit.candidates.find(({ method }) => method === "identity");
      if (link !== undefined) linked.set(eventId, link.reference);
    },
    clear: () => {
      hinted.clear();
      linked.clear();
    },
  };
};
