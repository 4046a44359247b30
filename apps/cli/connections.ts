// Opens what one command needs, and closes it when the command ends; finds the client that it names.
import type pg from "pg";
import type { Client } from "../../domain/reference/reference.ts";
import { type Kafka, openKafka } from "../../infra/kafka/kafka.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { UsageError } from "../../infra/runtime/refused.ts";
import { findClient } from "../../modules/reference/find-client.ts";
import { addresses } from "./config.ts";

export const withPool = async <T>(work: (pool: pg.Pool) => Promise<T>): Promise<T> => {
  const pool = openPool(addresses().postgresUrl, { name: "tributary-ops", max: 2 });
  try {
    return await work(pool);
  } finally {
    await pool.end();
  }
};

export const kafkaOf = (clientId = "tributary-ops"): Kafka => {
  const { brokers, topicPrefix } = addresses();
  return openKafka({ brokers, clientId, topicPrefix });
};

/** The client of a slug or an id. Throws UsageError when there is none. */
export const clientOf = async (pool: pg.Pool, slugOrId: string): Promise<Client> => {
  const client = await findClient(pool, slugOrId);
  if (client === undefined)
    throw new UsageError(`--client: there is no client ${slugOrId}; the demo clients are listed by: tributary status`);
  return client;
};
