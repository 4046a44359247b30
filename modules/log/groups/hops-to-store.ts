// The groups between the log and the analytics store, as the pipeline is hosted now.
import { events } from "../../../sinks/analytics/table.ts";
import { sinkInto } from "../../../stream/topology.ts";
import { pipeline } from "../../../topology.ts";
import { type Hop, type Hosts, hopsTo } from "./hosts.ts";

const analytics = sinkInto(pipeline, events);
/** Every group that an event passes on its way into the analytics store, and what it reads. */
export const hopsToStore = (hosts: Hosts): readonly Hop[] => hopsTo(pipeline, analytics, hosts);
