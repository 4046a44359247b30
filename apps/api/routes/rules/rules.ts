// The routes of attribution rules. Every save is a version of its own, and none is edited.
import { Problem } from "../../../../infra/http/problem.ts";
import { readClient } from "../../../../modules/catalog/clients/client-reads.ts";
import { openClient } from "../../../../modules/catalog/clients/open-client.ts";
import { namedPartners, refuseInactive } from "../../../../modules/catalog/partners/named-partners.ts";
import { lockReference } from "../../../../modules/catalog/reference/open-change.ts";
import { ruleHits } from "../../../../modules/catalog/rules/rule-hits.ts";
import {
  activeBeside,
  MOST_ACTIVE_RULES,
  readRule,
  ruleRows,
  type SavedRule,
  savedRule,
  sentenceOf,
} from "../../../../modules/catalog/rules/rule-reads.ts";
import * as contracts from "../../contract/rules/rules.ts";
import { defined, notFound } from "../../request/accept.ts";
import { type ApiPorts, type Route, route, type Work } from "../../route.ts";

/** A screen waits for no count. */
const HITS_MS = 1_500;

export const routes = ({ clickhouse }: Pick<ApiPorts, "clickhouse">): readonly Route[] => [
  route(contracts.listRules, async ({ list, read, query }) => {
    const { client_id } = query;
    if (client_id !== undefined)
      await read(async (tx, { clients }) => {
        if ((await readClient(tx, client_id, clients, [])) === undefined) throw notFound();
      });
    return list(ruleRows({ ...query, archived: false }));
  }),

  route(contracts.readRule, async ({ read, params, fields }) => {
    const found = await read((tx, { clients }) => readRule(tx, params.id, clients, withSentence(fields)));
    if (found === undefined) throw notFound();
    const hits = await ruleHits(clickhouse, { client_id: found.client_id, rule_id: params.id }, HITS_MS);
    return { body: { ...shown(found), hits_30d: hits } };
  }),

  route(contracts.createRule, ({ write, body, fields }) =>
    write(async (work) => {
      const { change, audit } = work;
      const { client_id } = body;
      await checkRule(work, client_id, body, null);
      const saved = await change({ rules: [{ rule_id: -1, ...defined(body) }] });
      const id = saved.idOf("rules", -1);
      await audit({ action: "rule.created", client_id, entity: `rule:${id}`, after: body });
      return { body: await shownOf(work, id, fields), headers: { Location: `/api/rules/${id}` } };
    }),
  ),

  route(contracts.replaceRule, ({ write, params, body, fields, checkVersion }) =>
    write(async (work) => {
      const { change, audit } = work;
      const { version: _, ...rule } = body;
      const before = await ruleToChange(work, params.id);
      const { client_id } = before;
      if (before.archived) throw new Problem("conflict", "this rule is archived", { code: "rule_archived" });
      checkVersion(before.version);
      await checkRule(work, client_id, rule, params.id);
      await change({ rules: [{ rule_id: params.id, ...rule }] });
      await audit({ action: "rule.versioned", client_id, entity: `rule:${params.id}`, before, after: rule });
      return { body: await shownOf(work, params.id, fields) };
    }),
  ),

  route(contracts.archiveRule, ({ write, params, checkVersion }) =>
    write(async (work) => {
      const { change, audit } = work;
      const before = await ruleToChange(work, params.id);
      const { client_id } = before;
      if (before.archived) return {};
      checkVersion(before.version);
      const after = { status: "inactive", archived: true } as const;
      await change({ rules: [{ rule_id: params.id, ...after }] });
      await audit({ action: "rule.archived", client_id, entity: `rule:${params.id}`, before, after });
      return {};
    }),
  ),
];

/** The rule and no other change of reference data until the commit. Throws Problem 404 and 409. */
const ruleToChange = async (work: Work, ruleId: number): Promise<SavedRule> => {
  await lockReference(work.tx);
  const found = await savedRule(work.tx, ruleId, work.scope.clients);
  if (found === undefined) throw notFound();
  await openClient(work, found.client_id);
  return found;
};

/**
 * Throws Problem 400 for a partner of others, 409 for one that cannot be credited now, and for one
 * rule too many. What is switched off may stay with a partner who has paused.
 */
const checkRule = async (
  work: Work,
  clientId: number,
  { status, then: { partner_id } }: Pick<SavedRule, "status"> & { readonly then: { readonly partner_id: number } },
  ruleId: number | null,
): Promise<void> => {
  await openClient(work, clientId);
  const named = [{ id: partner_id, path: "/then/partner_id" }];
  const known = await namedPartners(work, clientId, named);
  if (status === "inactive") return;
  refuseInactive(known, named);
  if ((await activeBeside(work.tx, clientId, ruleId)) >= MOST_ACTIVE_RULES)
    throw new Problem("conflict", `a client has at most ${MOST_ACTIVE_RULES} active rules: switch one off first`, {
      code: "too_many_rules",
    });
};

const withSentence = (fields: readonly string[]): readonly string[] => [...new Set([...fields, "partner_name"])];
const shown = ({ partner_name, ...rule }: Readonly<Record<string, any>>) => ({
  ...rule,
  sentence: sentenceOf({ ...(rule as SavedRule), partner_name }),
});

const shownOf = async ({ tx, scope }: Work, id: number, fields: readonly string[]) =>
  shown((await readRule(tx, id, scope.clients, withSentence(fields)))!);
