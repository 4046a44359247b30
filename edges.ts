// WHERE EVENTS ENTER: every edge, which is the first part of the pipeline of topology.ts. A host of
// edges imports this file alone, so that it starts without the code of stages and sinks.
import { domainChange, leadReceived, referenceChange } from "./processors/admit/outbox/announcements.ts";
import { acceptsBatch, admitBatch } from "./processors/admit/batch.ts";
import { acceptsVisit, admitVisit } from "./processors/admit/link.ts";
import { acceptsPostback, admitPostback } from "./processors/admit/payments/postback.ts";
import { acceptsPixel, admitPixel } from "./processors/admit/pixel.ts";
import { acceptsGeneric, admitGeneric } from "./processors/admit/sources/generic.ts";
import { pulledRecord } from "./processors/admit/sources/pulled-row.ts";
import { acceptsUpload, admitUpload } from "./processors/admit/upload/upload.ts";
import { decisionRecord } from "./processors/settle/decision-claim.ts";
import { topics } from "./topics.ts";
import { type DeadLetterRoute, edge } from "./stream/flow.ts";
import { topology } from "./stream/topology.ts";

/**
 * A dead letter goes where its source's letters are looked for; every record of the first chain
 * holds the event itself or under `event`.
 */
const deadLetters: DeadLetterRoute = (record) => {
  const source: unknown = record?.data.source ?? record?.data.event?.source ?? record?.data.attributed?.event.source;
  if (source === "link") return "clicks.dlq";
  return source === "pixel" ? "pixel.dlq" : "s2s.dlq";
};

export const edges = topology("tributary", deadLetters,
  edge({ name: "batch", on: "POST /ingest/batch", accepts: acceptsBatch, admit: admitBatch, to: topics.eventsRaw }),
  edge({ name: "link", on: "GET /c/:code", accepts: acceptsVisit, admit: admitVisit, to: topics.eventsRaw }),
  edge({ name: "pixel", on: "POST /e", accepts: acceptsPixel, admit: admitPixel, to: topics.eventsRaw }),
  edge({ name: "upload", on: "PUT /upload/:client/:partner/:filename", accepts: acceptsUpload, admit: admitUpload,
    to: topics.eventsRaw }),
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
