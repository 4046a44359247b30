// Opens what one command needs of the log, of Redis and of the object store, and closes it when the
// command ends. Modules that are slow to load are loaded at that point, so that help and simple
// reads do without them.

import type { Redis } from "ioredis";
import type { Admin } from "../../infra/kafka/kafka.ts";
import { type Kafka, openKafka } from "../../infra/kafka/kafka.ts";
import type { Objects } from "../../infra/objects/objects.ts";
import { CommandRefused, UsageError } from "../../infra/runtime/command-errors.ts";
import type { OperationPorts } from "../../modules/base/operations/operations.ts";
import { HeldElsewhere } from "../../modules/log/groups/group-holds.ts";
import { RewindRefused } from "../../modules/log/rewind/rewind.ts";
import { type FoundGroup, findGroup, type RewindSources } from "../../modules/log/rewind/rewind-ports.ts";
import type { Claim } from "../../schemas/generated.ts";
import type { AnyTopic } from "../../stream/flow.ts";
import type { Wire } from "../../stream/wire.ts";
import { topics } from "../../topics.ts";
import { addresses, objectStoreUrl, redisUrl } from "./config.ts";
import { withPool } from "./pool.ts";

export const kafkaOf = (clientId = "tributary-ops"): Kafka => {
  const { brokers, topicPrefix } = addresses();
  return openKafka({ brokers, clientId, topicPrefix });
};

export const withAdmin = async <T>(work: (admin: Admin) => Promise<T>): Promise<T> => {
  const admin = await kafkaOf().admin();
  try {
    return await work(admin);
  } finally {
    await admin.close();
  }
};

/** Opens a wire that reads and writes records of these topics. */
export const wireOf = async (of: readonly AnyTopic[]): Promise<Wire> => {
  const [{ openWire }, { openRegistry }] = await Promise.all([
    import("../../infra/avro/wire.ts"),
    import("../../infra/avro/registry.ts"),
  ]);
  const { registryUrl, topicPrefix } = addresses();
  return openWire(of, openRegistry({ url: registryUrl, topicPrefix }));
};

/** Opens the audit of operations. */
export const withAudit = async <T>(work: (audit: OperationPorts) => Promise<T>): Promise<T> => {
  const producer = kafkaOf().producer();
  try {
    const wire = await wireOf([topics.operations]);
    return await work({ wire, produce: producer.send });
  } finally {
    await producer.close();
  }
};

/** Opens what moving a group needs. A refusal ends the command with exit code 3. */
export const withRewinding = <T>(work: (rewinding: RewindSources) => Promise<T>): Promise<T> =>
  withPool((pool) =>
    withAudit(async (audit) => {
      const { pipeline: topology } = await import("../../topology.ts");
      const kafka = kafkaOf();
      const admin = await kafka.admin();
      try {
        return await work({ pool, kafka, admin, audit, topology });
      } catch (error) {
        if (error instanceof RewindRefused || error instanceof HeldElsewhere) throw new CommandRefused(error.message);
        throw error;
      } finally {
        await admin.close();
      }
    }),
  );

/**
 * Opens Redis for one command. A broken connection fails the call, and is not reported otherwise.
 */
export const withRedis = async <T>(work: (redis: Redis) => Promise<T>): Promise<T> => {
  const { Redis: Client } = await import("ioredis");
  const redis = new Client(redisUrl(), { lazyConnect: true, maxRetriesPerRequest: 1 });
  redis.on("error", () => undefined);
  try {
    return await work(redis);
  } finally {
    redis.disconnect();
  }
};

/** Opens the object store for one command. */
export const withObjects = async <T>(work: (objects: Objects) => Promise<T>): Promise<T> => {
  const { openObjects } = await import("../../infra/objects/open.ts");
  const objects = openObjects(objectStoreUrl());
  try {
    return await work(objects);
  } finally {
    await objects.close();
  }
};

/** Returns the group that hosts a stage or sink. Throws UsageError for an unknown name. */
export const hostOf = async (rewinding: RewindSources, name: string): Promise<FoundGroup> => {
  const known = rewinding.topology.nodes.flatMap((node) => (node.is === "edge" ? [] : node.name));
  if (!known.includes(name)) throw new UsageError(`${name} is no stage and no sink; there are ${known.join(", ")}`);
  return findGroup(rewinding, name);
};

/** Resolves when the log has acknowledged them. */
export const publishDecisions = async (decisions: readonly Claim[]): Promise<void> => {
  const { decisionMessages, decisionTopic } = await import("../../modules/money/decisions/decision-messages.ts");
  const wire = await wireOf([decisionTopic]);
  const producer = kafkaOf().producer();
  try {
    await producer.send(decisionMessages(wire, decisions));
  } finally {
    await producer.close();
  }
};
