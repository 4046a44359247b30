// Changes a client by a merge-patch of the saved record.
import { archived } from "../../access/standing.ts";
import { mergePatch } from "../../base/merge-patch.ts";
import { checkVersion, conflict, forbidden, invalid } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { changeReference } from "../reference/change.ts";
import { newestRecords } from "../reference/newest-records.ts";
import type { Columns } from "../reference/problem.ts";
import { hasConversions } from "./client-reads.ts";
import type { ClientInput } from "./create.ts";
import { entityOf, lockClient } from "./open-client.ts";

interface ClientPatch extends Partial<Omit<ClientInput, "slug" | "status" | "hold_days">> {
  readonly status?: "active" | "paused";
  /** Null removes the days of an event type. */
  readonly hold_days?: Readonly<Record<string, number | null>>;
}
export interface ClientChange {
  readonly client_id: number;
  readonly patch: ClientPatch;
  /** The version that the caller has seen; undefined: any. */
  readonly version: number | undefined;
  /** The caller confirms that a shorter retention deletes older events. */
  readonly confirm_retention: boolean;
}

/**
 * Fields that only some roles may change, because they affect money, data or the end of the client.
 */
const DECISIONS = ["plan", "currency", "retention_months", "status"] as const;
const MAY_DECIDE = ["admin", "operator"];

/**
 * An archived client can only be restored. Throws RefusalError: missing, forbidden,
 * `client_archived`, `version_conflict`, `currency_in_use`, invalid `confirmation_needed`, and
 * refusals of wrong fields.
 */
export const changeClient = async (work: Work, change: ClientChange): Promise<void> => {
  const { client_id, patch, version } = change;
  const { state } = await lockClient(work, client_id);
  const decided = DECISIONS.find((name) => patch[name] !== undefined);
  if (decided !== undefined && !MAY_DECIDE.includes(work.act.role))
    throw forbidden(`/${decided}`, "only an admin changes this");
  if (state.status === "archived" && patch.status === undefined) throw archived("client");
  checkVersion(version, state.version);
  const [saved] = await newestRecords(work.tx, "clients", [String(client_id)]);
  const before = settingsOf(saved!.record, patch);
  await refuseLoss(work, before, change);
  const names = Object.keys(patch);
  if (names.length === 0) return;
  const after = mergePatch(before, patch) as Columns;
  await changeReference(work, { clients: [{ client_id, ...pick(after, names) }] });
  await work.audit({ action: "client.updated", client_id, entity: entityOf(client_id), before, after });
};

/** The currency of sales never changes, and deleting events needs a confirmation. */
const refuseLoss = async (
  { tx }: Work,
  before: Columns,
  { client_id, patch: { currency, retention_months }, confirm_retention }: ClientChange,
): Promise<void> => {
  if (currency !== undefined && currency !== before.currency && (await hasConversions(tx, client_id)))
    throw conflict("currency_in_use", "sales are booked in the currency of before");
  if (retention_months !== undefined && retention_months < before.retention_months && !confirm_retention)
    throw invalid("/confirm_retention", "confirmation_needed", "events of before are deleted: confirm that");
};

/** The fields that the audit shows of every change; of `fraud` it shows only the patched parts. */
const SETTINGS = [
  ...["name", "status", "currency", "attribution", "hold_days", "fraud", "fallback_url", "retention_months", "plan"],
  ...["late_hours", "leads_in_plain"],
];
const settingsOf = (record: Columns, patch: ClientPatch): Columns => ({
  ...pick(record, [...SETTINGS, ...Object.keys(patch)]),
  fraud: pick(record.fraud, ["review", "reject", ...Object.keys(patch.fraud ?? {})]),
});

const pick = (record: Columns, names: readonly string[]): Columns =>
  Object.fromEntries(names.map((name) => [name, record[name]]));
