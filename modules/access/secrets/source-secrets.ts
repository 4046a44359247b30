// Secrets of external sources: the secret that signs payloads, the key that encrypts raw payloads,
// and the credential for pulls. All are sealed.
import { randomBytes } from "node:crypto";
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { isOld, seal, unseal } from "./seal.ts";

const columns = ["secret", "vault", "pull_secret"] as const;
export interface SourceColumn {
  readonly sourceId: number;
  readonly column: (typeof columns)[number];
}
type Row = Readonly<Record<SourceColumn["column"], string | null>>;
const placeOf = ({ sourceId, column }: SourceColumn): string => `sources/${sourceId}/${column}`;

export const sealOfSource = (text: string, of: SourceColumn, keyring: Keyring): string =>
  seal(text, placeOf(of), keyring);

/** Throws CannotUnseal. */
export const unsealOfSource = (sealed: string, of: SourceColumn, keyring: Keyring): string =>
  unseal(sealed, placeOf(of), keyring);

/** 32 random bytes, sealed. */
export const newSourceVault = (sourceId: number, keyring: Keyring): string =>
  sealOfSource(randomBytes(32).toString("base64"), { sourceId, column: "vault" }, keyring);

/** The 32-byte key. Throws CannotUnseal. */
export const sourceVault = (sealed: string, sourceId: number, keyring: Keyring): Buffer =>
  Buffer.from(unsealOfSource(sealed, { sourceId, column: "vault" }, keyring), "base64");

/**
 * Reads all sealed values of the visible clients, in a transaction of the role tributary_secrets.
 */
export const sealedOfSources = async (tx: PoolClient): Promise<readonly string[]> =>
  (
    await tx.query<{ sealed: string }>(
      `select sealed from sources, unnest(array[${columns.join(", ")}]) as sealed where sealed is not null`,
    )
  ).rows.map(({ sealed }) => sealed);

/**
 * Reseals the values of a client's sources under the newest secret. Returns how many were sealed
 * under an older one.
 */
export const resealSourcesWithin = async (tx: PoolClient, clientId: number, keyring: Keyring): Promise<number> => {
  const { rows } = await tx.query<Row & { readonly source_id: number }>(sql`
    select source_id, secret, vault, pull_secret from sources
    where client_id = any (${[clientId]}::int[]) order by source_id for update`);
  const oldIn = (row: Row): number => columns.filter((name) => isOld(row[name], keyring)).length;
  for (const { source_id: sourceId, ...row } of rows.filter((row) => oldIn(row) > 0)) {
    const again = (column: SourceColumn["column"]): string | null => {
      const sealed = row[column];
      const of = { sourceId, column };
      return sealed === null ? null : sealOfSource(unsealOfSource(sealed, of, keyring), of, keyring);
    };
    await tx.query(sql`update sources set secret = ${again("secret")}, vault = ${again("vault")},
      pull_secret = ${again("pull_secret")} where source_id = ${sourceId}`);
  }
  return rows.reduce((sum, row) => sum + oldIn(row), 0);
};
