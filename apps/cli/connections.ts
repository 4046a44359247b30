// Opens what one command needs, and closes it when the command ends.
import type pg from "pg";
import { type Kafka, openKafka } from "../../infra/kafka/kafka.ts";
import { openPool } from "../../infra/postgres/sql.ts";
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
