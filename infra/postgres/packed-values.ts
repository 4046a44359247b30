// Durable memory is kept for ever, so its values are packed: deflated with the words that most of
// them share. Older values are not packed, and are read unchanged.
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { deflater } from "./deflate.ts";

/**
 * The first byte is the form of a value. Older values begin with `{`, `[` or 1; a value that begins
 * with a mark is stored behind `plain`.
 */
const MARKS = { plain: 0xd0, words: 0xd1 } as const;

/**
 * The words of orders and of the outcomes of settle and commission, the most frequent last. Never
 * change it: values are read with the words that they were written with. Other words need another
 * mark.
 */
export const WORDS = Buffer.from(
  [
    '"cap_period":"month","cap_minor":"","cap_used_before_minor":"","volume_before_minor":"","volume_after_minor":""',
    "no_contractbelow_first_tiermarginalretroactivecap_reachedzero_valueclaimed_by_another_partnerfraud_review",
    "item_returnedorder_canceledhttps://www.lead_submitinstallrecurringhybridtieredflatruleunattributedno_click",
    'click_expired"decisions":[{"earned_minor":"","refunded_minor":"","line_value_minor":"","reversed_before_minor":""',
    "amount = reversed before - earned x refunded / line value, the quotient rounded half to even to the minor unit",
    "expense:clientheld:partnerpayable:partnerpercentamount = line value x  %, rounded half to even to the minor unit",
    '{"line_value_minor":"0000","currency":"MXN","rate_ppm":"0000","hold_days":30,"amount_minor":"000"}ledger.entries',
    '{"format":2,"lines":[{"product_key":"","status":"credited","partner_id":,"campaign_id":,"event_id":"","at":17',
    ',"received_at":17,"value_minor":"","currency":"MXN","has_server_money":false,"refunded_minor":"0"',
    ',"refund_reason":null,"is_returned":false,"review":null,"conversion_id":"cnv_","conversion_version":1,"copies":0}]',
    ',"refunds":[]}\n{"event":{"event_id":"","sender_event_id":"","client_id":,"did":"","t":"purchase","custom_name":null',
    ',"ts":17,"source":"pixel","client_side":true,"url":"https://","ref":"https://","ip":"","ua":"Mozilla/5.0 (',
    "Windows NT 10.0; Win64; x64Macintosh; Intel Mac OS X 10_15_7iPhone; CPU iPhone OS 17_0 like Mac OS XLinux; Android",
    ') AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Mobile Safari/537.36"',
    ',"ip_source":null,"ua_source":null,"sid":"","click_id":"AQ","consent":255,"order_id":"","product_id":""',
    ',"product_line":"","quantity":1,"value_minor":"","currency":"MXN","partner_ref":null,"dedup_key":null',
    ',"lead_key":null,"sale_hash":null,"import_id":null,"props":"{\\"order_id\\":\\"\\",\\"product_id\\":\\"\\"',
    ',\\"product_line\\":\\"\\",\\"quantity\\":1,\\"revenue\\":\\"\\",\\"currency\\":\\"MXN\\"}","warnings":[]',
    ',"batch_id":"bat_"},"enrichment":{"country":"MX","device":"mobiledesktopunknown","browser":"Chrome","os":"Windows"',
    ',"is_bot":false,"consent":255,"geo_built":"","errors":[],"region":null,"city":null,"asn":,"asn_class":"unknown"',
    ',"person":null,"edges":[]},"fraud":{"score":0,"band":"ok","reasons":[],"hints":null},"credit":{"status":"attributed"',
    ',"method":"click","reason":null,"partner_id":,"campaign_id":,"link_id":,"rule_id":null,"rule_version":null',
    ',"clicked_at":17,"window_days":30,"candidates":[{"method":"click","reference":"AQ","partner_id":,"campaign_id":',
    ',"outcome":"won"}],"reference_as_of":null},"version":1,"merged_into":null}events.attributed{"order_id":"',
    '","product_id":"","product_line":"","quantity":1,"revenue":"","currency":"MXN"}batchpixelunknownpurchaseconversions',
    "clickwonMXNcnv_led_",
  ].join(""),
  "latin1",
);
const FROM_BYTES = 256;
/**
 * Nearly every value is smaller. In orders of many lines zlib finds more, and is worth its
 * allocation.
 */
const SMALL_BYTES = 8 * 1024;
const LARGE = { dictionary: WORDS, level: 1 } as const;
const deflateSmall = deflater(WORDS, SMALL_BYTES);

/** Returns the stored form. Small values, such as most of commission's, are not worth the work. */
export const packed = (bytes: Uint8Array): Uint8Array => {
  if (bytes.length >= FROM_BYTES) {
    const deflated = bytes.length <= SMALL_BYTES ? deflateSmall(bytes) : deflateRawSync(bytes, LARGE);
    if (deflated.length + 1 < bytes.length) return Buffer.concat([Buffer.of(MARKS.words), deflated]);
  }
  const isMarked = bytes[0] === MARKS.plain || bytes[0] === MARKS.words;
  return isMarked ? Buffer.concat([Buffer.of(MARKS.plain), bytes]) : bytes;
};

export const unpacked = (stored: Buffer): Buffer => {
  if (stored[0] === MARKS.words) return inflateRawSync(stored.subarray(1), { dictionary: WORDS });
  return stored[0] === MARKS.plain ? stored.subarray(1) : stored;
};
