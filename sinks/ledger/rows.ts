// A ledger entry with its lines as a row.
import type { LedgerEntry } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { contentHash } from "../shared-columns.ts";
import type { LedgerRow } from "./columns.ts";
import { contentOf, rowOf } from "./generated.ts";

/** Lines are debits of the client's books; what is held for a partner is a credit there. */
const heldBy = ({ lines }: LedgerEntry): bigint =>
  lines.reduce((held, { account, amount_minor }) => (account.startsWith("held:") ? held - amount_minor : held), 0n);

/** As digits, like every 64-bit integer in a row. */
const linesOf = ({ lines }: LedgerEntry): LedgerRow["lines"] =>
  lines.map(({ account, amount_minor }) => ({ account, amount_minor: amount_minor.toString() }));

export const ledgerRows = ({ data }: Recorded<LedgerEntry>): readonly LedgerRow[] => [
  rowOf(data, {
    held_minor: heldBy(data).toString(),
    lines: linesOf(data),
    content_hash: contentHash(contentOf(data)),
  }),
];
