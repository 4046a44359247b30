// apps/ops/publish-decisions.ts - writes decisions to the log; resolves when the log has them.
import { type Claim, topics } from "../../schemas/generated.ts";
import { openRegistry } from "../../stream/registry.ts";
import { openWire } from "../../stream/wire.ts";
import { decisionMessages } from "../decisions.ts";
import { addresses } from "./config.ts";
import { kafkaOf } from "./connections.ts";

export const publishDecisions = async (decisions: readonly Claim[]): Promise<void> => {
  const { registryUrl, topicPrefix } = addresses();
  const wire = await openWire([topics.claims], openRegistry({ url: registryUrl, topicPrefix }));
  const producer = kafkaOf().producer();
  try {
    await producer.send(decisionMessages(wire, decisions));
  } finally {
    await producer.close();
  }
};
