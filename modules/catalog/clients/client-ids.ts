// Every client, for work that goes through all of them and where the client is not known.
import type { Pool } from "pg";
import { transaction } from "../../../infra/postgres/sql.ts";

/** `role` is taken on for it: the reader's own may see no client before one is named. */
export const clientIds = (pool: Pool, role: "tributary_keeper" | "tributary_reference"): Promise<readonly number[]> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (await tx.query<{ client_id: number }>("select distinct client_id from clients order by 1")).rows.map(
        (row) => row.client_id,
      ),
    { role, isReadOnly: true },
  );
