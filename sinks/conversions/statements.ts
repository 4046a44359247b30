// The statements that keep the newest version of each conversion and refuse a second content of one
// version.
import {
  type Columns,
  type DeclaredTable,
  eachWithKept,
  givenTexts,
  keepNewest,
  pick,
} from "../../infra/postgres/columns.ts";
import type { Statement } from "../stores/postgres.ts";

/**
 * Only the newest version is kept, so an older one that had two contents is not seen here; the
 * ledger entry of each keeps its own hash.
 */
const refuseSecondContent = (contents: Columns): string => `
select refuse_second_content('conversion', given.conversion_id || ' version ' || given.version)
from ${givenTexts(contents)}
${eachWithKept("conversions", "client_id", "conversion_id")}
where kept.version = given.version and kept.content_hash <> decode(given.content_hash, 'hex')`;

export const statementsOf = (table: DeclaredTable): readonly Statement<unknown>[] => {
  const contents = pick(table.columns, "client_id", "conversion_id", "version", "content_hash");
  return [{ text: keepNewest(table) }, { text: refuseSecondContent(contents), columns: contents, behind: "some" }];
};
