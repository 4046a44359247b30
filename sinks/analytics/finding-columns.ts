// The columns in which `events` keeps what scoring and attribution found, as every reader of them
// names them.
import { count, optional, text, unixMs } from "../../infra/clickhouse/query.ts";

export const findingColumns = {
  fraud_score: count("fraud_score"),
  fraud_band: text("fraud_band"),
  fraud_reasons: text("fraud_reasons"),
  credit_status: text("credit_status"),
  credit_method: optional(text("credit_method")),
  credit_reason: optional(text("credit_reason")),
  partner_id: optional(count("partner_id")),
  campaign_id: optional(count("campaign_id")),
  link_id: optional(count("link_id")),
  rule_id: optional(count("rule_id")),
  rule_version: optional(count("rule_version")),
  clicked_at: optional(unixMs("clicked_at")),
  window_days: optional(count("window_days")),
  candidates: text("candidates"),
  reference_as_of: optional(unixMs("reference_as_of")),
};
