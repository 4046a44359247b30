// Reads attribution rules for the platform API: the newest version of each, in the order in which
// they win.
import type { PoolClient } from "pg";
import { phraseOf } from "../../../domain/conditions/sentence.ts";
import type { Rule } from "../../../domain/reference/reference.ts";
import { pageOfRows, type RowsQuery } from "../../../infra/postgres/rows.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { missing } from "../../base/refusal.ts";
import { newestRows } from "../clients/client-reads.ts";

export interface RuleFilter {
  readonly id?: number | undefined;
  readonly client_id?: number | undefined;
  readonly status?: "active" | "inactive" | undefined;
  /** The partner that the rule credits. */
  readonly partner_id?: number | undefined;
  /** Undefined for both archived and other rules. */
  readonly archived?: boolean | undefined;
}

/** Strict mode, because otherwise elements of a list are found twice. */
const leaves = sql`jsonb_array_length(jsonb_path_query_array(r."when", 'strict $.** ? (exists (@.field))'))`;
/**
 * The order in which rules win: by priority, then by the number of leaves, which is at most 100.
 */
const standing = sql`(r.priority::bigint * 1000 + ${leaves})`;

export const ruleRows = ({ id, client_id, status, partner_id, archived }: RuleFilter): RowsQuery => ({
  columns: {
    id: sql`r.rule_id`,
    client_id: sql`r.client_id`,
    name: sql`r.name`,
    status: sql`r.status`,
    archived: sql`coalesce(r.archived, false)`,
    priority: sql`r.priority`,
    effective_from: sql`r.effective_from`,
    effective_to: sql`r.effective_to`,
    when: sql`r."when"`,
    // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
    then: sql`r."then"`,
    leaves,
    version: sql`r.version`,
    created_at: sql`made.recorded_at`,
    updated_at: sql`changed.recorded_at`,
    partner_name: sql`(
      select p.name from partners p where p.partner_id = (r."then" ->> 'partner_id')::int
      order by p.version desc limit 1)`,
    versions: sql`(
      select jsonb_agg(jsonb_build_object('version', v.version,
        'at', floor(extract(epoch from c.recorded_at) * 1000), 'by', c.actor) order by v.version)
      from rules v join reference_changes c on c.change_id = v.change_id where v.rule_id = r.rule_id)`,
  },
  from: newestRows("rules", "rule_id", "r"),
  tenant: sql`r.client_id`,
  where: [
    id === undefined ? sql`true` : sql`r.rule_id = ${id}`,
    client_id === undefined ? sql`true` : sql`r.client_id = ${client_id}`,
    status === undefined ? sql`true` : sql`r.status = ${status}`,
    partner_id === undefined ? sql`true` : sql`(r."then" ->> 'partner_id')::int = ${partner_id}`,
    archived === undefined ? sql`true` : sql`coalesce(r.archived, false) = ${archived}`,
  ],
  sorts: {
    priority: { by: standing, type: "bigint" },
    updated_at: { by: sql`changed.recorded_at`, type: "timestamptz" },
  },
  // Of equal rules the lowest id wins, so it sorts first in descending order.
  id: { by: sql`(-r.rule_id)`, type: "int" },
});

export interface SavedRule extends Pick<Rule, "client_id" | "name" | "status" | "priority" | "when" | "then"> {
  readonly id: number;
  readonly archived: boolean;
  readonly effective_from: string | null;
  readonly effective_to: string | null;
  readonly version: number;
}
const SAVED: readonly (keyof SavedRule)[] = [
  ...(["id", "client_id", "name", "status", "archived", "priority"] as const),
  ...(["effective_from", "effective_to", "when", "then", "version"] as const),
];

/** These fields of a rule; undefined if it belongs to none of these clients. */
const readRule = async (
  tx: PoolClient,
  ruleId: number,
  clients: readonly number[],
  names: readonly string[],
): Promise<Readonly<Record<string, any>> | undefined> =>
  (await pageOfRows(tx, ruleRows({ id: ruleId }), { names, sort: "priority", clients }, { limit: 1 })).rows[0];

/** These fields of a rule, and the rule in words. Throws RefusalError: missing. */
export const shownRule = async (
  tx: PoolClient,
  ruleId: number,
  clients: readonly number[],
  names: readonly string[],
): Promise<Readonly<Record<string, any>>> => {
  const found = await readRule(tx, ruleId, clients, [...new Set([...names, "partner_name"])]);
  if (found === undefined) throw missing();
  const { partner_name, ...rule } = found;
  return { ...rule, sentence: sentenceOf({ ...(rule as SavedRule), partner_name }) };
};

/** The saved rule; undefined if it belongs to none of these clients. */
export const savedRule = async (
  tx: PoolClient,
  ruleId: number,
  clients: readonly number[],
): Promise<SavedRule | undefined> => (await readRule(tx, ruleId, clients, SAVED)) as SavedRule | undefined;

/** The number of the client's other active rules. */
export const activeBeside = async (tx: PoolClient, clientId: number, ruleId: number | null): Promise<number> => {
  const { rows } = await tx.query<{ active: number }>(sql`
    select count(*)::int as active from (
      select distinct on (rule_id) rule_id, status from rules where client_id = ${clientId}
      order by rule_id, version desc) newest
    where status = 'active' and rule_id is distinct from ${ruleId}::int`);
  return rows[0]!.active;
};

/** Describes the rule in words. */
const sentenceOf = ({
  when,
  then: { partner_id, campaign_id },
  status,
  effective_from,
  effective_to,
  partner_name,
}: Pick<SavedRule, "when" | "then" | "status" | "effective_from" | "effective_to"> & {
  readonly partner_name: string | null;
}): string => {
  const named = partner_name === null ? `partner ${partner_id}` : `${partner_name} (partner ${partner_id})`;
  const campaign = campaign_id === undefined ? "" : `, campaign ${campaign_id},`;
  const days = [
    ...(effective_from === null ? [] : [`from ${effective_from}`]),
    ...(effective_to === null ? [] : [`before ${effective_to}`]),
  ];
  return [
    `An event is credited to ${named}${campaign} when ${phraseOf(when)}.`,
    ...(days.length === 0 ? [] : [`In force on days ${days.join(" and ")}.`]),
    ...(status === "inactive" ? ["It is switched off."] : []),
  ].join(" ");
};
