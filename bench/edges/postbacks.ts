// Measures how many payloads of one source an ingest process accepts a second: for each it sends an
// event to the log, stores the raw payload and marks the key.
import { openPool, transaction } from "../../infra/postgres/sql.ts";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { insertSource, type SourceSettings } from "../../modules/intake/sources/save-source.ts";
import type { World } from "../world.ts";
import { measure } from "./visited.ts";

const source: SourceSettings = {
  ...{ slug: "bench", name: "A network", kind: "generic", mode: null, state: "active", allow_ips: [], pull: null },
  ...{ unsigned: null, unsigned_money: false },
  mapping: {
    ...{ event_name: "event", dedup_key: "id", value: "sale.amount", currency: "/sale/currency" },
    ...{ order_id: "sale.order", partner_param: "sub" },
  },
  constants: {},
  event_names: { sale: "purchase" },
};

const opened = async ({ stack, clientId }: World) => {
  const pool = openPool(stack.env.POSTGRES_URL!, { name: "tributary-bench" });
  const keyring = keyringOf(stack.env.TRIBUTARY_SECRET!);
  await transaction(pool, [clientId], (tx) => insertSource(tx, clientId, source, {}, keyring));
  await pool.end();
  return { path: `/postback/generic?client_id=${clientId}&source=bench`, eventsOf: clientId, isPostback: true };
};

/** `--seconds` a run (20). */
export const run = (options: { seconds?: string }): Promise<void> => measure("ingest", opened, options);
