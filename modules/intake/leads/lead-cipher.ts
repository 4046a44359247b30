// Seals the personal data of a lead under the keys of all subjects that it names. Without any one
// of these keys it cannot be read.
import { hkdfSync, randomBytes } from "node:crypto";
import { sealBytes, unsealBytes } from "../../access/secrets/seal.ts";

export interface LeadContent {
  readonly client_lead_id: string;
  readonly first_name: string | null;
  readonly last_name: string | null;
  readonly email: string | null;
  readonly phone: string | null;
  /** Fields without a meaning in the contract, as they were sent. */
  readonly extra: Readonly<Record<string, unknown>>;
}

/** A person by e-mail or phone (keyed hashes), or the lead itself by its id. */
export interface LeadSubject {
  readonly kind: "email" | "phone" | "lead";
  readonly subject: string;
}

const KEY_BYTES = 32;
const CONTENT = "tributary lead 1";

/**
 * The order must never change, because the key of a lead is derived from the keys in this order.
 */
export const subjectsIn = (row: {
  readonly lead_id: string;
  readonly email: string | null;
  readonly phone: string | null;
}): readonly LeadSubject[] => [
  ...(row.email === null ? [] : [{ kind: "email" as const, subject: row.email }]),
  ...(row.phone === null ? [] : [{ kind: "phone" as const, subject: row.phone }]),
  { kind: "lead", subject: row.lead_id },
];

export const nameOf = ({ kind, subject }: LeadSubject): string => `${kind}:${subject}`;
const placeOfKey = (clientId: number, subject: LeadSubject): string => `lead_keys/${clientId}/${nameOf(subject)}`;
const placeOfLead = (clientId: number, leadId: string): string => `lead_people/${clientId}/${leadId}`;

export const newKey = (): Buffer => randomBytes(KEY_BYTES);
/** Seals the key of a subject under the vault of its client. */
export const sealKey = (vault: Buffer, clientId: number, subject: LeadSubject, key: Buffer): Buffer =>
  sealBytes(vault, key, placeOfKey(clientId, subject));
/** Throws if the key was changed or moved. */
export const unsealKey = (vault: Buffer, clientId: number, subject: LeadSubject, sealed: Buffer): Buffer =>
  unsealBytes(vault, sealed, placeOfKey(clientId, subject));

const keyOf = (keys: readonly Buffer[], leadId: string): Buffer =>
  Buffer.from(hkdfSync("sha256", Buffer.concat(keys), CONTENT, leadId, KEY_BYTES));

/** `keys` are the keys of `subjectsIn`, in the same order. */
export const sealLead = (keys: readonly Buffer[], clientId: number, leadId: string, content: LeadContent): Buffer =>
  sealBytes(keyOf(keys, leadId), Buffer.from(JSON.stringify(content)), placeOfLead(clientId, leadId));

/** Throws if the data was changed or moved, or sealed under other keys. */
export const unsealLead = (keys: readonly Buffer[], clientId: number, leadId: string, sealed: Buffer): LeadContent =>
  JSON.parse(unsealBytes(keyOf(keys, leadId), sealed, placeOfLead(clientId, leadId)).toString("utf8"));
