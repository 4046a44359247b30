// The request settings that all edges share: times, client, origin, and the consent of visitors who
// have not chosen yet.
import { monthsBefore } from "../../domain/calendar.ts";
import type { Identify } from "../../domain/personal/identify.ts";
import { scrubText, TooMuchPersonalData } from "../../domain/personal/personal-data.ts";
import type { Client } from "../../domain/reference/reference.ts";
import type { Arrival, UnixMs } from "../../stream/flow.ts";
import { addressOf } from "./address.ts";
import { cut, type Texts } from "./shape.ts";

/** The settings that all events of one request share. Times are Unix milliseconds. */
export interface Terms {
  readonly source: string;
  readonly clientId: number;
  readonly isClientSide: boolean;
  readonly consentDefault: number;
  readonly segments: ReadonlySet<string>;
  readonly identify: Identify;
  readonly texts: Texts;
  readonly receivedAt: UnixMs;
  /** The oldest and the newest `ts` that is accepted. */
  readonly oldest: UnixMs;
  readonly newest: UnixMs;
  /** Address and user agent of the request, used for events that have none of their own. */
  readonly address: string | null;
  readonly userAgent: RequestUserAgent | null;
  /** The batch that brought the events. Null where there are no receipts. */
  readonly batchId: string | null;
  /**
   * If true, an event with an unknown name becomes a custom event of that name instead of being
   * refused.
   */
  readonly takesAnyName?: boolean;
  /**
   * If true, a purchase needs only its revenue, because other systems name neither its products nor
   * our order id.
   */
  readonly takesBareSales?: boolean;
  /** Warnings for every event of the request, e.g. about a header that the edge read. */
  readonly warnings?: readonly string[];
}

/**
 * The user agent of a request with personal data removed. `wasPlain` says whether it contained any.
 */
export interface RequestUserAgent {
  readonly text: string;
  readonly wasPlain: boolean;
}

/** The facts of an edge about the client of a request. */
export interface RequestFacts {
  readonly clientId: number;
  /** The client's own segments, in addition to the six common ones. */
  readonly segments: readonly string[];
  readonly consentDefault: number;
  readonly identify: Identify;
}
/** The settings that each edge adds. */
type OwnTerms = Pick<
  Terms,
  "texts" | "source" | "isClientSide" | "batchId" | "takesAnyName" | "takesBareSales" | "warnings"
>;

const DAY_MS = 24 * 3_600_000;
const RETENTION_MONTHS = 24;
/** Segments of the specification. A client may add its own. */
const COMMON_SEGMENTS = ["MX", "VD", "DA", "HA", "IT", "NW"] as const;

/**
 * Written out field by field, because V8 stores a spread followed by more fields as a slow object,
 * which cost a tenth of a single-event request.
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

/** Longer user agents are cut. */
export const MAX_USER_AGENT = 1_024;

/**
 * The user agent of the request, for events without one of their own. Scrubbed once for all of
 * them.
 */
export const userAgentOf = (header: string | undefined, identify: Identify): RequestUserAgent | null => {
  if (!header) return null;
  try {
    const { value, wasPlain } = scrubText(header, identify);
    return { text: cut(value, MAX_USER_AGENT), wasPlain };
  } catch (problem) {
    // No real browser has this many e-mail addresses in its user agent.
    if (problem instanceof TooMuchPersonalData) return null;
    throw problem;
  }
};

const common: ReadonlySet<string> = new Set(COMMON_SEGMENTS);
/**
 * Cached by the client's list in the reference data. Another client or newer data has another list.
 */
const withCommon = new WeakMap<readonly string[], ReadonlySet<string>>();
const segmentsOf = (own: readonly string[]): ReadonlySet<string> => {
  if (own.length === 0) return common;
  const known = withCommon.get(own) ?? new Set([...COMMON_SEGMENTS, ...own]);
  withCommon.set(own, known);
  return known;
};

/**
 * Jurisdictions where nothing is allowed until the visitor agrees (docs/design/contracts.md,
 * "Batch").
 */
const optIn: ReadonlySet<Client["jurisdiction"]> = new Set(["EU", "UK", "BR"]);

/**
 * The consent mask of an event that has none: 0x00 in opt-in jurisdictions whatever the client
 * prefers, otherwise the client's default.
 */
export const consentDefaultOf = ({
  jurisdiction,
  consent_default,
}: Pick<Client, "jurisdiction" | "consent_default">): number => (optIn.has(jurisdiction) ? 0x00 : consent_default);
