// The routes of attribution rules. Every save is a version of its own, and none is edited.
import type { PoolClient } from "pg";
import { missing } from "../../../../modules/base/refusal.ts";
import { archiveRule } from "../../../../modules/catalog/rules/archive.ts";
import { createRule } from "../../../../modules/catalog/rules/create.ts";
import { replaceRule } from "../../../../modules/catalog/rules/replace.ts";
import { ruleHits } from "../../../../modules/catalog/rules/rule-hits.ts";
import { readRule, ruleRows, type SavedRule, sentenceOf } from "../../../../modules/catalog/rules/rule-reads.ts";
import * as contracts from "../../contract/rules/rules.ts";
import { defined } from "../../request/accept.ts";
import { checkFilter } from "../../request/filter.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

/** A screen waits for no count. */
const HITS_MS = 1_500;

export const routes = ({ clickhouse }: Pick<ApiPorts, "clickhouse">): readonly Route[] => [
  route(contracts.listRules, async (ask) => {
    await checkFilter(ask, ask.query.client_id);
    return ask.list(ruleRows({ ...ask.query, archived: false }));
  }),

  route(contracts.readRule, async ({ read, params, fields }) => {
    const rule = await read((tx, { clients }) => shownOf(tx, params.id, clients, fields));
    const hits = await ruleHits(clickhouse, { client_id: rule.client_id, rule_id: params.id }, HITS_MS);
    return { body: { ...rule, hits_30d: hits } };
  }),

  route(contracts.createRule, ({ write, body, fields }) =>
    write(
      (work) => createRule(work, defined(body)),
      async (id, { tx, scope }) => ({
        body: await shownOf(tx, id, scope.clients, fields),
        headers: { Location: `/api/rules/${id}` },
      }),
    ),
  ),

  route(contracts.replaceRule, ({ write, params, body, fields, version }) => {
    const { version: _, ...rule } = body;
    return write(
      (work) => replaceRule(work, { rule_id: params.id, rule, version }),
      async (_, { tx, scope }) => ({ body: await shownOf(tx, params.id, scope.clients, fields) }),
    );
  }),

  route(contracts.archiveRule, ({ write, params, version }) =>
    write(
      (work) => archiveRule(work, { rule_id: params.id, version }),
      () => ({}),
    ),
  ),
];

/** The rule in words too. Throws RefusalError: missing. */
const shownOf = async (
  tx: PoolClient,
  ruleId: number,
  clients: readonly number[],
  fields: readonly string[],
): Promise<Readonly<Record<string, any>>> => {
  const found = await readRule(tx, ruleId, clients, [...new Set([...fields, "partner_name"])]);
  if (found === undefined) throw missing();
  const { partner_name, ...rule } = found;
  return { ...rule, sentence: sentenceOf({ ...(rule as SavedRule), partner_name }) };
};
