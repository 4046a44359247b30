// The routes of attribution rules. Each save adds a version, and no version is edited.
import { archiveRule } from "../../../../modules/catalog/rules/archive.ts";
import { createRule } from "../../../../modules/catalog/rules/create.ts";
import { replaceRule } from "../../../../modules/catalog/rules/replace.ts";
import { ruleHits } from "../../../../modules/catalog/rules/rule-hits.ts";
import { ruleRows, shownRule } from "../../../../modules/catalog/rules/rule-reads.ts";
import * as contracts from "../../contract/rules/rules.ts";
import { checkFilter } from "../../request/filter.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

/** The rule is shown without its hits when they take longer. */
const HITS_MS = 1_500;

export const routes = ({ clickhouse }: Pick<ApiPorts, "clickhouse">): readonly Route[] => [
  route(contracts.listRules, async (ask) => {
    await checkFilter(ask, ask.query.client_id);
    return ask.list(ruleRows({ ...ask.query, archived: false }));
  }),

  route(contracts.readRule, async ({ read, params, fields }) => {
    const rule = await read((tx, { clients }) => shownRule(tx, params.id, clients, fields));
    const hits = await ruleHits(clickhouse, { client_id: rule.client_id, rule_id: params.id }, HITS_MS);
    return { body: { ...rule, hits_30d: hits } };
  }),

  route(contracts.createRule, ({ write, input, fields }) =>
    write(
      (work) => createRule(work, input),
      async (id, { tx, scope }) => ({
        body: await shownRule(tx, id, scope.clients, fields),
        headers: { Location: `/api/rules/${id}` },
      }),
    ),
  ),

  route(contracts.replaceRule, ({ write, params, input, fields, version }) =>
    write(
      (work) => replaceRule(work, { rule_id: params.id, rule: input, version }),
      async (_, { tx, scope }) => ({ body: await shownRule(tx, params.id, scope.clients, fields) }),
    ),
  ),

  route(contracts.archiveRule, ({ write, params, version }) =>
    write((work) => archiveRule(work, { rule_id: params.id, version })),
  ),
];
