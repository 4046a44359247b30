// Creates and changes sources; edges and pulls use the change within a second.
import { randomBytes } from "node:crypto";
import type { PoolClient } from "pg";
import type { RelayMode, SourceKind, SourceMapping, SourceState } from "../../../domain/sources/source.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { newSourceVault, sealOfSource } from "../../access/secrets/source-secrets.ts";
import { conflict, invalid } from "../../base/refusal.ts";
import { hashOfKey } from "./source-picture.ts";

/** The settings of a source. */
export interface SourceSettings extends SourceMapping {
  readonly slug: string;
  readonly name: string;
  readonly kind: SourceKind;
  readonly mode: RelayMode | null;
  readonly state: SourceState;
  readonly allow_ips: readonly string[];
  /**
   * Whether payloads of a generic source come without a signature; null: not chosen yet.
   * `unsigned_money` lets such payloads move money.
   */
  readonly unsigned: boolean | null;
  readonly unsigned_money: boolean;
  /** Where and how its events are pulled (modules/intake/pulls); null: they are not pulled. */
  readonly pull: { readonly url: string } | null;
}
/** Undefined keeps the saved value, null removes it. */
export interface SourceSecrets {
  readonly secret?: string | null | undefined;
  readonly pull_secret?: string | null | undefined;
}
export interface SavedSource extends SourceSettings {
  readonly source_id: number;
  readonly client_id: number;
  readonly version: number;
  readonly has_secret: boolean;
  readonly has_pull_secret: boolean;
}

/** The key in an address, 256 random bits. */
const newKey = (): string => randomBytes(32).toString("base64url");

type CheckedSource = SourceSettings & Pick<SavedSource, "has_secret">;
/** Throws RefusalError: invalid `bad_mode`, `bad_state`, `bad_unsigned`, `incomplete`. */
const check = (after: CheckedSource, before?: SavedSource): void => {
  const { kind, mode, state, mapping, constants, pull } = after;
  checkUnsigned(after);
  if ((kind === "property_relay") !== (mode !== null))
    throw invalid(
      "/mode",
      "bad_mode",
      kind === "property_relay" ? "say how it measures: measurement_relay or data_warehouse" : "leave it out",
    );
  if (state === "draft" && before !== undefined && before.state !== "draft")
    throw invalid("/state", "bad_state", "pause it: a source that was active is a draft no more");
  if (state !== "active") return;
  if (mapping.event_name === undefined && constants.event_name === undefined)
    throw invalid("/mapping/event_name", "incomplete", "an active source needs a path or a constant of it");
  if (mapping.dedup_key === undefined && pull === null)
    throw invalid("/mapping/dedup_key", "incomplete", "an active source needs the path of what is unique");
};

const checkUnsigned = ({ kind, state, unsigned, unsigned_money, has_secret }: CheckedSource): void => {
  if (unsigned === true && kind !== "generic")
    throw invalid("/unsigned", "bad_unsigned", `leave it out: the address of a source of kind ${kind} has a key`);
  if (unsigned_money && unsigned !== true)
    throw invalid("/unsigned_money", "bad_unsigned", "it is for payloads without a signature: say unsigned: true too");
  if (state === "active" && kind === "generic" && unsigned === false && !has_secret)
    throw invalid("/secret", "incomplete", "give the secret that signs its payloads, or say unsigned: true");
};

/**
 * A saved credential is for the host that it was given for: who may change the address must not
 * read it at another one. Throws RefusalError: invalid `credential_needed`.
 */
const checkCredential = (before: SavedSource, after: SourceSettings, { pull_secret }: SourceSecrets): void => {
  if (!before.has_pull_secret || pull_secret !== undefined || after.pull === null) return;
  if (before.pull !== null && new URL(before.pull.url).origin === new URL(after.pull.url).origin) return;
  const message = "the source is pulled from another host now: give its credential again, or null for none";
  throw invalid("/pull_secret", "credential_needed", message);
};

const isTaken = (error: unknown): boolean =>
  (error as { code?: string; constraint?: string }).constraint === "sources_client_id_slug_key";
const taken = (error: unknown): never => {
  if (!isTaken(error)) throw error;
  throw conflict("slug_taken", "another source of this client has it", { path: "/slug" });
};

/** Needs a transaction that sees the client. Throws RefusalError, also conflict `slug_taken`. */
export const insertSource = async (
  tx: PoolClient,
  clientId: number,
  settings: SourceSettings,
  secrets: SourceSecrets,
  keyring: Keyring,
): Promise<SavedSource> => {
  const has_secret = secrets.secret != null;
  const has_pull_secret = secrets.pull_secret != null;
  check({ ...settings, has_secret });
  const { rows } = await tx.query<{ source_id: number }>("select nextval('source_ids')::int as source_id");
  const { source_id: sourceId } = rows[0]!;
  await tx
    .query(sql`
      insert into sources (source_id, client_id, slug, name, kind, mode, state, mapping, constants, event_names,
        allow_ips, unsigned, unsigned_money, pull, vault)
      values (${sourceId}, ${clientId}, ${settings.slug}, ${settings.name}, ${settings.kind}, ${settings.mode},
        ${settings.state}, ${JSON.stringify(settings.mapping)}::jsonb, ${JSON.stringify(settings.constants)}::jsonb,
        ${JSON.stringify(settings.event_names)}::jsonb, ${settings.allow_ips}::text[],
        ${settings.unsigned}, ${settings.unsigned_money}, ${json(settings.pull)}::jsonb,
        ${newSourceVault(sourceId, keyring)})`)
    .catch(taken);
  await saveSecrets(tx, sourceId, secrets, keyring);
  return { ...settings, source_id: sourceId, client_id: clientId, version: 1, has_secret, has_pull_secret };
};

/** Returns the source and locks it until the end of the transaction. Undefined if there is none. */
export const sourceToChange = async (
  tx: PoolClient,
  sourceId: number,
  clients: readonly number[],
): Promise<SavedSource | undefined> => {
  const { rows } = await tx.query<SavedSource>(sql`
    select source_id, client_id, version, slug, name, kind, mode, state, mapping, constants, event_names,
      allow_ips, unsigned, unsigned_money, pull, secret is not null as has_secret,
      pull_secret is not null as has_pull_secret
    from sources where source_id = ${sourceId} and client_id = any (${clients}::int[]) for update`);
  return rows[0];
};

/** `before` comes from `sourceToChange` in the same transaction. Throws RefusalError. */
export const updateSource = async (
  tx: PoolClient,
  before: SavedSource,
  patch: Partial<Omit<SourceSettings, "slug">>,
  secrets: SourceSecrets,
  keyring: Keyring,
): Promise<SavedSource> => {
  const isKept = (saved: boolean, given: string | null | undefined): boolean =>
    given === undefined ? saved : given !== null;
  const after = {
    ...{ ...before, ...patch, version: before.version + 1 },
    has_secret: isKept(before.has_secret, secrets.secret),
    has_pull_secret: isKept(before.has_pull_secret, secrets.pull_secret),
  };
  check(after, before);
  checkCredential(before, after, secrets);
  const { source_id: sourceId } = before;
  await tx.query(sql`
    update sources set version = ${after.version}, name = ${after.name}, kind = ${after.kind}, mode = ${after.mode},
      state = ${after.state}, mapping = ${JSON.stringify(after.mapping)}::jsonb,
      constants = ${JSON.stringify(after.constants)}::jsonb, event_names = ${JSON.stringify(after.event_names)}::jsonb,
      allow_ips = ${after.allow_ips}::text[], unsigned = ${after.unsigned},
      unsigned_money = ${after.unsigned_money}, pull = ${json(after.pull)}::jsonb, updated_at = clock_timestamp()
    where source_id = ${sourceId}`);
  await saveSecrets(tx, sourceId, secrets, keyring);
  return after;
};
const json = (value: object | null): string | null => (value === null ? null : JSON.stringify(value));

const saveSecrets = async (
  tx: PoolClient,
  sourceId: number,
  secrets: SourceSecrets,
  keyring: Keyring,
): Promise<void> => {
  const sealed = (column: "secret" | "pull_secret"): string | null => {
    const text = secrets[column];
    return text === undefined || text === null ? null : sealOfSource(text, { sourceId, column }, keyring);
  };
  if (secrets.secret !== undefined)
    await tx.query(sql`update sources set secret = ${sealed("secret")} where source_id = ${sourceId}`);
  if (secrets.pull_secret !== undefined)
    await tx.query(sql`update sources set pull_secret = ${sealed("pull_secret")} where source_id = ${sourceId}`);
};

/** Makes a new key for its address; the old one stops working in every process within a second. */
export const replaceKey = async (tx: PoolClient, { source_id: sourceId }: SavedSource): Promise<string> => {
  const key = newKey();
  await tx.query(sql`
    update sources set key_sha256 = ${hashOfKey(key)}, key_rotated_at = clock_timestamp(), version = version + 1,
      updated_at = clock_timestamp()
    where source_id = ${sourceId}`);
  return key;
};

/** The name of a source in the audit. */
export const entityOfSource = ({ source_id }: Pick<SavedSource, "source_id">): string => `source:src_${source_id}`;
