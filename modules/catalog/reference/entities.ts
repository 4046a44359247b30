// The tables and columns of each kind of record, and the input format of a change of reference
// data.
import type { z } from "zod";
import { termsOf } from "../contracts/contract-terms.ts";
import type { Columns } from "./problem.ts";
import {
  campaignRecord,
  clientRecord,
  contractRecord,
  earnsNothing,
  linkRecord,
  partnerRecord,
  ruleRecord,
} from "./records.ts";

/** Null in rows from before records could be archived. */
const withArchived = ({ archived, ...rest }: any): any => ({ ...rest, archived: archived === true });

/** An entity: its table, the fields of a saved record, and the columns where these differ. */
export interface Entity {
  readonly table: string;
  readonly id: string;
  readonly record: z.ZodType<any>;
  readonly toColumns: (record: any) => Columns;
  readonly toRecord: (columns: Columns) => any;
  /** Fields that later versions must not change, because records in the log refer to them. */
  readonly fixed: readonly string[];
}
const same = (value: any): any => value;

export const entities = {
  clients: {
    table: "clients",
    id: "client_id",
    record: clientRecord,
    fixed: ["slug"],
    toColumns: ({ attribution, fraud, ...rest }) => ({
      ...rest,
      ...attribution,
      fraud_review: fraud.review,
      fraud_reject: fraud.reject,
      fraud_nightly: fraud.nightly,
      fraud_rules: fraud.rules,
      fraud_exclusions: fraud.exclusions,
    }),
    toRecord: ({
      click_window_days,
      install_window_days,
      identity_link,
      fraud_review,
      fraud_reject,
      fraud_nightly,
      fraud_rules,
      fraud_exclusions,
      segments: _,
      hold_days,
      ...rest
    }) => ({
      ...rest,
      hold_days: Object.fromEntries(
        // Leaves out days without effect, which may have been saved before they were refused.
        Object.entries(hold_days).filter(([type]) => earnsNothing(type) === undefined),
      ),
      attribution: { click_window_days, install_window_days, identity_link },
      fraud: {
        review: fraud_review,
        reject: fraud_reject,
        nightly: fraud_nightly,
        rules: fraud_rules,
        exclusions: fraud_exclusions,
      },
    }),
  },
  partners: {
    table: "partners",
    id: "partner_id",
    record: partnerRecord,
    fixed: [],
    toColumns: ({ payout, ...rest }) => ({
      ...rest,
      payout_currency: payout.currency,
      payout_min_amount: payout.min_amount,
    }),
    toRecord: ({ payout_currency, payout_min_amount, known_to: _, ...rest }) => ({
      ...rest,
      payout: { currency: payout_currency, min_amount: String(payout_min_amount) },
    }),
  },
  campaigns: {
    table: "campaigns",
    id: "campaign_id",
    record: campaignRecord,
    fixed: ["client_id"],
    toColumns: same,
    toRecord: withArchived,
  },
  links: {
    table: "links",
    id: "link_id",
    record: linkRecord,
    fixed: ["campaign_id", "partner_id", "code"],
    toColumns: same,
    toRecord: ({ client_id: _, ...rest }) => rest,
  },
  contracts: {
    table: "segment_commissions",
    id: "contract_id",
    record: contractRecord,
    fixed: ["partner_id", "client_id", "segment", "event_type", "effective_from"],
    // The writer adds the columns of amounts, because they need the client's currency.
    toColumns: ({ partner_id, client_id, segment, event_type, status, effective_from, effective_to }) => ({
      partner_id,
      client_id,
      segment,
      event_type,
      status,
      effective_from,
      effective_to,
    }),
    toRecord: ({ partner_id, client_id, segment, event_type, status, effective_from, effective_to, ...terms }) => ({
      partner_id,
      client_id,
      segment,
      event_type,
      status,
      effective_from,
      effective_to,
      ...termsOf(terms),
    }),
  },
  rules: {
    table: "rules",
    id: "rule_id",
    record: ruleRecord,
    fixed: ["client_id"],
    toColumns: same,
    toRecord: withArchived,
  },
} satisfies Readonly<Record<string, Entity>> as Readonly<Record<EntityName, Entity>>;
export type EntityName = "clients" | "partners" | "campaigns" | "links" | "contracts" | "rules";

type New<Schema extends z.ZodType> = z.input<Schema>;
/**
 * The event time from which the row applies (RFC 3339). By default always for a new record, and
 * from now on for a change.
 */
interface ValidFrom {
  readonly valid_from?: string;
}
/**
 * A record with its id. An existing id changes the given fields and keeps the rest; a negative id,
 * chosen freely, makes a new record.
 */
type RecordInput<Id extends string, Schema extends z.ZodType> = ValidFrom & { readonly [K in Id]: number } & Readonly<
    Partial<New<Schema>>
  >;

/**
 * One change, which is saved completely or not at all. A negative id stands for a new record, and
 * other entries of the change may refer to it.
 */
export interface ReferenceChanges {
  readonly clients?: readonly RecordInput<"client_id", typeof clientRecord>[];
  /** A new client without segments gets MX, VD, DA, HA, IT and NW. */
  readonly segments?: readonly (ValidFrom & {
    readonly client_id: number;
    readonly code: string;
    readonly name?: string;
    readonly active?: boolean;
  })[];
  readonly partners?: readonly RecordInput<"partner_id", typeof partnerRecord>[];
  readonly campaigns?: readonly RecordInput<"campaign_id", typeof campaignRecord>[];
  readonly links?: readonly RecordInput<"link_id", typeof linkRecord>[];
  /**
   * A contract without an id is the one with this partner, client, segment, event type and
   * effective_from, or a new one.
   */
  readonly contracts?: readonly (Omit<RecordInput<"contract_id", typeof contractRecord>, "contract_id"> & {
    readonly contract_id?: number;
  })[];
  readonly rules?: readonly RecordInput<"rule_id", typeof ruleRecord>[];
}
