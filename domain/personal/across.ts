// Identifiers that are the same for every client: an e-mail or phone under the second pepper, for
// whom a visitor allows it. Without that no such hash is ever made, so that no join is possible.
import { hash } from "node:crypto";
import type { AcrossIdentifier } from "../../schemas/generated.ts";
import type { Identify } from "./identify.ts";
import { personalForm } from "./personal-form.ts";

/** Analytics and cross-client (docs/design/contracts.md, "Consent"). */
const allowsAcross = 0x09;
export const mayLinkAcross = (consent: number): boolean => (consent & allowsAcross) === allowsAcross;

const EMAIL = /^[^\s@]{1,64}@[^\s@]+\.[^\s@.]{2,}$/;
const PHONE = /^\+?\d{7,15}$/;
const SHA256_HEX = /^[0-9a-f]{64}$/i;

/**
 * The SHA-256 of a value's form, as a browser would send it; undefined when it is no address or
 * number: such a one is no key by which persons could meet.
 */
export const hashedForm = (kind: "email" | "phone", given: string | null | undefined): string | undefined => {
  if (!given) return undefined;
  const form = personalForm(kind, given);
  return (kind === "email" ? EMAIL : PHONE).test(form) ? hash("sha256", form, "hex") : undefined;
};

const noIdentifiers: readonly AcrossIdentifier[] = [];
const kinds = ["email", "phone"] as const;

/**
 * Of props as they were sent, before they are scrubbed. A number without its country is another
 * one's in another country, and is left out.
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

/** What the log may hold of an e-mail or phone under the second pepper. */
export const acrossHashes = (kind: "email" | "phone", value: string, identify: Identify): readonly string[] =>
  acrossIdentifiers({ [kind]: value }, identify).map(({ identifier }) => identifier);
