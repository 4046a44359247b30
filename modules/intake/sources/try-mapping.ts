// Tries a draft mapping on payloads that a source has sent, and shows each as it is read now and as
// the draft would read it.
import type { PoolClient } from "pg";
import { scrubText, TooMuchPersonalData } from "../../../domain/personal/personal-data.ts";
import { type MappedPayload, type MappingFault, mapPayload, readMapping } from "../../../domain/sources/map-payload.ts";
import { logicalFields, type SourceMapping } from "../../../domain/sources/source.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { sourceVault } from "../../access/secrets/source-secrets.ts";
import { newestPayloads } from "./payloads.ts";
import type { SavedSource } from "./save-source.ts";

export interface MappingTrial {
  readonly payload_id: string;
  readonly received_at: number;
  readonly outcome: "mapped" | "refused";
  /** The event under the draft, without personal data. */
  readonly event: Readonly<Record<string, string | number>> | null;
  /** Why the draft makes no event. */
  readonly field: string | null;
  readonly path: string | null;
  readonly found: string | null;
  readonly hint: string | null;
  /** The event under the saved mapping; null: none. */
  readonly saved: MappingTrial["event"];
  /** Fields that the saved mapping reads differently. */
  readonly differs: readonly string[];
}
/** Parts that are left out keep their saved value. */
export interface DraftMapping extends Pick<SourceMapping, "mapping"> {
  readonly constants?: SourceMapping["constants"] | undefined;
  readonly event_names?: SourceMapping["event_names"] | undefined;
}

const TRIED = 20;
type MappingResult = MappedPayload | MappingFault;
const isFault = (read: MappingResult): read is MappingFault => "code" in read;

/**
 * Covers the newest 20 payloads of the last 48 hours, newest first. Needs a transaction that sees
 * the client; writes nothing. Throws CannotUnseal, and RangeError for an invalid path.
 */
export const tryMapping = async (
  tx: PoolClient,
  source: SavedSource,
  draft: DraftMapping,
  keyring: Keyring,
): Promise<readonly MappingTrial[]> => {
  const { rows } = await tx.query<{ vault: string }>(sql`
    select vault from sources
    where source_id = ${source.source_id} and client_id = any (${[source.client_id]}::int[])`);
  const vault = sourceVault(rows[0]!.vault, source.source_id, keyring);
  const { mapping, constants = source.constants, event_names = source.event_names } = draft;
  const [saved, drafted] = [readMapping(source), readMapping({ mapping, constants, event_names })];
  const payloads = await newestPayloads(tx, source, vault, TRIED);
  return payloads.map(({ payload_id, received_at, bytes }) => {
    const payload = jsonIn(bytes);
    const [now, then] = [mapPayload(payload, saved), mapPayload(payload, drafted)];
    return { payload_id, received_at, ...shown(then), saved: shown(now).event, differs: differing(now, then) };
  });
};

/**
 * Payloads that were refused because they are not JSON are kept too, but nothing can be read from
 * them.
 */
const jsonIn = (bytes: Buffer): unknown => {
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return undefined;
  }
};

const shown = (read: MappingResult): Pick<MappingTrial, "outcome" | "event" | "field" | "path" | "found" | "hint"> => {
  if (isFault(read)) {
    const { field, path, found, hint } = read;
    return { outcome: "refused", event: null, field, path, found, hint };
  }
  const entries = Object.entries(read).map(([name, value]) => [name, name === "did" ? HIDDEN : masked(value)]);
  const none = { field: null, path: null, found: null, hint: null };
  return { outcome: "mapped", event: Object.fromEntries(entries), ...none };
};

const HIDDEN = "***";
const hiding = { plain: () => HIDDEN, hashed: () => HIDDEN };
const masked = (value: string | number): string | number => {
  if (typeof value === "number") return value;
  try {
    return scrubText(value, hiding).value;
  } catch (error) {
    if (error instanceof TooMuchPersonalData) return HIDDEN;
    throw error;
  }
};

const differing = (now: MappingResult, then: MappingResult): readonly string[] => {
  const of = (read: MappingResult): Partial<MappedPayload> => (isFault(read) ? {} : read);
  return logicalFields.filter((field) => of(now)[field] !== of(then)[field]);
};
