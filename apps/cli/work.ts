// Runs use cases for commands, over every client. They are those of the platform API.
import { randomUUID } from "node:crypto";
import type { Pool } from "pg";
import { transaction } from "../../infra/postgres/sql.ts";
import { enterEveryClient } from "../../modules/access/scope.ts";
import type { Act } from "../../modules/base/audit/audit.ts";
import { beginOperation, type OperationPlan } from "../../modules/base/operations/operations.ts";
import { RefusalError } from "../../modules/base/refusal.ts";
import { runWork, type Work } from "../../modules/base/work.ts";

/** Names the actor in the audit, as `actorOf` does. */
export const operatorAct = (actor: string, request_id = `cli-${randomUUID()}`): Act => ({
  ...{ actor, role: "operator", request_id, ip: null },
});

interface WorkSettings {
  /** False: a preview, which saves nothing. */
  readonly isSaved?: boolean;
  /** Gives the ids of what is made outside of Postgres; by default they are random. */
  readonly idOf?: Work["idOf"];
}

/** Thrown to roll a preview back. */
class Previewed extends Error {}

/** Runs a use case in one transaction. Its errors are thrown on. */
export const inWork = async <Result>(
  pool: Pool,
  act: Act,
  useCase: (work: Work) => Promise<Result>,
  { isSaved = true, idOf = () => randomUUID() }: WorkSettings = {},
): Promise<Result> => {
  let result: Result;
  await transaction(pool, null, async (tx) => {
    await runWork({ tx, scope: await enterEveryClient(tx), act, idOf }, useCase, (answer) => {
      result = answer;
    });
    if (!isSaved) throw new Previewed("previewed");
  }).catch((error: unknown) => {
    if (!(error instanceof Previewed)) throw error;
  });
  return result!;
};

interface OperationWords<Result> {
  /** Details that are known before the operation begins. */
  readonly before?: object;
  /** Returns the details of the finished operation. */
  readonly after: (result: Result) => object;
}

/**
 * Runs `work` between the two records of its operation in the log: what cannot be recorded is not
 * done.
 */
export const inOperation = async <Result>(
  plan: OperationPlan,
  { before = {}, after }: OperationWords<Result>,
  work: () => Promise<Result>,
): Promise<Result> => {
  // The log is slow to load, and most use cases do not need it.
  const { withAudit } = await import("./connections.ts");
  return withAudit(async (audit) => {
    const operation = await beginOperation(audit, plan, before);
    const result = await work().catch(async (error: Error) => {
      await operation.end(error instanceof RefusalError ? "refused" : "failed", { problem: error.message });
      throw error;
    });
    await operation.end("succeeded", after(result));
    return result;
  });
};
