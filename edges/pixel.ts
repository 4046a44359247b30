// The edge of apps/pixel. It has its own file so that its host starts without the code of other
// edges.
import { acceptsPixel, admitPixel } from "../processors/admit/pixel.ts";
import { edge } from "../stream/flow.ts";
import { topology } from "../stream/topology.ts";
import { topics } from "../topics.ts";
import { deadLetters } from "./dead-letters.ts";

export const pixelEdges = topology(
  "tributary",
  deadLetters,
  edge({ name: "pixel", on: "POST /e", accepts: acceptsPixel, admit: admitPixel, to: topics.eventsRaw }),
);
