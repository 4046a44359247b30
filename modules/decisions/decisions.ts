// Decisions as messages of the log, for whoever makes them: the keeper, the command line.

import { recordedDecision } from "../../processors/settle/decision-claim.ts";
import type { Claim } from "../../schemas/generated.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import type { Wire } from "../../stream/wire.ts";
import { topics } from "../../topics.ts";

/** The wire must have been opened for `topics.claims`. */
export const decisionMessages = (wire: Wire, decisions: readonly Claim[]): readonly OutputMessage[] =>
  decisions.map((claim) => {
    const event = recordedDecision(topics.claims, claim);
    return { topic: topics.claims.name, key: event.key, value: wire.encode(topics.claims, event, null) };
  });
