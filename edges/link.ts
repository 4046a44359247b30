// The edge of apps/links. It has its own file so that its host starts without the code of other
// edges.
import { acceptsVisit, admitVisit } from "../processors/admit/link.ts";
import { edge } from "../stream/flow.ts";
import { topology } from "../stream/topology.ts";
import { topics } from "../topics.ts";
import { deadLetters } from "./dead-letters.ts";

export const linkEdges = topology(
  "tributary",
  deadLetters,
  edge({ name: "link", on: "GET /c/:code", accepts: acceptsVisit, admit: admitVisit, to: topics.eventsRaw }),
);
