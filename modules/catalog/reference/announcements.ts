// Announces a saved change of reference data in the log: each new row once for each client
// concerned.
import type { Announcement } from "../../base/outbox/outbox.ts";
import type { Columns } from "./problem.ts";

/** The name of a table's rows in the log, and the column of their id. */
const kinds: Readonly<Record<string, readonly [entity: string, id: string]>> = {
  clients: ["client", "client_id"],
  segments: ["segment", "code"],
  partners: ["partner", "partner_id"],
  campaigns: ["campaign", "campaign_id"],
  links: ["link", "link_id"],
  segment_commissions: ["contract", "contract_id"],
  rules: ["rule", "rule_id"],
};

/**
 * Contains only ids and versions, because a row may hold data of another client or a person's
 * address.
 */
export const announcedBy = (changeId: number, rows: ReadonlyMap<string, readonly Columns[]>): readonly Announcement[] =>
  [...rows].flatMap(([table, all]) => {
    const [entity, idColumn] = kinds[table]!;
    return all.flatMap((row): readonly Announcement[] => {
      const entity_id = entity === "segment" ? `${row.client_id}:${row.code}` : String(row[idColumn]);
      const known = { version: row.version, change_id: changeId };
      const clients: readonly number[] = row.known_to ?? [row.client_id];
      return [
        { topic: "reference.changes", client_id: null, record: { entity, entity_id, ...known } },
        ...clients.map((client_id) => ({
          topic: "domain.changes" as const,
          client_id,
          record: {
            client_id,
            entity: `${entity}:${entity_id}`,
            type: row.version === 1 ? `${entity}.created` : `${entity}.changed`,
            ...known,
            data: JSON.stringify({ [idColumn]: row[idColumn], version: row.version }),
          },
        })),
      ];
    });
  });
