// Announces the end of an import in the log.
import type { PoolClient } from "pg";
import { sql } from "../../../../infra/postgres/sql.ts";
import { announce } from "../../../base/outbox/outbox.ts";
import type { ImportState } from "../import-state.ts";

interface EndedImport {
  readonly import_id: string;
  readonly client_id: number;
  readonly partner_id: number;
  readonly filename: string;
  readonly status: ImportState;
  readonly total: number;
  readonly accepted: number;
  readonly duplicate: number;
  readonly rejected: number;
  readonly error: string | null;
}

const TYPES: Readonly<Partial<Record<ImportState, string>>> = {
  completed: "import.completed",
  completed_with_errors: "import.completed",
  failed: "import.failed",
};

/**
 * Runs in the transaction that ends the import, which sees its client and no other tenant. A
 * cancelled import is not announced. Resets the role of the transaction.
 */
export const followEnd = async (tx: PoolClient, importId: string): Promise<void> => {
  await tx.query("set local role none");
  const { rows } = await tx.query<EndedImport>(sql`
    select import_id, client_id, partner_id, filename, status, error, total::int as total,
      accepted::int as accepted, duplicate::int as duplicate, rejected::int as rejected
    from imports where import_id = ${importId}`);
  const ended = rows[0]!;
  const { import_id, client_id, partner_id, filename, status, total, accepted, duplicate, rejected, error } = ended;
  const type = TYPES[status];
  if (type === undefined) return;
  const counts = { total, accepted, duplicate, rejected };
  const data = JSON.stringify({ import_id, partner_id, filename, status, ...counts, error });
  const record = { client_id, entity: `import:${import_id}`, type, version: 1, change_id: null, data };
  await announce(tx, [{ topic: "domain.changes", client_id, record }]);
};
