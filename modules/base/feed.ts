// Runs the edges that our own processes feed: decisions, and the tables of the outbox.
import type { AnyFeed, Declared, Node } from "../../stream/flow.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { type FeedIn, feedsOf } from "../../stream/topology.ts";
import type { Wire } from "../../stream/wire.ts";

/** Makes the message of a feed for one value. The wire must be open for the feed's topic. */
export const messageOf = ({ to, record }: AnyFeed, wire: Wire, given: unknown): OutputMessage => {
  const { at, receivedAt = at, data } = record(given);
  const position = { topic: to.name, partition: 0, offset: 0 };
  const event = { id: to.idOf(data), key: to.keyOf(data), at, receivedAt, position, data };
  return { topic: to.name, key: event.key, value: wire.encode(to, event, null) };
};

/** Returns the feed with this name; throws if the topology has none. */
export const feedNamed = <const Nodes extends readonly Node[], Name extends FeedIn<Nodes>["name"]>(
  topology: Declared<Nodes>,
  name: Name,
): FeedIn<Nodes, Name> => {
  const found = feedsOf(topology).find((feed) => feed.name === name);
  if (found === undefined) throw new Error(`${name} is no edge of ${topology.name} that is fed by us`);
  return found as FeedIn<Nodes, Name>;
};
