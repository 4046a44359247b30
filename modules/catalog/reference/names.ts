// Unique names: a client's slug, a link's code, a partner's referral code.
import type pg from "pg";
import { codeOf } from "../../../domain/conditions/props.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";
import type { RecordDraft } from "./draft.ts";
import type { EntityName } from "./entities.ts";
import type { ReferenceProblem } from "./problem.ts";

interface Holder {
  readonly id: number;
  readonly name: string;
}
/**
 * The first row claims a slug or code forever; a referral code belongs to the partner whose newest
 * row has it.
 */
const names: readonly {
  readonly entity: EntityName;
  readonly field: string;
  readonly holders: (wanted: readonly string[]) => Sql;
}[] = [
  {
    entity: "clients",
    field: "slug",
    holders: (wanted) =>
      sql`select client_id as id, slug as name from clients where version = 1 and slug = any (${wanted})`,
  },
  {
    entity: "links",
    field: "code",
    holders: (wanted) =>
      sql`select link_id as id, code as name from links where version = 1 and code = any (${wanted})`,
  },
  {
    entity: "partners",
    field: "referral_code",
    holders: (wanted) => sql`
      select id, name from (
        select distinct on (partner_id) partner_id as id, referral_code as name from partners
          order by partner_id, version desc) newest
      where name = any (${wanted})`,
  },
];

interface CodeHolder {
  readonly id: number;
  readonly name: string;
  readonly client_ids: readonly number[];
}
/**
 * Partners of one client may not have referral codes that differ only by case, because either would
 * be found by the other's. Two of before may keep theirs.
 */
const codesAlike = async (tx: pg.PoolClient, drafted: readonly RecordDraft[]): Promise<readonly ReferenceProblem[]> => {
  const wanted = drafted.filter(({ entity, record }) => entity === "partners" && record.referral_code !== null);
  if (wanted.length === 0) return [];
  const codes = wanted.map(({ record }) => codeOf(record.referral_code));
  const { rows } = await tx.query<CodeHolder>(sql`
    select id, name, client_ids from (
      select distinct on (partner_id) partner_id as id, referral_code as name, client_ids from partners
        order by partner_id, version desc) newest
    where lower(name) = any (${codes})`);
  const ids = new Set(wanted.map(({ id }) => id));
  const others = [
    ...rows.filter(({ id }) => !ids.has(id)),
    ...wanted.map(({ id, record }): CodeHolder => ({ id, name: record.referral_code, client_ids: record.client_ids })),
  ];
  return wanted.flatMap(({ id, field, record }) => {
    const before = rows.find((one) => one.id === id && one.name === record.referral_code)?.client_ids ?? [];
    const fresh = record.client_ids.filter((clientId: number) => !before.includes(clientId));
    const alike = others.find(
      (one) =>
        one.id !== id &&
        one.name !== record.referral_code &&
        codeOf(one.name) === codeOf(record.referral_code) &&
        one.client_ids.some((clientId) => fresh.includes(clientId)),
    );
    return alike === undefined
      ? []
      : [
          {
            code: "conflict",
            field: `${field}.referral_code`,
            message: `${record.referral_code} belongs to another of the partners, as ${alike.name}: choose another`,
          },
        ];
  });
};

/**
 * Returns names that a saved record or another record of the same change has. Runs under the lock,
 * so that no name is taken meanwhile.
 */
export const takenNames = async (
  tx: pg.PoolClient,
  drafted: readonly RecordDraft[],
): Promise<readonly ReferenceProblem[]> => {
  const problems: ReferenceProblem[] = [];
  for (const { entity, field, holders } of names) {
    const wanted = drafted.filter((draft) => draft.entity === entity && draft.record[field] !== null);
    if (wanted.length === 0) continue;
    const { rows: saved } = await tx.query<Holder>(holders(wanted.map(({ record }) => record[field])));
    const holdersOf = new Map<string, Set<number>>();
    for (const { id, name } of [...saved, ...wanted.map(({ id, record }) => ({ id, name: record[field] as string }))])
      holdersOf.set(name, (holdersOf.get(name) ?? new Set()).add(id));
    for (const { field: place, record } of wanted) {
      if (holdersOf.get(record[field])!.size > 1)
        problems.push({
          code: "conflict",
          field: `${place}.${field}`,
          message: `${record[field]} belongs to another of the ${entity}: choose another`,
        });
    }
  }
  return [...problems, ...(await codesAlike(tx, drafted))];
};
