// The ports of a relearn: the stage's memory in Redis, and the ports of a rewind.
import type { Redis } from "ioredis";
import { forget, marksOf } from "../../../infra/redis/forget.ts";
import { CommandRefused } from "../../../infra/runtime/command-errors.ts";
import type { AnyStage, Topology } from "../../../stream/flow.ts";
import { beginOperation, resumeOperation } from "../../base/operations/operations.ts";
import type { RelearnPorts, RelearnRequest } from "./relearn.ts";
import { type RewindSources, rewindPorts } from "./rewind-ports.ts";

/** Returns the stage of this name. Throws Refused when it has no memory that may be rebuilt. */
export const relearnable = ({ nodes }: Topology, name: string): AnyStage => {
  const stage = nodes.filter((node) => node.is === "stage").find((node) => node.name === name);
  if (stage === undefined) throw new CommandRefused(`${name} is no stage; only stages remember`);
  if (stage.memory === undefined) throw new CommandRefused(`${name} remembers nothing`);
  if (stage.memory.driver === "durable")
    throw new CommandRefused(
      `${name} remembers in Postgres what was decided about money, and that is never thrown away. ` +
        "After a restored backup it reads again from where its memory ends, by itself " +
        "(docs/runbooks/postgres-restored.md); to correct wrong decisions: tributary reprocess --stage " +
        `${name}`,
    );
  return stage;
};

export interface RememberedPartition {
  readonly partition: number;
  readonly low: number;
  readonly committed: number | null;
  /** The offset up to which the stage remembers; null: it remembers nothing. */
  readonly mark: number | null;
}

/** Returns for each partition how far each stage of a group remembers. */
export const rememberedBy = async (
  { admin }: Pick<RewindSources, "admin">,
  marks: RelearnPorts["marks"],
  { group, topic }: Pick<RelearnRequest, "group" | "topic">,
): Promise<readonly RememberedPartition[]> => {
  const [before, rows] = [await marks(), await admin.lag(group, [topic])];
  return rows.map((row) => ({ ...row, mark: before.get(row.partition) ?? null }));
};

export const relearnPorts = (
  rewinding: RewindSources,
  redis: Redis,
  memoryPrefix: string,
  { stage, group, topic, actor, reason, operation: known }: RelearnRequest,
): Omit<RelearnPorts, "onStep" | "onProgress"> => {
  const { holds, forbidden } = rewindPorts(rewinding);
  const planned = {
    kind: "relearn" as const,
    actor,
    target: `${stage} in ${group}`,
    ...(reason !== undefined && { reason }),
  };
  return {
    admin: rewinding.admin,
    holds,
    forbidden,
    marks: () => marksOf(redis, memoryPrefix, stage, topic),
    forget: () => forget(redis, memoryPrefix, stage, () => undefined),
    begin: async (_, detail) => (await beginOperation(rewinding.audit, planned, detail, known)).id,
    ended: (operation, _, phase, detail) => resumeOperation(rewinding.audit, operation, planned).end(phase, detail),
  };
};
