// Starts session replay: loads the recorder file once all conditions hold.
import { bytesOf, toJson } from "../data/json.ts";
import { deliver, handOver, isOffline, type PixelHost } from "../delivery/transport.ts";
import { loadPart } from "../parts.ts";
import type { Tracker } from "../tracker.ts";
import type { Visitor } from "../visitor/visitor.ts";

/** Functions of the script that the recorder file uses, so that it does not contain them again. */
const tools = { bytesOf, toJson, deliver, handOver, isOffline };
type Tools = typeof tools;

/** The connection between the script and the recorder file. */
export interface Bridge extends Tools {
  /** The address of POST /replay. */
  readonly host: PixelHost;
  readonly visitor: Pick<Visitor, "stamp" | "mayReplay" | "replayTicket">;
  /** Set by the recorder file. Starts a recording if there is none and if it is allowed. */
  begin?: () => void;
}

/** Checks all conditions at each call. */
export const openRecorder = (tracker: Tracker, clientId: number): (() => void) => {
  const { visitor, base } = tracker;
  const bridge: Bridge = { ...tools, host: { url: `${base}/replay`, clientId }, visitor };
  let isAsked = false;
  return () => {
    if (!visitor.mayReplay(visitor.stamp().sid)) return;
    if (bridge.begin) bridge.begin();
    else if (!isAsked) loadPart(tracker, "replay.js", { bridge });
    isAsked = true;
  };
};
