// The port of a payment processor: how it signs, and what its notices say. A processor is one file
// beside this one, and its line in processors.ts.
import type { REFUND_REASONS } from "../../../domain/refunds.ts";
import type { Arrival, UnixMs } from "../../../stream/flow.ts";

export type Json = Readonly<Record<string, unknown>>;

/** A request as it came, before anything of it is parsed. */
export interface SignedRequest {
  readonly body: Buffer;
  readonly header: Arrival["header"];
  /** Of the address that was asked; undefined: it is not there once. */
  readonly query: (name: string) => string | undefined;
  readonly receivedAt: UnixMs;
}

/** What a payment was, or what of it was taken back. */
export interface Money {
  readonly at: UnixMs;
  /** The processor's id of the payment: a dispute names no order, and finds its sale by this. */
  readonly payment: string;
  /** Decimal text, e.g. "1234.50". */
  readonly amount: string;
  /** Upper case. */
  readonly currency: string;
  /** As the shop wrote it, with the place where a field of it stands, e.g. data.object.metadata. */
  readonly metadata: Json;
  readonly metadataAt: string;
}
export interface PaymentSucceeded extends Money {
  readonly kind: "succeeded";
}
export interface PaymentTakenBack extends Money {
  readonly kind: "refunded" | "disputed";
  /** Names what was taken back, of all that ever is. */
  readonly refund: string;
  readonly reason: (typeof REFUND_REASONS)[number];
}
/** What one says, in the order in which it happened; nothing where it says nothing of money. */
export interface Notice {
  /** The processor's id of the notice: one that comes again has the same. */
  readonly notice: string;
  readonly found: readonly (PaymentSucceeded | PaymentTakenBack)[];
}

export interface PaymentProvider {
  /** As in the path of its postbacks. */
  readonly name: string;
  /**
   * Whether the processor has sent this. Every no takes the same steps, also without a secret;
   * `dummy` stands for it then.
   */
  readonly isSigned: (request: SignedRequest, secret: string | undefined, dummy: string) => boolean;
  /** Throws Refused with the place of what is missing or wrong. */
  readonly read: (body: Json) => Notice;
  /**
   * Where the processor's API says what the notice only names: asked with the access token of the
   * account, its answer becomes `data` of the notice. Undefined: the notice says all of it.
   */
  readonly lookUp?: (body: Json) => string | undefined;
}

/** How far the clock of a signature may be off, in both directions. */
export const TOLERANCE_MS = 300_000;
