// External sources as Postgres holds them.
import type { RelayMode, SourceKind, SourceMapping, SourceState } from "../../../domain/sources/source.ts";
import type { UnixMs } from "../../../stream/flow.ts";

/** One row. Secrets are sealed, the key is its SHA-256. */
export interface Source extends SourceMapping {
  readonly source_id: number;
  readonly client_id: number;
  /** Raised by each change of what edges read. */
  readonly version: number;
  /** Unique within the client. */
  readonly slug: string;
  readonly name: string;
  readonly kind: SourceKind;
  /** Of a property relay alone. */
  readonly mode: RelayMode | null;
  readonly state: SourceState;
  /** Addresses and CIDR blocks; none: every address. */
  readonly allow_ips: readonly string[];
  /** Signs payloads; null: they are not signed. */
  readonly secret: string | null;
  /** What raw payloads are sealed under. */
  readonly vault: string;
  readonly key_sha256: Buffer | null;
  readonly key_rotated_at: UnixMs | null;
}

/** Of `src_<n>`, as people and addresses name a source; undefined for every other text. */
export const readSourceId = (text: string): number | undefined => {
  const digits = /^src_([1-9]\d{0,9})$/.exec(text)?.[1];
  return digits === undefined || Number(digits) > 2_147_483_647 ? undefined : Number(digits);
};
