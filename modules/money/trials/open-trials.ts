// Opens the resources for trials of rules, when the first rule is tried.
import type { Pool } from "pg";
import { lateWire } from "../../../infra/avro/late-wire.ts";
import type { SchemaIds } from "../../../infra/avro/record-wire.ts";
import { openClickhouse } from "../../../infra/clickhouse/client.ts";
import { postgresMemory } from "../../../infra/postgres/durable-memory.ts";
import type { Resource } from "../../../infra/runtime/scope.ts";
import { openHistory } from "../../../sinks/analytics/history.ts";
import { topics } from "../../../topics.ts";
import { pipeline } from "../../../topology.ts";
import { type OpenReference, openReference } from "../../catalog/reference/reference.ts";
import type { EvaluationPorts } from "./evaluate.ts";

export interface TrialSettings {
  readonly pool: Pool;
  readonly registry: SchemaIds;
  readonly clickhouseUrl: string;
  /** The name of the process in the store's own logs. */
  readonly name: string;
}
/** Rejects while the registry is unreachable. */
export type OpenTrials = () => Promise<Omit<EvaluationPorts, "now">>;

/** A statement reads weeks of a client, and several run at once. */
const HISTORY_MS = 20_000;

/** Opens separate connections, so that other requests of the process never wait for a history. */
export const openTrials = ({ pool, registry, clickhouseUrl, name }: TrialSettings): Resource<OpenTrials> => {
  const { wire, opened } = lateWire(Object.values(topics), registry);
  const clickhouse = openClickhouse(clickhouseUrl, { name: `${name}-trials`, connections: 3, timeoutMs: HISTORY_MS });
  let known: OpenReference | undefined;
  return {
    value: async () => {
      await opened();
      known ??= openReference(pool);
      return {
        topology: pipeline,
        wire,
        memory: postgresMemory(pool),
        read: known.read,
        history: openHistory(clickhouse),
      };
    },
    stop: async () => {
      await known?.close();
      await clickhouse.close();
    },
  };
};
