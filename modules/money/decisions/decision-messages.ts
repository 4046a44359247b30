// Decisions as messages for the log. The keeper and the command line make them.

import { edges } from "../../../edges.ts";
import type { Claim } from "../../../schemas/generated.ts";
import type { Topic } from "../../../stream/flow.ts";
import type { OutputMessage } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { feedNamed, messageOf } from "../../base/feed.ts";

const edge = feedNamed(edges, "decisions");

/** The topic for which a wire must be open to publish decisions. */
export const decisionTopic: Topic<Claim> = edge.to;

export const decisionMessages = (wire: Wire, decisions: readonly Claim[]): readonly OutputMessage[] =>
  decisions.map((claim) => messageOf(edge, wire, claim));
