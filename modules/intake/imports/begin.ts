// The first step of every import: checks its client and partner and adds its row.
import { randomUUID } from "node:crypto";
import { sql } from "../../../infra/postgres/sql.ts";
import { archived } from "../../access/standing.ts";
import { missing } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { openClient } from "../../catalog/clients/open-client.ts";
import { readPartner } from "../../catalog/partners/partner-reads.ts";
import { entityOfImport } from "./import-reads.ts";

export interface Sender {
  readonly client_id: number;
  /** The partner that gets the credit. */
  readonly partner_id: number;
}

/** Throws RefusalError: missing, conflict `client_archived`, `partner_archived`. */
export const checkSender = async (work: Work, { client_id, partner_id }: Sender): Promise<void> => {
  await openClient(work, client_id);
  const partner = await readPartner(work.tx, partner_id, work.scope.clients, []);
  if (!partner?.state.client_ids.includes(client_id)) throw missing();
  if (partner.state.status === "archived") throw archived("partner");
};

/**
 * Begins the import of a few rows, whose file follows. Returns its id. Throws RefusalError, see
 * `checkSender`.
 */
export const beginRows = async (work: Work, sender: Sender, rows: number): Promise<string> => {
  const { client_id, partner_id } = sender;
  await checkSender(work, sender);
  const import_id = `imp_${randomUUID()}`;
  await work.tx.query(sql`
    insert into imports (import_id, client_id, partner_id, filename, source, status, created_by)
    values (${import_id}, ${client_id}, ${partner_id}, 'rows.csv', 'fast', 'pending_upload', ${work.act.actor})`);
  const after = { partner_id, rows };
  await work.audit({ action: "import.created", client_id, entity: entityOfImport(import_id), after });
  return import_id;
};
