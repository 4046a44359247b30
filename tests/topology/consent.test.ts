// Law G1: reads pass through consent. Only the files listed here read the tables below it, each
// with its reason.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const beneath = /from:? *"?\b(?:events|events_decided|consent_changes)\b(?!\.)/i;
const allowed: Readonly<Record<string, string>> = {
  "sinks/analytics/history.ts": "what a rule would credit: credit is a contract",
  "sinks/analytics/receipt-window.ts": "what stages remembered of devices, for a reprocess; how much was received",
  "sinks/analytics/latest-rows.ts": "what a reprocess compares its decisions with",
  "sinks/analytics/reads.ts": "ids, counts and times; which line a decision is about",
  "modules/money/orders/sold-events.ts": "orders, leads and installs, and how they were credited",
  "modules/catalog/rules/rule-hits.ts": "in which stretch the hits lie; how many there are is read above",
  "modules/figures/rollups/withdrawn-devices.ts": "the minutes that are counted again by the mask of today",
  "modules/privacy/erasure/devices.ts": "counts of what the devices of an erasure did",
  "modules/privacy/erasure/events.ts": "ids of what it erases",
  "modules/privacy/purge-events.ts": "how many events are due; it deletes them",
  "modules/running/repair/lost-data.ts": "whether there is any row at all",
  "tools/stack/tell-story.ts": "the demo events that it sent itself",
  "tools/chaos": "laws about what is stored",
  "infra/clickhouse/query.ts": "the names of the tables",
};

test("no read of events passes consent by, but for what is listed", () => {
  const roots = ["infra", "sinks", "modules", "apps", "tools"];
  const files = roots.flatMap((root) =>
    readdirSync(root, { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .map((file) => join(root, file)),
  );
  const readers = files.filter((file) =>
    beneath.test(readFileSync(file, "utf8").replaceAll(/^\s*(?:\/\/|\*).*$/gm, "")),
  );
  expect(readers.filter((file) => !Object.keys(allowed).some((known) => file.startsWith(known)))).toEqual([]);
  expect(readers.length).toBeGreaterThan(5);
});
