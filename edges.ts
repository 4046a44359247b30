// WHERE EVENTS ENTER: every edge, which is the first part of the pipeline of topology.ts. A host of
// one edge imports its own file of edges/ instead, so that it starts without the code of the
// others.
import { deadLetters } from "./edges/dead-letters.ts";
import { linkEdges } from "./edges/link.ts";
import { pixelEdges } from "./edges/pixel.ts";
import { uploadEdges } from "./edges/upload.ts";
import { domainChange, leadReceived, referenceChange } from "./processors/admit/outbox/announcements.ts";
import { acceptsBatch, admitBatch } from "./processors/admit/batch.ts";
import { acceptsPostback, admitPostback } from "./processors/admit/payments/postback.ts";
import { acceptsGeneric, admitGeneric } from "./processors/admit/sources/generic.ts";
import { pulledRecord } from "./processors/admit/sources/pulled-row.ts";
import { decisionRecord } from "./processors/settle/decision-claim.ts";
import { topics } from "./topics.ts";
import { edge } from "./stream/flow.ts";
import { topology } from "./stream/topology.ts";

export const edges = topology("tributary", deadLetters,
  edge({ name: "batch", on: "POST /ingest/batch", accepts: acceptsBatch, admit: admitBatch, to: topics.eventsRaw }),
  ...linkEdges.declared,
  ...pixelEdges.declared,
  ...uploadEdges.declared,
  edge({ name: "postback", on: "POST /postback/:processor", accepts: acceptsPostback, admit: admitPostback,
    to: topics.eventsRaw }),
  edge({ name: "generic", on: "POST /postback/generic", accepts: acceptsGeneric, admit: admitGeneric,
    to: topics.eventsRaw }),
  edge({ name: "external", on: "GET|POST /postback/external/:source", accepts: acceptsGeneric, admit: admitGeneric,
    to: topics.eventsRaw }),
  edge({ name: "lead", on: "table outbox", record: leadReceived, to: topics.eventsRaw }),
  edge({ name: "pull", on: "pages of external sources", record: pulledRecord, to: topics.eventsRaw }),
  edge({ name: "decisions", on: "decisions of people and jobs", record: decisionRecord, to: topics.claims }),
  edge({ name: "reference-changes", on: "table outbox", record: referenceChange, to: topics.referenceChanges }),
  edge({ name: "domain-changes", on: "table outbox", record: domainChange, to: topics.domainChanges }),
);
