// Records which revision of a stage decided what, by the offsets of its input (law R12,
// docs/decisions/0011).
import type pg from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

export interface StageRevision {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  readonly revision: number;
  /**
   * The first offset of the partition that this revision decided; an earlier revision decided what
   * lies before it.
   */
  readonly began: number;
  readonly since: UnixMs;
}

interface Row {
  readonly stage: string;
  readonly topic: string;
  readonly partition: number;
  readonly revision: number;
  readonly began: bigint;
  readonly since: UnixMs;
}

/** Returns the revision in force for every partition of these stages' inputs. */
export const revisionsInForce = async (
  pool: pg.Pool | pg.PoolClient,
  stages: readonly string[],
): Promise<readonly StageRevision[]> =>
  (
    await pool.query<Row>(
      sql`select distinct on (stage, topic, partition) stage, topic, partition, revision, began, since
        from stage_revisions
          where stage = any (${stages}) order by stage, topic, partition, revision_id desc`,
    )
  ).rows.map((row) => ({ ...row, began: Number(row.began) }));

/**
 * Records at which offset a partition changed to another revision; writes nothing when it did not
 * change. Call it before the first batch of a partition that a worker took over.
 * A stage that never had another revision decided everything in its input: it began at 0.
 * Throws while a rewind of the partition is still catching up: the former revision decided what
 * lies before the stored offset, and only a reprocess may decide it again.
 */
export const recordRevisions = (
  pool: pg.Pool,
  stages: readonly { readonly name: string; readonly revision: number }[],
  at: {
    readonly group: string;
    readonly topic: string;
    readonly partition: number;
    readonly offset: number;
    readonly instance: string;
  },
): Promise<void> =>
  transaction(pool, null, async (tx) => {
    const names = stages.map(({ name }) => name);
    const known = await revisionsInForce(tx, names);
    for (const { name, revision } of stages) {
      const own = known.filter(({ stage }) => stage === name);
      const here = own.find(({ topic, partition }) => topic === at.topic && partition === at.partition);
      if (here?.revision === revision) continue;
      const isFirst = own.every((one) => one.revision === revision);
      if (!isFirst) await refuseInsideRewind(tx, name, revision, at);
      await tx.query(
        sql`insert into stage_revisions (stage, topic, partition, revision, began, instance)
            values (${name}, ${at.topic}, ${at.partition}, ${revision}, ${isFirst ? 0 : at.offset}, ${at.instance})`,
      );
    }
  });

const refuseInsideRewind = async (
  tx: pg.PoolClient,
  stage: string,
  revision: number,
  {
    group,
    topic,
    partition,
    offset,
  }: { readonly group: string; readonly topic: string; readonly partition: number; readonly offset: number },
): Promise<void> => {
  const { rows } = await tx.query<{ operation_id: string; until: bigint }>(
    sql`select operation_id, (part->>'committed')::bigint as until
      from group_holds, jsonb_array_elements(plan->'partitions') as part
        where group_name = ${group} and plan->>'topic' = ${topic} and (part->>'partition')::int = ${partition}
        and (part->>'committed')::bigint > ${offset}`,
  );
  if (rows[0] !== undefined)
    throw new Error(
      `${stage} has revision ${revision} now, and ${topic}/${partition} still reads again up to ` +
        `${rows[0].until} what an earlier one decided (${rows[0].operation_id}): let the former version ` +
        "catch up first",
    );
};
