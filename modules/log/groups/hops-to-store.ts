// The groups between the log and the analytics store, by the current hosting.
import { events } from "../../../sinks/analytics/table.ts";
import { sinkInto } from "../../../stream/topology.ts";
import { pipeline } from "../../../topology.ts";
import { type Hop, type Hosts, hopsTo } from "./hosts.ts";

const analytics = sinkInto(pipeline, events);
/** Every group that an event passes on its way into the analytics store, and its topic. */
export const hopsToStore = (hosts: Hosts): readonly Hop[] => hopsTo(pipeline, analytics, hosts);
