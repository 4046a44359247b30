// Writes decisions to the log; resolves when the log has them.

import { openRegistry } from "../../infra/avro/registry.ts";
import { openWire } from "../../infra/avro/wire.ts";
import { decisionMessages, decisionTopic } from "../../modules/decisions/decisions.ts";
import type { Claim } from "../../schemas/generated.ts";
import { addresses } from "./config.ts";
import { kafkaOf } from "./connections.ts";

export const publishDecisions = async (decisions: readonly Claim[]): Promise<void> => {
  const { registryUrl, topicPrefix } = addresses();
  const wire = await openWire([decisionTopic], openRegistry({ url: registryUrl, topicPrefix }));
  const producer = kafkaOf().producer();
  try {
    await producer.send(decisionMessages(wire, decisions));
  } finally {
    await producer.close();
  }
};
