// Where the rows of each kind of record are, the columns that a record becomes, and a change of
// records as people and the API send it.
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

/** Null in rows of before this could be archived. */
const withArchived = ({ archived, ...rest }: any): any => ({ ...rest, archived: archived === true });

/**
 * One entity: where its rows are, which fields a saved record has and how it lies in columns where
 * the two differ.
 */
export interface Entity {
  readonly table: string;
  readonly id: string;
  readonly record: z.ZodType<any>;
  readonly toColumns: (record: any) => Columns;
  readonly toRecord: (columns: Columns) => any;
  /**
   * Fields that a later row of the same id may not change: what is already in the log points at
   * them.
   */
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
        // What has no effect may have been saved before this was asked, and is left out.
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
    // Amounts need the client's currency: the writer adds the columns of what is paid.
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
 * From which event time on the saved row says how things are (RFC 3339); left out: always for a new
 * thing, from now on for a change.
 */
interface ValidFrom {
  readonly valid_from?: string;
}
/**
 * A record with its id: a known one changes the fields given and keeps the rest; a negative one,
 * chosen freely, makes a new thing.
 */
type RecordInput<Id extends string, Schema extends z.ZodType> = ValidFrom & { readonly [K in Id]: number } & Readonly<
    Partial<New<Schema>>
  >;

/**
 * One saved change: all or nothing. A negative id stands for a new thing and may be referred to
 * anywhere else in the same change.
 */
export interface ReferenceChanges {
  readonly clients?: readonly RecordInput<"client_id", typeof clientRecord>[];
  /** A new client without any gets MX, VD, DA, HA, IT and NW. */
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
   * Without an id: the contract of this partner, client, segment, event type and effective_from, or
   * a new one.
   */
  readonly contracts?: readonly (Omit<RecordInput<"contract_id", typeof contractRecord>, "contract_id"> & {
    readonly contract_id?: number;
  })[];
  readonly rules?: readonly RecordInput<"rule_id", typeof ruleRecord>[];
}
