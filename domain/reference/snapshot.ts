// Indexes the rows of the reference tables, so that they can be looked up as of any moment.
import type { UnixMs } from "../../stream/flow.ts";
import {
  type Campaign,
  type Client,
  type Condition,
  contractTypeOf,
  type Link,
  type Partner,
  type PeriodOf,
  type Reference,
  ReferenceAt,
  type ReferenceRows,
  type RowTimes,
  type Rule,
} from "./reference.ts";

const groupBy = <Row>(
  rows: readonly Row[],
  keyOf: (row: Row) => string | number,
): ReadonlyMap<string | number, readonly Row[]> => {
  const groups = new Map<string | number, Row[]>();
  for (const row of rows) {
    const group = groups.get(keyOf(row));
    if (group === undefined) groups.set(keyOf(row), [row]);
    else group.push(row);
  }
  return groups;
};
/**
 * One change may save several rows of an id with the same recorded_at. Then the higher version is
 * newer, then the later valid_from.
 * So the order in which a store returns rows has no effect.
 */
const newestFirst = <Row extends RowTimes>(rows: readonly Row[]): readonly Row[] =>
  [...rows].sort(
    (a, b) => b.recorded_at - a.recorded_at || (b.version ?? 0) - (a.version ?? 0) || b.valid_from - a.valid_from,
  );
const none: readonly never[] = [];

const leavesOf = (condition: Condition): number => {
  if ("all" in condition) return condition.all.reduce((sum, part) => sum + leavesOf(part), 0);
  if ("any" in condition) return condition.any.reduce((sum, part) => sum + leavesOf(part), 0);
  return "not" in condition ? leavesOf(condition.not) : 1;
};
/** The order of precedence: highest priority, then most leaves, then lowest id. */
export const inWinningOrder = (a: Rule, b: Rule): number =>
  b.priority - a.priority || leavesOf(b.when) - leavesOf(a.when) || a.rule_id - b.rule_id;
const isInForce = (
  row: { readonly effective_from: UnixMs | null; readonly effective_to: UnixMs | null },
  at: UnixMs,
): boolean =>
  (row.effective_from === null || row.effective_from <= at) && (row.effective_to === null || at < row.effective_to);

type IdOf<Row> = (row: Row) => string | number;

/**
 * Things (clients, partners, campaigns, links): the newest known row of an id that was valid at the
 * time.
 */
const thingsOf = <Row extends RowTimes>(rows: readonly Row[], idOf: IdOf<Row>) => {
  const byId = groupBy(newestFirst(rows), idOf);
  return (id: number, validAt: UnixMs, knownAt: UnixMs): Row | undefined => {
    for (const row of byId.get(id) ?? none) if (row.recorded_at <= knownAt && row.valid_from <= validAt) return row;
    return undefined;
  };
};

/**
 * Terms (contracts, rules, months): only the newest known row of each id of a group, in force or
 * not, so that a shortened term does not live on in an older row.
 */
const termsOf = <Row extends RowTimes>(rows: readonly Row[], idOf: IdOf<Row>, groupOf: IdOf<Row>) => {
  const byGroup = new Map(
    [...groupBy(rows, groupOf)].map(([group, members]) => [group, [...groupBy(newestFirst(members), idOf).values()]]),
  );
  return (group: string | number, knownAt: UnixMs): readonly Row[] =>
    (byGroup.get(group) ?? none).flatMap((versions) => versions.find((row) => row.recorded_at <= knownAt) ?? []);
};

/**
 * The rules of a client in order of precedence. Sorted in advance, because sorting them for every
 * event would cost more than evaluating them. The order only changes when a row is recorded.
 */
const rulesInOrderOf = (rows: readonly Rule[]) => {
  const rulesKnown = termsOf(
    rows,
    (row) => row.rule_id,
    (row) => row.client_id,
  );
  const newestRule = new Map(
    [...groupBy(rows, (row) => row.client_id)].map(([id, group]) => [
      id,
      Math.max(...group.map((row) => row.recorded_at)),
    ]),
  );
  const ordered = new Map<number, { knownAt: UnixMs; rules: readonly Rule[] }>();
  return (clientId: number, knownAt: UnixMs): readonly Rule[] => {
    const newest = newestRule.get(clientId);
    if (newest === undefined) return none;
    const known = ordered.get(clientId);
    if (known !== undefined && known.knownAt >= newest && knownAt >= newest) return known.rules;
    const rules = [...rulesKnown(clientId, knownAt)].sort(inWinningOrder);
    ordered.set(clientId, { knownAt, rules });
    return rules;
  };
};

/** Every id once, lowest first. */
const ascending = (ids: readonly number[]): readonly number[] => [...new Set(ids)].sort((a, b) => a - b);
/** The ids of rows by client, lowest first. */
const idsByClient = <Row extends { readonly client_id: number }>(rows: readonly Row[], idOf: (row: Row) => number) =>
  new Map([...groupBy(rows, (row) => row.client_id)].map(([client, all]) => [client, ascending(all.map(idOf))]));

const nameOf = ({ client_id, partner_id, year, month }: PeriodOf): string =>
  `${client_id}:${partner_id}:${year}-${month}`;

/** The indexes that look-ups read, built once from the rows. */
const indexesOf = (rows: ReferenceRows) => ({
  clientAt: thingsOf(rows.clients, (row) => row.client_id),
  partnerAt: thingsOf(rows.partners, (row) => row.partner_id),
  campaignAt: thingsOf(rows.campaigns, (row) => row.campaign_id),
  linkAt: thingsOf(rows.links, (row) => row.link_id),
  rulesInOrder: rulesInOrderOf(rows.rules),
  contractsKnown: termsOf(
    rows.contracts,
    (row) => row.contract_id,
    (row) => `${row.client_id}:${row.partner_id}:${row.event_type}`,
  ),
  contractsOfType: termsOf(
    rows.contracts,
    (row) => row.contract_id,
    (row) => `${row.client_id}:${row.event_type}`,
  ),
  periodsKnown: termsOf(rows.periods, nameOf, nameOf),
  linkIds: new Map(rows.links.map((row) => [`${row.client_id}:${row.code}`, row.link_id])),
  /**
   * All partners who ever worked for a client. Their row at the event time tells whether they do so
   * then.
   */
  partnerIds: idsByClient(
    rows.partners.flatMap(({ partner_id, client_ids }) => client_ids.map((client_id) => ({ client_id, partner_id }))),
    (row) => row.partner_id,
  ),
  withPatterns: idsByClient(
    rows.campaigns.filter(({ patterns }) => patterns.length > 0),
    (row) => row.campaign_id,
  ),
  linksByCampaign: groupBy(rows.links, (row) => row.campaign_id),
});
type Indexes = ReturnType<typeof indexesOf>;

/** Reference data at one moment. All snapshots share the class, so that V8 sees one shape. */
class Moment extends ReferenceAt {
  readonly #indexes: Indexes;
  readonly #validAt: UnixMs;
  readonly #knownAt: UnixMs;
  constructor(indexes: Indexes, validAt: UnixMs, knownAt: UnixMs) {
    super();
    this.#indexes = indexes;
    this.#validAt = validAt;
    this.#knownAt = knownAt;
  }
  client(id: number): Client | undefined {
    return this.#indexes.clientAt(id, this.#validAt, this.#knownAt);
  }
  partner(id: number): Partner | undefined {
    return this.#indexes.partnerAt(id, this.#validAt, this.#knownAt);
  }
  campaign(id: number): Campaign | undefined {
    return this.#indexes.campaignAt(id, this.#validAt, this.#knownAt);
  }
  link(id: number): Link | undefined {
    return this.#indexes.linkAt(id, this.#validAt, this.#knownAt);
  }
  linkByCode(clientId: number, code: string): Link | undefined {
    const id = this.#indexes.linkIds.get(`${clientId}:${code}`);
    return id === undefined ? undefined : this.link(id);
  }
  partnersOf(clientId: number): readonly Partner[] {
    return (this.#indexes.partnerIds.get(clientId) ?? none).flatMap((id) => {
      const partner = this.partner(id);
      return partner?.client_ids.includes(clientId) ? partner : [];
    });
  }
  campaignsWithPatterns(clientId: number): readonly Campaign[] {
    const ids = this.#indexes.withPatterns.get(clientId);
    if (ids === undefined) return none;
    return ids.flatMap((id) => {
      const campaign = this.campaign(id);
      return campaign?.client_id === clientId && campaign.patterns.length > 0 ? campaign : [];
    });
  }
  partnersOfCampaign(campaignId: number): readonly number[] {
    const inUse = (this.#indexes.linksByCampaign.get(campaignId) ?? none).flatMap(({ link_id }) => {
      const link = this.link(link_id);
      return link?.campaign_id === campaignId && link.status === "active" ? link.partner_id : [];
    });
    return ascending(inUse);
  }
  rules(clientId: number): readonly Rule[] {
    const inOrder = this.#indexes.rulesInOrder(clientId, this.#knownAt);
    if (inOrder.length === 0) return none;
    return inOrder.filter((rule) => rule.status === "active" && isInForce(rule, this.#validAt));
  }
  contract({ client_id, partner_id, segment, event_type }: Parameters<ReferenceAt["contract"]>[0]) {
    const inForce = this.#indexes
      .contractsKnown(`${client_id}:${partner_id}:${contractTypeOf(event_type)}`, this.#knownAt)
      .filter((row) => row.status === "active" && isInForce(row, this.#validAt))
      .sort((a, b) => b.effective_from - a.effective_from || b.contract_id - a.contract_id);
    return (
      inForce.find((row) => row.segment !== null && row.segment === segment) ??
      inForce.find((row) => row.segment === null)
    );
  }
  isCommissioned(clientId: number, eventType: string): boolean {
    return this.#indexes
      .contractsOfType(`${clientId}:${eventType}`, this.#knownAt)
      .some((row) => row.status === "active" && isInForce(row, this.#validAt));
  }
  isClosed(period: PeriodOf): boolean {
    return this.#indexes.periodsKnown(nameOf(period), this.#knownAt).some(({ status }) => status === "closed");
  }
}

/**
 * Indexes the rows once, so that `at` needs only a few map reads. Time applies in two ways: see
 * `thingsOf` and `termsOf`.
 */
export const referenceOf = (rows: ReferenceRows, asOf: UnixMs): Reference => {
  const indexes = indexesOf(rows);
  const slugs = new Map(rows.clients.map((row) => [row.slug, row.client_id]));
  const linkIdsByCode = new Map(rows.links.map((row) => [row.code, row.link_id]));
  return {
    asOf,
    clientIdOf: (slug) => slugs.get(slug),
    linkIdOf: (code) => linkIdsByCode.get(code),
    clientIds: ascending(rows.clients.map((row) => row.client_id)),
    at: (validAt, knownAt) => new Moment(indexes, validAt, knownAt),
  };
};
