// The row of a file whose word about its order was withdrawn.
import type { Credit, EventAttributed } from "../../../schemas/generated.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { rowOfCopy } from "../copies/merge-copy.ts";
import type { Line, OrderState } from "../order.ts";

export interface WithdrawResult {
  readonly rows: readonly { readonly row: EventAttributed; readonly at: UnixMs }[];
  readonly state: OrderState;
}

/** Why a conversion was closed, and why the row of the file credits no partner. */
export const UNDONE = "import_undone";

/** The row of the file: it is left out of everything that is current. */
export const undoneRow = (row: EventAttributed, version: number, into: string): EventAttributed => {
  const copy = rowOfCopy(row, into);
  const candidates: Credit["candidates"] = row.credit.candidates.map((one) =>
    one.outcome === "won" ? { ...one, outcome: UNDONE } : one,
  );
  return { ...copy, credit: { ...copy.credit, reason: UNDONE, candidates }, version };
};

/** All of them are remembered for ever, so their number has a limit. */
const MOST_WITHDRAWN = 100;
export const withWithdrawn = ({ withdrawn }: OrderState, eventId: string): readonly string[] =>
  [...withdrawn, eventId].slice(-MOST_WITHDRAWN);

/**
 * True if a person has given the line to another partner than the row did. It then stands by the
 * word of that person, though nothing else is left of it.
 */
export const isGivenSince = ({ is_decided, partner_id }: Line, row: EventAttributed): boolean =>
  is_decided && partner_id !== null && partner_id !== row.credit.partner_id;
