// Who reports a sale, and whose word its segment is. The segment selects the contract, so a partner
// must not choose it where the client itself reports the sale.
import type { EventReceived } from "../../../schemas/generated.ts";

/**
 * True if a partner reports what it is paid for. Such a report is believed of a sale that no other
 * server has reported, and amends none. Before events said so, every file counts as a partner's.
 */
export const isOfPartner = ({ by_partner, source }: EventReceived): boolean => by_partner ?? source === "upload";

/** True for the word of the client's own systems. */
export const isOfClient = (event: EventReceived): boolean => !event.client_side && !isOfPartner(event);

/** Who named the segment of a line, and whether the client's own systems reported the line. */
export interface SegmentWord {
  readonly by: keyof typeof RANKS | null;
  readonly client_spoke: boolean;
}

/** A word of a higher rank replaces one of a lower rank; of one rank the first stays. */
const RANKS = { partner: 1, page: 2, client: 3 } as const;

/** What a line is worth knowing of its segment when there is one copy. */
const wordOf = (event: EventReceived): SegmentWord => {
  const client_spoke = isOfClient(event);
  if (event.product_line === null) return { by: null, client_spoke };
  return { by: client_spoke ? "client" : isOfPartner(event) ? "partner" : "page", client_spoke };
};

const isSame = (a: SegmentWord, b: SegmentWord): boolean => a.by === b.by && a.client_spoke === b.client_spoke;

/**
 * The segment of a line after a further copy, whatever the order of arrival: that of the client's
 * own systems, else that of a page, else that of a partner if the client's own systems are silent
 * about the line. `segment_word` is null as long as it follows from the row of the first copy.
 */
export const segmentAfter = (
  known: SegmentWord | null,
  first: EventReceived,
  copy: EventReceived,
  isToldByClient: boolean,
): { readonly product_line: string | null; readonly segment_word: SegmentWord | null } => {
  const before = known ?? wordOf(first);
  const said = wordOf(copy);
  const isTaken = said.by !== null && (before.by === null || RANKS[said.by] > RANKS[before.by]);
  const by = isTaken ? said.by : before.by;
  const client_spoke = before.client_spoke || said.client_spoke || isToldByClient;
  const isVoid = by === "partner" && client_spoke;
  const product_line = isVoid ? null : isTaken ? copy.product_line : first.product_line;
  const word: SegmentWord = { by: isVoid ? null : by, client_spoke };
  return { product_line, segment_word: isSame(word, wordOf({ ...first, product_line })) ? null : word };
};

/** True if the client's own systems reported the line, by any of its copies. */
export const isToldByClient = (known: SegmentWord | null, first: EventReceived): boolean =>
  known?.client_spoke ?? isOfClient(first);
