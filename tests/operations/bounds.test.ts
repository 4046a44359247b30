// Nothing that a sender writes may fill the memory of a process: each map that grows, in the code
// that texts of senders reach, is listed here with its bound.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const FOLDERS = ["apps/ingest", "apps/api", "infra/http", "infra/avro", "infra/spool", "modules/access"];
const MORE = ["modules/edges", "processors", "domain"];
/** Empty at first, at the level of a module, of a class or of the function that opens something. */
const GROWS = /^(?: {2})?(?:readonly )?(?:const |let )?(#?\w+)(?:: [^=\n]+)? = new (?:Map|Set)(?:<.*>)?\(\);$/gm;

const found = [...FOLDERS, ...MORE].flatMap((folder) =>
  readdirSync(`${root}/${folder}`, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) => {
      const text = readFileSync(`${root}/${folder}/${file}`, "utf8");
      return [...text.matchAll(GROWS)].map(([, name]) => `${folder}/${file} ${name}`);
    }),
);

/** Lives as long as the process or what it has opened. */
const lasting: Readonly<Record<string, string>> = {
  "apps/ingest/routes/wal-replay.ts followed": "replays under way; our own ids; gone when one ends",
  "domain/calendar.ts dayStarts": "4,096 days",
  "domain/memo.ts younger": "the size that its owner gives, texts of at most 1,024 characters, copied",
  "domain/memo.ts older": "as the younger one",
  "infra/avro/avro.ts layouts": "the schemas of this release",
  "infra/avro/wire.ts known": "the schemas that spools were written under",
  "infra/avro/wire.ts writers": "schema ids that the log holds",
  "infra/avro/wire.ts learning": "schema ids that are being asked for",
  "infra/http/rate-limit.ts taken": "10,000 keys of our own making, each with the times of its limit",
  "infra/http/read-body.ts heldBy": "tokens and addresses whose bodies are held now",
  "modules/access/tokens.ts used": "tokens, emptied once a minute",
  "modules/edges/facts.ts identities": "8 clients, each with a memo of 100,000 devices",
  "modules/edges/places.ts #refusing": "the two places",
  "processors/admit/shape.ts kinds": "10,000 keys of at most 64 characters, then emptied",
  "processors/enrich/identity-keys.ts known": "100 clients, each with a memo of 10,000 identifiers",
};
/**
 * Gone with the request, the batch, the picture of reference data or the list that it is made of.
 */
const passing: ReadonlySet<string> = new Set([
  "domain/reference/reference.ts groups",
  "domain/reference/reference.ts ordered",
  "domain/suppression.ts clients",
  "modules/access/client-secrets.ts counts",
  "modules/edges/host-edge.ts refused",
  "processors/attribute/facts.ts nothingLinked",
  "processors/commission/month.ts amounts",
  "processors/commission/shares.ts shares",
  "processors/enrich/networks.ts systems",
  "processors/score/facts.ts nothingKnown",
  "processors/settle/spread.ts excess",
]);

test("every map that grows where texts of senders come has a bound that is written down", () => {
  const isListed = (place: string): boolean => passing.has(place) || lasting[place] !== undefined;
  expect(
    found.filter((place) => !isListed(place)),
    "say here what bounds it, or that it passes",
  ).toEqual([]);
});

test("what is listed is still there", () => {
  expect([...Object.keys(lasting), ...passing].filter((place) => !found.includes(place))).toEqual([]);
});
