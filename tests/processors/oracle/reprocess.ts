// A reprocess of a window with the code and the facts as they were, on the memory and the log of
// this process: its decisions, of which there must be none.
import { readClaims } from "../../../modules/money/reprocess/claims.ts";
import { compareLines } from "../../../modules/money/reprocess/orders/lines.ts";
import { defaultLimits, type ReprocessPorts, type ReprocessSettings } from "../../../modules/money/reprocess/ports.ts";
import type { Claim } from "../../../schemas/generated.ts";
import type { Memory } from "../../../stream/memory/memory.ts";
import type { TopologyDriver } from "../../../stream/testing/drive.ts";
import { topics } from "../../../topics.ts";
import { pipeline } from "../../../topology.ts";
import { readingOf } from "../../support/reprocess-log.ts";
import type { Reprocessed } from "./history.ts";

export interface Reprocessable extends Pick<TopologyDriver, "wire" | "messages"> {
  readonly durable: Memory;
}
type Window = Pick<Reprocessed, "from" | "to" | "receivedAt">;

/** The events of today are those of the log: attribute would make the same rows again. */
export const reprocessedAsIs = async (
  { durable, wire, messages }: Reprocessable,
  { from, to, receivedAt }: Window,
  clientId: number,
): Promise<readonly { readonly data: Claim; readonly at: number; readonly receivedAt: number }[]> => {
  const settings: ReprocessSettings = {
    ...{ from, to, stage: "attribute", clientId, overridesDecisions: false },
    ...{ actor: "operator:test", reason: "nothing" },
  };
  const ports: ReprocessPorts = {
    ...{ topology: pipeline, wire, memory: durable, now: receivedAt, limits: defaultLimits },
    read: () => Promise.reject(new Error("not read")),
    standing: async () => new Map(),
    ...readingOf({ wire, messages }),
  };
  const read = await readClaims(ports, settings, await ports.indexed(settings));
  const deciding = { wire, now: receivedAt, actor: settings.actor, reason: settings.reason };
  const { changes } = await compareLines(ports, settings, read, read.rowOf, deciding);
  return changes.map(({ message, at }) => ({
    data: wire.decode(topics.claims, message.value, { topic: topics.claims.name, partition: 0, offset: 0 }).data,
    at,
    receivedAt,
  }));
};
