// A ledger entry with fixed, boring defaults.
import type { LedgerEntry } from "../../schemas/generated.ts";
import { campaignId, clientId, dayMs, noon, partnerId } from "./builders.ts";

/** Partner 21 earns 10.00 MXN, 10 % of a sale in June 2026. */
export const ledgerEntry = (over: Partial<LedgerEntry> = {}): LedgerEntry => ({
  entry_id: "led_1",
  kind: "earned",
  client_id: clientId,
  partner_id: partnerId,
  campaign_id: campaignId,
  conversion_id: "cnv_1",
  change_id: "chg_1",
  conversion_version: 1,
  event_type: "purchase",
  segment: "MX",
  currency: "MXN",
  amount_minor: 10_00n,
  lines: [
    { account: "expense:client", amount_minor: 10_00n },
    { account: "payable:partner", amount_minor: -10_00n },
  ],
  reason: null,
  contract_id: 61,
  contract_version: 1,
  commission_type: "percent",
  formula: "10 % of 100.00 MXN",
  inputs: '{"rate_ppm":"100000","value_minor":"10000"}',
  occurred_at: noon,
  payable_from: noon + 30 * dayMs,
  year: 2026,
  month: 6,
  held: false,
  reverses_entry_id: null,
  ...over,
});
