// Decisions as messages of the log, for the processes that make them: the keeper, the command line.

import { edges } from "../../../edges.ts";
import type { Claim } from "../../../schemas/generated.ts";
import type { Topic } from "../../../stream/flow.ts";
import type { OutputMessage } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { feedNamed, messageOf } from "../../base/feed.ts";

const edge = feedNamed(edges, "decisions");

/** What a wire must have been opened for to publish decisions. */
export const decisionTopic: Topic<Claim> = edge.to;

export const decisionMessages = (wire: Wire, decisions: readonly Claim[]): readonly OutputMessage[] =>
  decisions.map((claim) => messageOf(edge, wire, claim));
