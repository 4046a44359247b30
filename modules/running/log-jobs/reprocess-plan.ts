// Plans reprocessing as a job: the request, how much of the log it reads, and the step from a
// comparison to writing its result.
import { createHash } from "node:crypto";
import { uuidOf } from "../../../domain/ids.ts";
import type { Admin } from "../../../infra/kafka/kafka.ts";
import { topics } from "../../../topics.ts";
import type { ReprocessSettings } from "../../money/reprocess/ports.ts";
import type { MovedPartition, MovePlan, Reprocess } from "./move.ts";

/** One at a time, because each holds a window in memory. */
const SUBJECT = "reprocess";

export const settingsOf = ({ from, to, stage, client_id, override_decisions, reason, user_id }: Reprocess) =>
  ({
    ...{ from, to, stage, reason, clientId: client_id, overridesDecisions: override_decisions },
    actor: `user:${user_id}`,
  }) satisfies ReprocessSettings;

/** A comparison can be written once, whichever admin requests it. */
export const planIdOf = (operationId: string): string => uuidOf("reprocess", operationId);

const windowIn = async (
  admin: Pick<Admin, "watermarks" | "offsetsAt">,
  topic: string,
  { from, to }: Reprocess,
): Promise<readonly MovedPartition[]> => {
  const [marks, starts, ends] = await Promise.all([
    admin.watermarks(topic),
    admin.offsetsAt(topic, from),
    admin.offsetsAt(topic, to),
  ]);
  return marks
    .map(({ partition, low, high }) => {
      const begin = Math.max(low, starts.get(partition) ?? high);
      return { topic, partition, from: begin, to: Math.max(begin, ends.get(partition) ?? high) };
    })
    .filter((one) => one.from < one.to);
};

/**
 * A digest of the request alone: unlike a rewind, its plan does not depend on the state of the log.
 */
export const digestOfReprocess = (move: Reprocess): string => {
  const { from, to, stage, client_id, override_decisions, allow_closed_months, writes } = move;
  const parts = [from, to, stage, client_id, override_decisions, allow_closed_months, writes?.of, writes?.digest];
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url");
};

/** Counts the records to read. Changes and computes nothing; the keeper does that. */
export const planReprocess = async (
  { admin }: { readonly admin: Pick<Admin, "watermarks" | "offsetsAt"> },
  move: Reprocess,
): Promise<MovePlan> => {
  const { stage, writes } = move;
  const read = stage === "commission" ? [topics.claims] : [topics.eventsRaw, topics.claims];
  const partitions = (await Promise.all(read.map(({ name }) => windowIn(admin, name, move)))).flat();
  return {
    subject: SUBJECT,
    nodes: [stage],
    records: partitions.reduce((sum, { from, to }) => sum + to - from, 0),
    seconds: null,
    partitions,
    consequences:
      writes === null
        ? [
            "a keeper computes the window again and keeps what differs; nothing is written",
            "of the orders of the window copies, refunds and decisions are read by an index, and clicks of its devices",
            "what Kafka no longer holds is read from the archive",
            "the comparison has a plan_token of its own, which writes it",
          ]
        : [
            "one decision for each sale and event that differs; money moves by further entries",
            "what people have decided stays as it is, unless override_decisions was asked for",
          ],
    problem: null,
    digest: digestOfReprocess(move),
  };
};
