// A database with two clients whose visits may be recorded.
import { newClientSecret, saveClientSecret } from "../../modules/access/secrets/client-secrets.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { freshDatabase } from "./fresh-database.ts";
import { keyring } from "./pixel-host.ts";

export const recordingClients = async () => {
  const database = await freshDatabase();
  const pool = database.pool({ max: 6 });
  const made = await writeReference(pool, "test", {
    clients: [-1, -2].map((client_id) => ({ client_id, slug: `shop${client_id}`, name: "Shop" })),
  });
  const clients = [made.idOf("clients", -1), made.idOf("clients", -2)] as const;
  for (const client of clients) await saveClientSecret(pool, client, newClientSecret(), keyring);
  return { database, pool, clients };
};

let visits = 0;
/** A session id that no other visit of this file has. */
export const newVisit = (): string => {
  visits += 1;
  return `visit-${String(visits).padStart(6, "0")}`;
};
