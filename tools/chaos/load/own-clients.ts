// Clients of a run: copies of the demo shops with new names, archived at the end, so that no figure
// of another client changes.
import type pg from "pg";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import type { ReferenceChanges } from "../../../modules/catalog/reference/entities.ts";
import { type SavedChange, writeReference } from "../../../modules/catalog/reference/writer.ts";
import { demoClients } from "../../../modules/running/installation/demo-clients.ts";
import { untilInForce } from "../../../modules/running/installation/seed.ts";
import { type Tenant, tenantsOf } from "./generator.ts";

const ACTOR = "chaos";
/** A busy database refuses a change that takes too long, as a whole, so it may be tried again. */
const SAVING_MS = 60_000;
const save = (pool: pg.Pool, changes: ReferenceChanges): Promise<SavedChange> =>
  until("a change of reference data is saved", SAVING_MS, () => writeReference(pool, ACTOR, changes));

export interface OwnClients {
  readonly tenants: readonly Tenant[];
  readonly archive: () => Promise<void>;
}

/** The same shop and terms; values that are unique in an installation carry the name of the run. */
const renamed = (changes: ReferenceChanges, name: string): ReferenceChanges => ({
  ...changes,
  clients: changes.clients!.map((one) => ({
    ...one,
    ...{ slug: `${name}-${one.slug}`, name: `${one.name} (${name})` },
  })),
  partners: changes.partners!.map((one) => ({
    ...one,
    ...{ email: `${name}.${one.email}`, referral_code: `${name}-${one.referral_code}` },
  })),
  links: changes.links!.map((one) => ({ ...one, code: `${name}-${one.code}` })),
});

const archivedBy = (changes: ReferenceChanges, { idOf }: SavedChange): ReferenceChanges => ({
  clients: changes.clients!.map((one) => ({ client_id: idOf("clients", one.client_id), status: "archived" })),
  partners: changes.partners!.map((one) => ({ partner_id: idOf("partners", one.partner_id), status: "archived" })),
  campaigns: changes.campaigns!.map((one) => ({ campaign_id: idOf("campaigns", one.campaign_id), archived: true })),
  links: changes.links!.map((one) => ({ link_id: idOf("links", one.link_id), status: "archived" })),
  rules: changes.rules!.map((one) => ({ rule_id: idOf("rules", one.rule_id), status: "inactive", archived: true })),
});

/** Saves the clients and waits until they are in force. */
export const openOwnClients = async (pool: pg.Pool, name: string): Promise<OwnClients> => {
  const saved: { readonly slug: string; readonly changes: ReferenceChanges; readonly change: SavedChange }[] = [];
  const archive = async (): Promise<void> => {
    for (const { changes, change } of saved) await save(pool, archivedBy(changes, change));
  };
  try {
    for (const { slug, changes } of demoClients)
      saved.push({ slug, changes, change: await save(pool, renamed(changes, name)) });
    await untilInForce(pool);
  } catch (error) {
    await archive().catch(() => undefined);
    throw error;
  }
  return {
    tenants: tenantsOf({
      clients: saved.map(({ slug, change }) => ({ id: change.idOf("clients", -1), slug })),
      links: saved.flatMap(({ changes, change }) =>
        changes.links!.map(({ code, link_id }) => ({
          ...{ code: String(code), link_id: change.idOf("links", link_id), client_id: change.idOf("clients", -1) },
        })),
      ),
    }),
    archive,
  };
};
