// Reads of the log for processes that serve requests.
import type { Admin, Kafka } from "../../infra/kafka/kafka.ts";

/**
 * Asks a question over the one connection of the process, which the first question opens. A
 * question that throws ends the connection, and with it the questions of others.
 */
export type LogReads = <T>(
  question: (sources: { readonly kafka: Kafka; readonly admin: Admin }) => Promise<T>,
) => Promise<T>;
