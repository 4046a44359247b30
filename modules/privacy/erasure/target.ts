// What an erasure looks for in the stores: the subject, and the devices on which it was seen.
import type { PoolClient } from "pg";
import type { SubjectKind } from "../../../domain/personal/suppression.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { ErasedSubject } from "./subject.ts";

export interface ErasureTarget {
  readonly clientId: number;
  readonly subject: ErasedSubject;
  /** Devices of the log, of which everything goes. */
  readonly devices: readonly string[];
  /** Devices that showed the subject and another person too: only what names the subject goes. */
  readonly shared: readonly string[];
  /** Of `devices` those that an earlier erasure of the subject took. */
  readonly taken: readonly string[];
  /** What happened later is new. */
  readonly since: UnixMs;
}

/** The keyed hashes of the subject's address or number. */
export const peopleOf = ({ subject }: Pick<ErasureTarget, "subject">): readonly string[] =>
  subject.kind === "email" || subject.kind === "phone" ? subject.forms : [];

/** The subjects for the list of erased ones: the subject in every form, and its devices. */
export const listedOf = ({ subject: { kind, forms }, devices }: ErasureTarget) => [
  ...forms.map((subject) => ({ kind, subject })),
  ...(kind === "did" ? [] : devices.map((subject) => ({ kind: "did" as const, subject, foundBy: forms[0]! }))),
];

interface FoundDevice {
  readonly did: string;
  readonly is_shared: boolean;
  readonly is_taken: boolean;
}

/** Edges of both hold a hash of the same thing. */
const kindsOf = (kind: SubjectKind): readonly string[] => [kind, `${kind}_across`];

/**
 * Finds the devices in a transaction that sees the client. A device that also shows another address
 * (or number) belongs to several people. Devices of an earlier erasure of the subject are in the
 * list of erased ones, because their edges are gone.
 */
export const findTarget = async (
  tx: PoolClient,
  clientId: number,
  subject: ErasedSubject,
  since: UnixMs,
): Promise<ErasureTarget> => {
  const { kind, forms } = subject;
  const known = { clientId, subject, since, taken: [] };
  if (kind === "did") return { ...known, devices: forms, shared: [] };
  if (kind !== "email" && kind !== "phone") return { ...known, devices: [], shared: [] };
  const { rows } = await tx.query<FoundDevice>(sql`
    with shown as (
      select distinct did from identity_edges where client_id = any (${[clientId]}::int[])
        and identifier = any (${forms}) and kind = any (${kindsOf(kind)}) and unlinked_at is null)
    select did, exists (
      select from identity_edges other where other.client_id = any (${[clientId]}::int[]) and other.did = shown.did
        and other.kind = any (${kindsOf(kind)}) and other.identifier <> all (${forms}) and other.unlinked_at is null
    ) as is_shared, false as is_taken from shown
    union
    select subject, false, true from suppressions
      where client_id = any (${[clientId]}::int[]) and kind = 'did' and found_by = any (${forms})`);
  const didsOf = (isShared: boolean): readonly string[] =>
    rows.flatMap(({ did, is_shared }) => (is_shared === isShared ? [did] : []));
  const devices = [...new Set(didsOf(false))].sort();
  const taken = rows.flatMap(({ did, is_taken }) => (is_taken ? [did] : []));
  return { ...known, devices, taken, shared: didsOf(true).filter((did) => !devices.includes(did)) };
};
