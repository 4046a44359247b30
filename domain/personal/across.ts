// Identifiers that are the same for every client: e-mail addresses and phone numbers hashed with
// the second pepper. They are only computed if the visitor allows it, so that nothing else can be
// linked.
import { hash } from "node:crypto";
import type { AcrossIdentifier } from "../../schemas/generated.ts";
import type { Identify } from "./identify.ts";
import { personalForm, personalForms } from "./personal-form.ts";

/**
 * The consent bits for analytics and for linking across clients (docs/design/contracts.md,
 * "Consent").
 */
const allowsAcross = 0x09;
export const mayLinkAcross = (consent: number): boolean => (consent & allowsAcross) === allowsAcross;

const EMAIL = /^[^\s@]{1,64}@[^\s@]+\.[^\s@.]{2,}$/;
const PHONE = /^\+?\d{7,15}$/;
const SHA256_HEX = /^[0-9a-f]{64}$/i;

/**
 * The SHA-256 of the normalised value, as a browser would send it. Undefined if the value is not an
 * address or number, because such a value must not link persons.
 */
export const hashedForm = (kind: "email" | "phone", given: string | null | undefined): string | undefined => {
  if (!given) return undefined;
  const form = personalForm(kind, given);
  return (kind === "email" ? EMAIL : PHONE).test(form) ? hash("sha256", form, "hex") : undefined;
};

const noIdentifiers: readonly AcrossIdentifier[] = [];
const kinds = ["email", "phone"] as const;

/**
 * Reads the identifiers from unscrubbed props. A phone number without a country code is left out,
 * because in another country it belongs to another person.
 */
export const acrossIdentifiers = (
  props: Readonly<Record<string, unknown>>,
  { across }: Identify,
): readonly AcrossIdentifier[] => {
  if (across === undefined) return noIdentifiers;
  const found = kinds.flatMap((kind) => {
    const sha256 = sha256Of(kind, props[kind]);
    return sha256 === undefined ? [] : { kind, identifier: across(sha256) };
  });
  return found.length === 0 ? noIdentifiers : found;
};

const sha256Of = (kind: "email" | "phone", given: unknown): string | undefined => {
  if (typeof given !== "string") return undefined;
  const text = given.trim();
  if (SHA256_HEX.test(text)) return text.toLowerCase();
  return kind === "email" || personalForm(kind, text).startsWith("+") ? hashedForm(kind, text) : undefined;
};

/**
 * The hashes of an e-mail address or phone number that the log may hold under the second pepper.
 */
export const acrossHashes = (kind: "email" | "phone", value: string, identify: Identify): readonly string[] => {
  const { across } = identify;
  if (across === undefined) return [];
  const current = acrossIdentifiers({ [kind]: value }, identify).map(({ identifier }) => identifier);
  // Before form 3 an address was hashed with what stood around it.
  const former = kind === "phone" ? [] : personalForms(kind, value.trim()).filter((form) => EMAIL.test(form));
  return [...new Set([...current, ...former.map((form) => across(hash("sha256", form, "hex")))])];
};
