// Turns a ledger entry with its lines into a row.
import type { LedgerEntry } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { contentHash } from "../shared-columns.ts";
import type { LedgerRow } from "./columns.ts";
import { contentOf, rowOf } from "./generated.ts";

/**
 * The amount held for the partner. It is a credit in the client's books, whose lines are debits.
 */
const heldBy = ({ lines }: LedgerEntry): bigint =>
  lines.reduce((held, { account, amount_minor }) => (account.startsWith("held:") ? held - amount_minor : held), 0n);

/** Amounts as decimal text, like every 64-bit integer in a row. */
const linesOf = ({ lines }: LedgerEntry): LedgerRow["lines"] =>
  lines.map(({ account, amount_minor }) => ({ account, amount_minor: amount_minor.toString() }));

export const ledgerRows = ({ data }: Recorded<LedgerEntry>): readonly LedgerRow[] => [
  rowOf(data, {
    held_minor: heldBy(data).toString(),
    lines: linesOf(data),
    content_hash: contentHash(contentOf(data)),
  }),
];
