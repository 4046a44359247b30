// The port of a payment provider: how it signs, and what its notices mean. A new provider is one
// file in this folder and a line in providers.ts.
import type { REFUND_REASONS } from "../../../domain/refunds.ts";
import type { Arrival, UnixMs } from "../../../stream/flow.ts";

export type Json = Readonly<Record<string, unknown>>;

/** A request before any part of it is parsed. */
export interface SignedRequest {
  readonly body: Buffer;
  readonly header: Arrival["header"];
  /** Reads a parameter of the URL. Undefined if it is absent or repeated. */
  readonly query: (name: string) => string | undefined;
  readonly receivedAt: UnixMs;
}

/** A payment, or an amount that was taken back from one. */
export interface Money {
  readonly at: UnixMs;
  /** The provider's id of the payment. A dispute names no order, so this id finds its sale. */
  readonly payment: string;
  /** Decimal text, e.g. "1234.50". */
  readonly amount: string;
  /** The currency code in upper case. */
  readonly currency: string;
  /** The metadata as the shop wrote it, and its path in the notice, e.g. data.object.metadata. */
  readonly metadata: Json;
  readonly metadataAt: string;
  /** The order, if the provider signs it apart from the metadata. It wins over one in them. */
  readonly signedOrder?: string;
}
export interface PaymentSucceeded extends Money {
  readonly kind: "succeeded";
}
export interface PaymentTakenBack extends Money {
  readonly kind: "refunded" | "disputed";
  /** A unique id of this refund or dispute. */
  readonly refund: string;
  readonly reason: (typeof REFUND_REASONS)[number];
}
/**
 * The payments and refunds that a notice reports, in the order in which they happened. Empty if the
 * notice is not about money.
 */
export interface Notice {
  /** The provider's id of the notice, which stays the same when the notice is sent again. */
  readonly notice: string;
  readonly found: readonly (PaymentSucceeded | PaymentTakenBack)[];
}

export interface PaymentProvider {
  /** The provider's name in the path of its postbacks. */
  readonly name: string;
  /**
   * Checks the signature of the provider. Every failed check takes the same steps, also without a
   * secret; `dummy` then replaces the secret.
   */
  readonly isSigned: (request: SignedRequest, secret: string | undefined, dummy: string) => boolean;
  /**
   * True if the signature does not cover the metadata. What it says of order, click and device is
   * then used only if the sender authenticates itself too (`PostbackFacts.isSenderKnown`).
   */
  readonly hasUnsignedMetadata?: boolean;
  /** Older payments and refunds are refused, for a provider that signs no time; undefined: none. */
  readonly longestDelayMs?: number;
  /** Throws Refused with the path of the missing or invalid field. */
  readonly read: (body: Json) => Notice;
  /**
   * For notices whose signature covers no more than the id of an object: the path of the provider's
   * API that returns the object. It is called with the account's access token, and the answer
   * becomes `data` of the notice. Undefined if the notice is not about money.
   */
  readonly lookUp?: (body: Json) => string | undefined;
}

/**
 * The largest accepted difference between our clock and the signature's time, in both directions.
 */
export const TOLERANCE_MS = 300_000;
