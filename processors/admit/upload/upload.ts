// The edge of PUT /upload/:client/:partner/:filename: turns the rows of a CSV file into log records
// and answers for each row separately.
import { meetingId, spellingOfBefore, uploadEventId, uuidOf } from "../../../domain/ids.ts";
import type { EventReceived } from "../../../schemas/generated.ts";
import type { Admission, Arrival, Refusal } from "../../../stream/flow.ts";
import { admitEvent } from "../event.ts";
import { RefusedEvent } from "../refuse.ts";
import { type RequestFacts, requestTerms, type Terms } from "../request-terms.ts";
import { type Columns, givenEvent, type Row } from "./csv-row.ts";

/** Some rows of a file, and the columns from its header. */
export interface UploadBody {
  readonly events: readonly Row[];
  readonly columns: Columns;
}
export interface UploadFacts extends RequestFacts {
  readonly importId: string;
  /** The partner who is credited for a row that proves no click. */
  readonly partnerId: number;
  /** True if the partner itself uploads the file. A partner may not report refunds. */
  readonly isPartners: boolean;
  /** The ids of rows that undone imports have brought before, and are new now, by their own id. */
  readonly again?: ReadonlyMap<string, string>;
}

/** Accepts rows from the importer without further checks. */
export const acceptsUpload = (body: unknown): UploadBody => body as UploadBody;

/** Types that no file may contain: clicks come from tracking links only. */
const NEVER: ReadonlySet<string> = new Set(["click", "click_filtered"]);
/**
 * For these types, a row is identified by its order line, even if it is sent several times or its
 * other cells differ.
 */
const SALES: ReadonlySet<string> = new Set(["purchase", "ext_purchase"]);

/**
 * Admits rows. Pure: the same row of the same client and partner is the same event in every file,
 * unless a file that brought it was undone.
 */
export function* admitUpload(
  { events, columns }: UploadBody,
  arrival: Arrival,
  facts: UploadFacts,
): Generator<Admission<EventReceived>, void> {
  // The reader has already refused invalid UTF-8 and U+0000.
  const texts = { mayBeBroken: false, mayHoldEmail: true };
  const terms = requestTerms({ texts, source: "upload", isClientSide: false, batchId: null }, arrival, facts);
  for (const row of events) yield admitted(row, columns, terms, facts);
}

const admitted = (row: Row, columns: Columns, terms: Terms, facts: UploadFacts): Admission<EventReceived> => {
  try {
    const { event, props } = givenEvent(row, columns);
    const t = event.t as string;
    if (NEVER.has(t) || (facts.isPartners && t === "refund")) return refused(notOfUploads);
    const id = rowId({ ...event, ...props }, facts);
    const orderId = meetingId(props.order_id as string | undefined);
    const sent = {
      ...event,
      cid: facts.clientId,
      did: event.did ?? (orderId === null ? `row:${id}` : `${SALES.has(t) ? "order" : "row"}:${orderId}`),
      event_id: event.event_id ?? id,
      props,
    };
    const found = admitEvent(sent, terms);
    if (found.kind === "refused") return { ...found, refusal: { ...found.refusal, field: columnOf(found.refusal) } };
    const sender_event_id = event.event_id === undefined ? null : found.data.sender_event_id;
    const { partnerId, importId, isPartners } = facts;
    const ours = { sender_event_id, partner_ref: String(partnerId), import_id: importId, by_partner: isPartners };
    // A partner may write any id into its file, also that of a sale of the client's own systems.
    const isOwn = facts.isPartners && sender_event_id !== null;
    const row_id = isOwn ? uploadEventId(facts.clientId, facts.partnerId, sender_event_id) : found.id;
    const event_id = facts.again?.get(row_id) ?? row_id;
    return { ...found, id: event_id, data: { ...found.data, ...ours, event_id } };
  } catch (problem) {
    if (problem instanceof RefusedEvent) return refused(problem.refusal);
    throw problem;
  }
};

const refused = (refusal: Refusal): Admission<EventReceived> => ({ kind: "refused", id: null, refusal });
const notOfUploads: Refusal = {
  code: "not_from_upload",
  field: "t",
  message: "uploads do not carry this type: refunds come from the client's own systems, clicks from links",
  retryable: false,
};

/** Names the refused field as the column of the file. */
const columnOf = ({ field }: Refusal): string | null => {
  const name = field?.replace(/^props\./, "") ?? null;
  if (name === "email") return "email_sha256";
  return name !== null && ["amount", "price", "cart_value", "lead_value"].includes(name) ? "revenue" : name;
};

type JsonObject = Readonly<Record<string, unknown>>;
const rowId = (given: JsonObject, { clientId, partnerId }: UploadFacts): string => {
  const orderId = typeof given.order_id === "string" ? meetingId(given.order_id) : null;
  const parts =
    SALES.has(given.t as string) && orderId !== null
      ? // As it was sent, so that a row of a file that is stored keeps its id.
        ["order", spellingOfBefore(given.order_id as string), String(given.product_id ?? "")]
      : ["row", JSON.stringify(Object.entries(given).sort(([a], [b]) => (a < b ? -1 : 1)))];
  return uuidOf("upload", clientId, partnerId, given.t as string, ...parts);
};
