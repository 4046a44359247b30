// The edge of POST /postback/:processor: a payment that succeeded becomes a purchase, a refund and
// a dispute become a refund, and everything else that a processor says is ignored.
import { isUtf8 } from "node:buffer";
import type { EventReceived } from "../../../schemas/generated.ts";
import { type Admission, type Arrival, BadBody, type Refusal } from "../../../stream/flow.ts";
import { admitEvent, type Terms } from "../event.ts";
import { Refused, refuse } from "../refuse.ts";
import { type RequestFacts, requestTerms } from "../request-terms.ts";
import { type Texts, textsOf } from "../shape.ts";
import { fieldOf, isObject } from "./fields.ts";
import type { Money, Notice, PaymentProcessor, TakenBack } from "./processor.ts";
import { processorOf } from "./processors.ts";

export interface PostbackBody {
  readonly clientId: number;
  readonly processor: PaymentProcessor;
  /** The notice, or why it cannot be read; none when it is ignored. */
  readonly events: readonly (Notice | Refused)[];
  /** The processor's id of it; null: it cannot be read. */
  readonly notice: string | null;
  readonly texts: Texts;
}

const NEWLINE = 0x0a;
const HEAD = /^([a-z]{2,40}) ([1-9]\d{0,9})$/;

/** What the address said, in front of the body: a dead letter keeps both. */
export const envelopeOf = (processor: string, clientId: number, body: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from(`${processor} ${clientId}\n`), body]);

/** An envelope. Throws BadBody for what is no JSON object. */
export const acceptsPostback = (envelope: unknown): PostbackBody => {
  if (!(envelope instanceof Uint8Array)) throw new BadBody("bad_json", "", "the body is empty");
  const bytes = Buffer.from(envelope.buffer, envelope.byteOffset, envelope.byteLength);
  const end = bytes.indexOf(NEWLINE);
  const [, name = "", id = ""] = HEAD.exec(bytes.toString("latin1", 0, Math.max(end, 0))) ?? [];
  const processor = processorOf(name);
  if (processor === undefined) throw new BadBody("unknown_processor", "", "no processor of this name is known");
  const text = textOf(bytes.subarray(end + 1));
  const found = noticeIn(processor, text);
  return {
    clientId: Number(id),
    processor,
    events: found instanceof Refused || found.kind !== "ignored" ? [found] : [],
    notice: found instanceof Refused ? null : found.notice,
    texts: textsOf(text),
  };
};

const textOf = (bytes: Buffer): string => {
  if (bytes.length === 0) throw new BadBody("bad_json", "", "the body is empty: send the notice as JSON");
  if (!isUtf8(bytes)) throw new BadBody("bad_json", "", "the body is not UTF-8");
  return bytes.toString("utf8");
};

const noticeIn = (processor: PaymentProcessor, text: string): Notice | Refused => {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw new BadBody("bad_json", "", "the body is not JSON");
  }
  if (!isObject(body)) throw new BadBody("bad_json", "", "the body is no object: send the notice as JSON");
  try {
    return processor.read(body);
  } catch (problem) {
    if (problem instanceof Refused) return problem;
    throw problem;
  }
};

/** Pure: the same notice is the same event, however often it comes. */
export function* admitPostback(
  { processor, events, texts }: PostbackBody,
  arrival: Arrival,
  facts: RequestFacts,
): Generator<Admission<EventReceived>, void> {
  // Address and browser are the processor's: they say nothing of a visitor.
  const ownArrival = { ...arrival, address: null, header: () => undefined };
  const own = {
    ...{ texts, source: `postback:${processor.name}`, isClientSide: false, batchId: null },
    // A payment knows what its order cost, and seldom what was in it.
    takesBareSales: true,
  };
  const terms = requestTerms(own, ownArrival, facts);
  for (const found of events)
    yield found instanceof Refused ? refusedAs(found.refusal) : admitNotice(processor, found, terms);
}

const refusedAs = (refusal: Refusal): Admission<EventReceived> => ({ kind: "refused", id: null, refusal });

const admitNotice = (processor: PaymentProcessor, notice: Notice, terms: Terms): Admission<EventReceived> => {
  if (notice.kind === "ignored") return refusedAs({ code: "ignored", field: null, message: "", retryable: false });
  try {
    const given = notice.kind === "succeeded" ? purchaseOf(processor, notice) : refundOf(processor, notice);
    const admitted = admitEvent({ ...given, ts: notice.at, cid: terms.clientId }, terms);
    return admitted.kind === "accepted" ? admitted : refusedAs(placedIn(notice, admitted.refusal));
  } catch (problem) {
    if (problem instanceof Refused) return refusedAs(problem.refusal);
    throw problem;
  }
};

/** The place of the field as the shop wrote it. */
const placedIn = ({ metadataAt }: Money, refusal: Refusal): Refusal => ({
  ...refusal,
  field: refusal.field?.replace(/^props\./, `${metadataAt}.`) ?? null,
});

/** The payment names its event, so that a dispute finds it. */
const saleOf = ({ name }: PaymentProcessor, { payment }: Money): string => `${name}:${payment}`;

/** The device, where the shop wrote it; else the payment stands for it. */
const deviceOf = (processor: PaymentProcessor, money: Money): unknown =>
  present(money.metadata, "did") ?? saleOf(processor, money);

const purchaseOf = (processor: PaymentProcessor, money: Money) => {
  const { metadata, metadataAt, amount, currency } = money;
  if (present(metadata, "order_id") === undefined)
    refuse(
      "missing_metadata",
      `${metadataAt}.order_id`,
      "is missing: write the id of the order into the payment's metadata",
    );
  return {
    event_id: saleOf(processor, money),
    t: "purchase",
    did: deviceOf(processor, money),
    svc_click_id: present(metadata, "svc_click_id"),
    props: { ...goodsIn(metadata, metadataAt), revenue: amount, currency, payment_id: money.payment },
  };
};

const refundOf = (processor: PaymentProcessor, money: Money & TakenBack) => {
  const { metadata, metadataAt, amount, currency, reason, refund } = money;
  const { order_id, product_id } = goodsIn(metadata, metadataAt);
  const of = order_id === undefined ? { refunded_event_id: saleOf(processor, money) } : { order_id, product_id };
  return {
    event_id: `${processor.name}:${refund}`,
    t: "refund",
    did: deviceOf(processor, money),
    props: { ...of, refund_id: refund, amount, currency, reason, payment_id: money.payment },
  };
};

/** Values of metadata are texts, so a quantity is one too. */
const goodsIn = (metadata: Money["metadata"], metadataAt: string) => {
  const quantity = present(metadata, "quantity");
  if (quantity !== undefined && !/^[1-9]\d{0,6}$/.test(String(quantity)))
    refuse("bad_quantity", `${metadataAt}.quantity`, "must be a whole number from 1 to 1000000");
  return {
    order_id: present(metadata, "order_id"),
    product_id: present(metadata, "product_id"),
    product_line: present(metadata, "product_line"),
    quantity: quantity === undefined ? undefined : Number(quantity),
  };
};

const present = (metadata: Money["metadata"], name: string): unknown => {
  const value = fieldOf(metadata, name);
  return value === null || value === "" ? undefined : value;
};
