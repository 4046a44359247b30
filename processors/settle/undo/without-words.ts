// Withdraws a row of a file from an order that does not remember its claims: of before this was
// kept, too large, or with too many claims since.
import type { Decision, EventReceived } from "../../../schemas/generated.ts";
import { changeLines } from "../change-lines.ts";
import { type Changes, closeLine } from "../credit-line.ts";
import { decideLine, isAbout } from "../decisions/decide.ts";
import { isLead } from "../match-line.ts";
import { type Line, type OrderState, rowOf } from "../order.ts";
import { asTheirSales } from "../refund.ts";
import { without } from "../totals/total.ts";
import { UNDONE, undoneRow, type WithdrawResult, withWithdrawn } from "./undone-row.ts";

const nothing = (state: OrderState): WithdrawResult => ({ rows: [], state });

/** True for a line that its first copy alone has made. */
const isAlone = ({ copies, total_from, stands }: Line): boolean => copies === 0 && total_from === null && !stands;

/** The partners of the lines that are left, if all of them know theirs. */
const claimsOn = (lines: readonly Line[], before: readonly number[]): readonly number[] =>
  lines.some(({ claimed_by }) => claimed_by === null)
    ? before
    : [...new Set(lines.flatMap(({ claimed_by }) => claimed_by ?? []))];

/** The line goes, and what waited for it waits again. Other lines keep what they are held for. */
const withoutLine = (changes: Changes, order: OrderState, line: Line): WithdrawResult => {
  const { cause, decisionId } = changes;
  closeLine(changes, line, UNDONE);
  const rest = without(order.lines, [line]);
  const lines = changeLines(changes, { lines: rest, refunds: order.refunds, before: order }, []);
  const taken = asTheirSales(order.refunds, lines, null);
  const row = rowOf(line);
  const undone = undoneRow(row, row.version + 1, decisionId!);
  const waitsAgain = (asked: OrderState["decisions"][number]): boolean =>
    asked.is_taken && isAbout(asked, line, isLead(cause.data));
  return {
    rows: [...taken.rows, { row: undone, at: line.at }],
    state: {
      ...order,
      ...{ lines, refunds: taken.refunds, claimed_by: claimsOn(lines, order.claimed_by), words: null },
      withdrawn: withWithdrawn(order, line.event_id),
      decisions: order.decisions.map((asked) => (waitsAgain(asked) ? { ...asked, is_taken: false } : asked)),
    },
  };
};

/** Others have spoken of the line too, and what they said is not known: it goes back. */
const takenBack = (changes: Changes, order: OrderState, line: Line, decision: Decision): WithdrawResult => {
  const { event } = changes.cause.data.attributed;
  const isByUpload = rowOf(line).credit.method === "upload" && isOfFilesPartner(line, event);
  if (line.partner_id === null || !(line.event_id === event.event_id || isByUpload)) return nothing(order);
  const { line: next, row } = decideLine(changes, line, decision);
  return {
    rows: row === null ? [] : [{ row, at: line.at }],
    state: { ...order, lines: order.lines.map((one) => (one === line ? next : one)), words: null },
  };
};

const isOfFilesPartner = ({ partner_id }: Line, { partner_ref }: Pick<EventReceived, "partner_ref">): boolean =>
  String(partner_id) === partner_ref;

export const withdrawWithoutWords = (changes: Changes, order: OrderState): WithdrawResult => {
  const { attributed, decision } = changes.cause.data;
  const { event_id, import_id } = attributed.event;
  const made = order.lines.find((line) => line.event_id === event_id);
  const line = made ?? order.lines.find(({ copied }) => copied.includes(event_id));
  if (line === undefined || (made !== undefined && rowOf(made).event.import_id !== import_id)) return nothing(order);
  const isGiven = line.is_decided && !isOfFilesPartner(line, attributed.event);
  if (isGiven) return nothing(order);
  return line === made && isAlone(line)
    ? withoutLine(changes, order, line)
    : takenBack(changes, order, line, decision!);
};
