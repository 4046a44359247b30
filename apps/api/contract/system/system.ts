// The contracts of monitoring, and of the documentation.
import { z } from "zod";
import { contract } from "../contract.ts";

/** An answer of a module, whose fields are declared there. */
const report = z.looseObject({});

export const readHealth = contract({
  route: "GET /api/health",
  summary: "Whether the stores answer.",
  answers: report,
});
export const readSystemHealth = contract({
  route: "GET /api/system/health",
  summary: "What the keeper knows of each store.",
  answers: report,
});
export const readIngestPath = contract({
  route: "GET /api/system/ingest-path",
  summary: "The way of events into the log, with its history.",
  answers: report,
});
export const sendAlert = contract({
  route: "POST /api/admin/system-alert",
  summary: "Keeps an alert, and mails it once an incident, status and severity.",
  // modules/base/alerts/alert.ts parses it leniently: a misspelled alert must not be lost.
  body: z.unknown(),
  answers: z.object({
    alert_id: z.string().nullable().describe("null while it could be mailed and not be kept"),
    incident_id: z.string(),
    mailed: z.boolean(),
  }),
  status: 202,
});
export const readOpenApi = contract({
  route: "GET /openapi.json",
  summary: "This interface as OpenAPI 3.1.",
  answers: report,
});
export const readDocs = contract({ route: "GET /docs", summary: "This page.", answers: z.string() });
