// What is the same for every edge in the terms of a request: its times, its client, where it came
// from, and the consent of a visitor who has not said anything.
import { monthsBefore } from "../../domain/calendar.ts";
import type { Identify } from "../../domain/personal/identify.ts";
import type { Client } from "../../domain/reference/reference.ts";
import type { Arrival } from "../../stream/flow.ts";
import { addressOf } from "./address.ts";
import { type Terms, userAgentOf } from "./event.ts";

/** What an edge knows about the client of a request. */
export interface RequestFacts {
  readonly clientId: number;
  /** Beside the six that every client has. */
  readonly segments: readonly string[];
  readonly consentDefault: number;
  readonly identify: Identify;
}
/** What an edge adds to them. */
type OwnTerms = Pick<
  Terms,
  "texts" | "source" | "isClientSide" | "batchId" | "takesAnyName" | "takesBareSales" | "warnings"
>;

const DAY_MS = 24 * 3_600_000;
const RETENTION_MONTHS = 24;
/** Segments of the specification; a client adds its own. */
const COMMON_SEGMENTS = ["MX", "VD", "DA", "HA", "IT", "NW"] as const;

/**
 * Written out field by field: V8 makes a spread with more fields behind it a slow object of its own
 * kind, which was a tenth of a request of one event.
 */
export const requestTerms = (
  { texts, source, isClientSide, batchId, takesAnyName, takesBareSales, warnings }: OwnTerms,
  { receivedAt, address, header }: Arrival,
  { clientId, segments, consentDefault, identify }: RequestFacts,
): Terms => ({
  source,
  clientId,
  isClientSide,
  consentDefault,
  segments: segmentsOf(segments),
  identify,
  texts,
  receivedAt,
  oldest: monthsBefore(receivedAt, RETENTION_MONTHS),
  newest: receivedAt + DAY_MS,
  address: address === null ? null : (addressOf(address) ?? null),
  userAgent: userAgentOf(header("user-agent"), identify),
  batchId,
  takesAnyName: takesAnyName ?? false,
  takesBareSales: takesBareSales ?? false,
  warnings: warnings ?? none,
});
const none: readonly string[] = [];

const common: ReadonlySet<string> = new Set(COMMON_SEGMENTS);
/** By the list of a client in the reference data: another list is another client's, or newer. */
const withCommon = new WeakMap<readonly string[], ReadonlySet<string>>();
const segmentsOf = (own: readonly string[]): ReadonlySet<string> => {
  if (own.length === 0) return common;
  const known = withCommon.get(own) ?? new Set([...COMMON_SEGMENTS, ...own]);
  withCommon.set(own, known);
  return known;
};

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
