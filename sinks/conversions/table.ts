// The table of conversions, each as of its newest record, with the statements that keep the newest
// version and refuse two contents of one version.
import {
  bytes,
  type Columns,
  type DeclaredTable,
  eachWithKept,
  givenTexts,
  keepNewest,
  oneOf,
  pick,
  type StoredRow,
  type WrittenRow,
} from "../../infra/postgres/columns.ts";
import { postgresTable, type Statement } from "../stores/postgres.ts";
import { fieldColumns } from "./generated.ts";

/**
 * Only the newest version is kept, so two contents of an older one are not detected here. Each
 * version's ledger entry has its own hash.
 */
const refuseSecondContent = (contents: Columns): string => `
select refuse_second_content('conversion', given.conversion_id || ' version ' || given.version)
from ${givenTexts(contents)}
${eachWithKept("conversions", "client_id", "conversion_id")}
where kept.version = given.version and kept.content_hash <> decode(given.content_hash, 'hex')`;

const statementsOf = (table: DeclaredTable): readonly Statement<unknown>[] => {
  const contents = pick(table.columns, "client_id", "conversion_id", "version", "content_hash");
  return [{ text: keepNewest(table) }, { text: refuseSecondContent(contents), columns: contents, behind: "some" }];
};

const conversionColumns = { ...fieldColumns, status: oneOf<"credited" | "reversed">(), content_hash: bytes };
export type ConversionRow = WrittenRow<typeof conversionColumns>;
export type StoredConversion = StoredRow<typeof conversionColumns>;

const declared = {
  name: "conversions",
  key: ["client_id", "conversion_id"],
  columns: conversionColumns,
} as const;

/**
 * The newest version of a conversion wins. A different content under a stored version is refused.
 */
export const conversions = postgresTable<ConversionRow>(declared, statementsOf(declared));
