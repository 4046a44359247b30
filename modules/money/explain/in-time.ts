// The order in which the conversions of a sale were opened. No time of it is stored, but their ids
// are made of the claim that opened them, and each names the claim that changed it last.
import { derivedId, prefixed } from "../../../domain/ids.ts";
import type { StoredConversion } from "../../../sinks/conversions/table.ts";

type Conversion = Pick<
  StoredConversion,
  "conversion_id" | "event_id" | "cause_event_id" | "occurred_at" | "status" | "reason"
>;

/** Ids that are computed at most; an order of thousands of lines keeps the order of ids. */
const MOST_IDS = 20_000;

/** Returns the claim that opened a conversion, if it is one of these. */
const openersOf = (causes: readonly string[], mostChanges: number): ReadonlyMap<string, string> => {
  if (causes.length * mostChanges > MOST_IDS) return new Map();
  const numbers = Array.from({ length: mostChanges }, (_, n) => n);
  const idOf = (cause: string, n: number): string => prefixed("cnv", derivedId("settle", cause, "conversion", n));
  return new Map(causes.flatMap((cause) => numbers.map((n) => [idOf(cause, n), cause] as const)));
};

/**
 * Returns the conversions, the oldest sale first, and those of one line as they followed each
 * other. `is_opened_again`: the claim that closed it opened another one of the same line.
 * `mostChanges`: how often a claim changes the order at most.
 */
export const inTime = <One extends Conversion>(
  conversions: readonly One[],
  mostChanges: number,
): readonly (One & { readonly is_opened_again: boolean })[] => {
  const openers = openersOf([...new Set(conversions.map(({ cause_event_id }) => cause_event_id))], mostChanges);
  const keyOf = ({ event_id }: Conversion, cause: string): string => `${event_id} ${cause}`;
  const closed = new Map(
    conversions.flatMap((one) => (one.status === "reversed" ? [[keyOf(one, one.cause_event_id), one] as const] : [])),
  );
  const before = (one: Conversion): One | undefined => {
    const opener = openers.get(one.conversion_id);
    const found = opener === undefined ? undefined : closed.get(keyOf(one, opener));
    return found?.conversion_id === one.conversion_id ? undefined : found;
  };
  const openedAgain = new Set(conversions.map(before));
  const placeOf = (one: Conversion): number => {
    let place = 0;
    for (let at = before(one); at !== undefined && place < conversions.length; at = before(at)) place += 1;
    return place;
  };
  return conversions
    .map((one) => ({ one: { ...one, is_opened_again: openedAgain.has(one) }, place: placeOf(one) }))
    .sort((a, b) => a.one.occurred_at - b.one.occurred_at || a.place - b.place)
    .map(({ one }) => one);
};
