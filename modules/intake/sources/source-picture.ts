// Keeps external sources in memory for the edges, so that no postback waits for Postgres. A
// replaced key stops working within a second in every process.
import { createHash } from "node:crypto";
import type pg from "pg";
import { readMapping } from "../../../domain/sources/map-payload.ts";
import type { ReadMapping } from "../../../domain/sources/source.ts";
import { keepSnapshot, type SnapshotAt } from "../../../infra/postgres/snapshot.ts";
import { transaction } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { sourceVault, unsealOfSource } from "../../access/secrets/source-secrets.ts";
import { allowing } from "./allow-list.ts";
import type { Source } from "./sources.ts";

/** A source in the form that an edge uses. */
export interface KnownSource
  extends Pick<Source, "source_id" | "client_id" | "slug" | "kind" | "state" | "mapping" | "event_names"> {
  readonly read: ReadMapping;
  /**
   * False if its payloads come without a credential, by choice, and that choice lets them move no
   * money (`unsigned_money`). A payload that bears the key or the signature may, all the same.
   */
  readonly movesMoney: boolean;
  readonly allows: (address: string) => boolean;
  /** The secret that signs payloads; undefined: they are not signed. Throws CannotUnseal. */
  readonly secret: () => string | undefined;
  /** The key that seals raw payloads. Throws CannotUnseal. */
  readonly vault: () => Buffer;
}

export interface OpenSources {
  /** False until the first load. */
  readonly isKnown: () => boolean;
  readonly byId: (sourceId: number) => KnownSource | undefined;
  /** The active sources of a client. */
  readonly activeOf: (clientId: number) => readonly KnownSource[];
  readonly byKey: (key: string) => KnownSource | undefined;
  /**
   * Resolves with true once changes that were committed before the call are known here, and with
   * false if Postgres cannot be asked.
   */
  readonly again: () => Promise<boolean>;
  /** Resolves with the first load, however long Postgres is away. */
  readonly ready: Promise<void>;
  readonly close: () => Promise<void>;
}

interface Picture {
  readonly revision: string;
  readonly byId: ReadonlyMap<number, KnownSource>;
  readonly active: ReadonlyMap<number, readonly KnownSource[]>;
  /** Sources by the hex SHA-256 of their key. */
  readonly byKey: ReadonlyMap<string, KnownSource>;
}

const POLL_MS = 500;
const NONE: readonly KnownSource[] = [];
export const hashOfKey = (key: string): Buffer => createHash("sha256").update(key).digest();

/** While Postgres is away, the newest snapshot is used. Close it before its pool. */
export const openSources = (
  pool: pg.Pool,
  { keyring, onError }: { readonly keyring: Keyring; readonly onError?: (error: unknown) => void },
): OpenSources => {
  const snapshot = keepSnapshot<Picture>((before) => take(pool, keyring, before), { pollMs: POLL_MS, onError });
  const now = (): Picture | undefined => snapshot.now()?.value;
  return {
    isKnown: () => now() !== undefined,
    byId: (sourceId) => now()?.byId.get(sourceId),
    activeOf: (clientId) => now()?.active.get(clientId) ?? NONE,
    byKey: (key) => now()?.byKey.get(hashOfKey(key).toString("hex")),
    again: snapshot.again,
    ready: snapshot.ready,
    close: snapshot.close,
  };
};

type Row = Omit<Source, "key_sha256" | "key_rotated_at" | "name" | "mode" | "version"> & {
  readonly key: string | null;
};

/**
 * Each change raises the version of one row, so the number of rows and the sum of versions show
 * whether anything changed.
 */
const take = (pool: pg.Pool, keyring: Keyring, before: SnapshotAt<Picture> | undefined): Promise<SnapshotAt<Picture>> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows: moment } = await tx.query<{ as_of: UnixMs; revision: string }>(
        "select now() as as_of, count(*) || ':' || coalesce(sum(version), 0) as revision from sources",
      );
      const { as_of: asOf, revision } = moment[0]!;
      if (before?.value.revision === revision) return { asOf, value: before.value };
      const { rows } = await tx.query<Row>(
        `select source_id, client_id, slug, kind, state, mapping, constants, event_names, allow_ips, unsigned,
          unsigned_money, secret, vault,
          encode(key_sha256, 'hex') as key from sources order by source_id`,
      );
      return { asOf, value: pictureOf(revision, rows, keyring) };
    },
    { role: "tributary_edge", isReadOnly: true },
  );

const pictureOf = (revision: string, rows: readonly Row[], keyring: Keyring): Picture => {
  const known = rows.map((row) => ({ key: row.key, source: knownOf(row, keyring) }));
  const active = new Map<number, KnownSource[]>();
  for (const { source } of known)
    if (source.state === "active") active.set(source.client_id, [...(active.get(source.client_id) ?? []), source]);
  return {
    revision,
    byId: new Map(known.map(({ source }) => [source.source_id, source])),
    active,
    byKey: new Map(known.flatMap(({ key, source }) => (key === null ? [] : [[key, source] as const]))),
  };
};

const knownOf = (row: Row, keyring: Keyring): KnownSource => {
  const { source_id, client_id, slug, kind, state, mapping, event_names } = row;
  return {
    ...{ source_id, client_id, slug, kind, state, mapping, event_names },
    read: readMapping(row),
    movesMoney: movesMoney(row),
    allows: allowing(row.allow_ips),
    secret: remembered(() =>
      row.secret === null ? undefined : unsealOfSource(row.secret, { sourceId: source_id, column: "secret" }, keyring),
    ),
    vault: remembered(() => sourceVault(row.vault, source_id, keyring)),
  };
};

/** Before anyone has chosen (`unsigned` is null), a source is taken at its word. */
const movesMoney = ({ secret, unsigned, unsigned_money }: Pick<Row, "secret" | "unsigned" | "unsigned_money">) =>
  secret !== null || unsigned !== true || unsigned_money;

/** Caches the value, because unsealing costs more than using it. */
const remembered = <T>(make: () => T): (() => T) => {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
};
