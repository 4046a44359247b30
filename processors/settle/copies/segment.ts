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

/**
 * A word of a higher rank replaces one of a lower rank; of one rank the first stays. `order` is the
 * client's word of the whole order to which a line belongs, or of the lines of a total.
 */
const RANKS = { partner: 1, order: 2, page: 3, client: 4 } as const;

/** What a line is worth knowing of its segment when there is one copy. */
const wordOf = (event: EventReceived): SegmentWord => {
  const client_spoke = isOfClient(event);
  if (event.product_line === null) return { by: null, client_spoke };
  return { by: client_spoke ? "client" : isOfPartner(event) ? "partner" : "page", client_spoke };
};

/** What the client's own systems say of a line without naming it: by a total, or by its lines. */
export interface OrderWord {
  readonly client_spoke: boolean;
  readonly product_line: string | null;
}

export const orderWordOf = (known: SegmentWord | null, event: EventReceived): OrderWord => {
  const { by, client_spoke } = known ?? wordOf(event);
  return { client_spoke, product_line: by === "client" ? event.product_line : null };
};

const isSame = (a: SegmentWord, b: SegmentWord): boolean => a.by === b.by && a.client_spoke === b.client_spoke;

/**
 * The segment of a line after a further copy, whatever the order of arrival: that of the client's
 * own systems, else that of a page, else the client's word of the whole order, else that of a
 * partner if the client's own systems are silent. `segment_word` is null as long as it follows from
 * the row of the first copy.
 */
export const segmentAfter = (
  known: SegmentWord | null,
  first: EventReceived,
  copy: EventReceived,
  orderWord: OrderWord | null,
): { readonly product_line: string | null; readonly segment_word: SegmentWord | null } => {
  const before = known ?? wordOf(first);
  const own = wordOf(copy);
  const isOfOrder = own.by === null && orderWord !== null && orderWord.product_line !== null;
  const said: SegmentWord = isOfOrder ? { ...own, by: "order" } : own;
  const isTaken = said.by !== null && (before.by === null || RANKS[said.by] > RANKS[before.by]);
  const by = isTaken ? said.by : before.by;
  const client_spoke = before.client_spoke || said.client_spoke || orderWord?.client_spoke === true;
  const isVoid = by === "partner" && client_spoke;
  const product_line = isVoid ? null : isTaken ? (copy.product_line ?? orderWord!.product_line) : first.product_line;
  const word: SegmentWord = { by: isVoid ? null : by, client_spoke };
  return { product_line, segment_word: isSame(word, wordOf({ ...first, product_line })) ? null : word };
};
