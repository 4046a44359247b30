// What becomes of a row by which money is explained once its person must not be in it: amounts,
// products, times and the credit stay, and everything that names a visitor goes.
import { contractual } from "../../domain/personal/consent.ts";
import { SCRUBBED } from "../../domain/personal/erased-mark.ts";
import { literal } from "../../infra/clickhouse/sql-fragments.ts";
import { type Sql, sql } from "../../infra/postgres/sql.ts";

/** True for an event of the analytics store by which money is explained. */
export const isOfMoney = `t in (${[...contractual].map((t) => literal(t).expression).join(", ")})`;

const jsonOf = (key: string): string =>
  `'"${key}":', if(JSONHas(props, '${key}'), JSONExtractRaw(props, '${key}'), 'null')`;

/** True for such a row. */
export const isScrubbedEvent = `startsWith(did, '${SCRUBBED}')`;

/** As hex digits, because the embedded server refuses a backslash behind a quote. */
const hexOf = (text: string): string => `unhex('${Buffer.from(text).toString("hex")}')`;

/** A text of a JSON list of objects whose values of `key` are taken out. */
const without = (column: string, key: string): string => {
  const pattern = String.raw`"${key}":"(?:[^"\\]|\\.)*"`;
  return `replaceRegexpAll(${column}, ${hexOf(pattern)}, '"${key}":"erased"')`;
};

/**
 * The changes of a row of `events`. Of its props only what a refund says about its sale stays. The
 * mask reads as after a refusal of analytics and personalization, so a figure that is counted again
 * treats the row as that of such a visitor. Ids of orders and leads stay: by them a decision finds
 * the line of an event. Two runs leave the same row.
 */
export const scrubbedEvent: readonly string[] = [
  `did = concat('${SCRUBBED}', toString(event_id))`,
  ...["url", "ref", "ip", "ua", "sid", "click_id", "sender_event_id"].map((name) => `${name} = null`),
  ...["region", "city", "asn", "person"].map((name) => `${name} = null`),
  "consent = bitAnd(consent, 252)",
  `props = if(t = 'refund', concat('{', ${jsonOf("reason")}, ',', ${jsonOf("refunded_event_id")}, '}'), '{}')`,
  `candidates = ${without("candidates", "reference")}`,
  `fraud_reasons = ${without("fraud_reasons", "evidence")}`,
];

/** The same for the tables of Postgres; each has `event_id`. */
export const scrubbedName: Sql = sql`${SCRUBBED}::text || event_id`;
export const isScrubbed = (column: Sql): Sql => sql`starts_with(${column}, ${SCRUBBED})`;
/** An event of an app that earned nothing and has no amount: no money is explained by its row. */
export const isFreeAppEvent: Sql = sql`event_type not in ('install', 'ext_purchase')
  and value_minor is null and credit_status <> 'attributed'`;
