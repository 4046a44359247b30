// The consent of a visitor who has not said anything, by the law of where they are.
import type { Client } from "../../domain/reference/reference.ts";

/** Where nothing is allowed until somebody agrees (docs/design/contracts.md, "Batch"). */
const optIn: ReadonlySet<Client["jurisdiction"]> = new Set(["EU", "UK", "BR"]);

/**
 * The mask of an event that brings none: 0x00 in opt-in jurisdictions whatever the client prefers,
 * else the client's default.
 */
export const consentDefaultOf = ({
  jurisdiction,
  consent_default,
}: Pick<Client, "jurisdiction" | "consent_default">): number => (optIn.has(jurisdiction) ? 0x00 : consent_default);
