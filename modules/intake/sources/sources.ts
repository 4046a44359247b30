// External sources in Postgres.
import type { RelayMode, SourceKind, SourceMapping, SourceState } from "../../../domain/sources/source.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/** A row. Secrets are sealed, and the key is stored as its SHA-256. */
export interface Source extends SourceMapping {
  readonly source_id: number;
  readonly client_id: number;
  /** Raised by each change that affects edges. */
  readonly version: number;
  /** Unique within the client. */
  readonly slug: string;
  readonly name: string;
  readonly kind: SourceKind;
  /** The mode of a property relay, a label for people; null for other sources. */
  readonly mode: RelayMode | null;
  readonly state: SourceState;
  /** Addresses and CIDR blocks; empty: every address. */
  readonly allow_ips: readonly string[];
  readonly unsigned: boolean | null;
  readonly unsigned_money: boolean;
  /** The secret that signs payloads; null: they are not signed. */
  readonly secret: string | null;
  /** The key that seals raw payloads. */
  readonly vault: string;
  readonly key_sha256: Buffer | null;
  readonly key_rotated_at: UnixMs | null;
}

/** The form of every key in an address, 32 random bytes: another text is looked up nowhere. */
export const keyForm = /^[A-Za-z0-9_-]{43}$/;

/**
 * Parses `src_<n>`, the name of a source for people and in addresses; undefined for any other text.
 */
export const readSourceId = (text: string): number | undefined => {
  const digits = /^src_([1-9]\d{0,9})$/.exec(text)?.[1];
  return digits === undefined || Number(digits) > 2_147_483_647 ? undefined : Number(digits);
};
