// Decisions as messages of the log, for whoever makes them: the keeper, the command line.

import type { Wire } from "../../infra/avro/wire.ts";
import { recordedDecision } from "../../processors/settle/decision-claim.ts";
import { type Claim, topics } from "../../schemas/generated.ts";
import type { OutputMessage } from "../../stream/messages.ts";

/** The wire must have been opened for `topics.claims`. */
export const decisionMessages = (wire: Wire, decisions: readonly Claim[]): readonly OutputMessage[] =>
  decisions.map((claim) => {
    const event = recordedDecision(claim);
    return { topic: topics.claims.name, key: event.key, value: wire.encode(topics.claims, event, null) };
  });
