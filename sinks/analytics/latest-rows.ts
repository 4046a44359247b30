// The newest row of each of many events, with all that stages found out about it: what a
// recomputation is compared with.

import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import {
  bind,
  type ClientScope,
  cond,
  count,
  flag,
  optional,
  readRows,
  text,
  texts,
} from "../../infra/clickhouse/query.ts";
import type { Candidate, Credit, Enrichment, Fraud, FraudReason } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { findingColumns } from "./finding-columns.ts";

export interface Standing {
  readonly version: number;
  readonly merged_into: string | null;
  readonly enrichment: Enrichment;
  readonly fraud: Fraud;
  readonly credit: Credit;
}

/** Ids in one statement: about 40 kB of text. */
const IDS_AT_ONCE = 1_000;

/**
 * By event id; an event without a row is absent. `ts` is part of the key by its hour, so that only
 * those parts are read. Identity edges have a table of their own.
 */
export const latestRows = async (
  clickhouse: Clickhouse,
  scope: ClientScope,
  events: readonly { readonly event_id: string; readonly ts: UnixMs }[],
): Promise<ReadonlyMap<string, Standing>> => {
  const found = new Map<string, Standing>();
  for (let n = 0; n < events.length; n += IDS_AT_ONCE) {
    const some = events.slice(n, n + IDS_AT_ONCE);
    for (const row of await rowsOf(clickhouse, scope, some)) found.set(row.event_id, standingOf(row));
  }
  return found;
};

const rowsOf = (
  clickhouse: Clickhouse,
  scope: ClientScope,
  events: readonly { readonly event_id: string; readonly ts: UnixMs }[],
) => {
  const times = events.map(({ ts }) => ts);
  const [first, last] = times.reduce(
    ([low, high], ts) => [Math.min(low, ts), Math.max(high, ts)],
    [times[0]!, times[0]!],
  );
  return readRows(clickhouse, scope, {
    from: "events",
    columns: {
      event_id: text("event_id"),
      version: count("version"),
      merged_into: optional(text("merged_into")),
      country: optional(text("country")),
      region: optional(text("region")),
      city: optional(text("city")),
      asn: optional(count("asn")),
      asn_class: text("asn_class"),
      device: text("device"),
      browser: optional(text("browser")),
      os: optional(text("os")),
      is_bot: flag("is_bot"),
      consent: count("consent"),
      geo_built: optional(text("geo_built")),
      enrich_errors: texts("enrich_errors"),
      person: optional(text("person")),
      ...findingColumns,
      address_conversions: optional(count("hint_address_conversions")),
      click_devices: optional(count("hint_click_devices")),
      click_country: optional(text("hint_click_country")),
    },
    where: [
      cond`ts >= fromUnixTimestamp64Milli(${bind("Int64", first)}) and ts <= fromUnixTimestamp64Milli(${bind("Int64", last)})`,
      cond`event_id in ${bind(
        "Array(UUID)",
        events.map(({ event_id }) => event_id),
      )}`,
    ],
    // The row that stands comes last: merges may not have dropped the others yet.
    orderBy: ["rank"],
  });
};

const standingOf = (row: Awaited<ReturnType<typeof rowsOf>>[number]): Standing => {
  const { address_conversions, click_devices, click_country } = row;
  const isHinted = address_conversions !== null || click_devices !== null || click_country !== null;
  return {
    version: row.version,
    merged_into: row.merged_into,
    enrichment: {
      country: row.country,
      device: row.device,
      browser: row.browser,
      os: row.os,
      is_bot: row.is_bot,
      consent: row.consent,
      geo_built: row.geo_built,
      errors: row.enrich_errors,
      region: row.region,
      city: row.city,
      asn: row.asn,
      asn_class: row.asn_class,
      person: row.person,
      edges: [],
    },
    fraud: {
      score: row.fraud_score,
      band: row.fraud_band as Fraud["band"],
      reasons: JSON.parse(row.fraud_reasons) as readonly FraudReason[],
      hints: isHinted ? { address_conversions, click_devices, click_country } : null,
    },
    credit: {
      status: row.credit_status as Credit["status"],
      method: row.credit_method,
      reason: row.credit_reason,
      partner_id: row.partner_id,
      campaign_id: row.campaign_id,
      link_id: row.link_id,
      rule_id: row.rule_id,
      rule_version: row.rule_version,
      clicked_at: row.clicked_at,
      window_days: row.window_days,
      candidates: JSON.parse(row.candidates) as readonly Candidate[],
      reference_as_of: row.reference_as_of,
    },
  };
};
