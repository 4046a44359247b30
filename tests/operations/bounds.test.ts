// No process may fill its memory, whatever senders send and however long it runs: each growing map,
// set and list is listed here with its bound.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const APPS = ["apps/ingest", "apps/links", "apps/pixel", "apps/api", "apps/keeper", "apps/worker"];
/** `infra/embedded` runs the servers of a laptop and is no part of the product's processes. */
const INFRA = ["avro", "clickhouse", "http", "kafka", "objects", "outbound", "postgres", "redis", "runtime", "spool"];
const FOLDERS = [
  ...APPS,
  "browser",
  ...INFRA.map((folder) => `infra/${folder}`),
  "modules",
  "processors",
  "domain",
  "sinks",
];
/**
 * Collections that are empty at first, at the level of a module, of a class, or of the function
 * that opens something.
 */
const GROWS =
  /^(?: {2})?(?:readonly )?(?:const |let )?(#?\w+)(?:: [^\n]+?)? = (?:new (?:Map|Set|\w+List)(?:<.*>)?\(\)|\[\]);$/gm;
const DECLARED = /^(?:export )?(?:const|class|function) (\w+)(.*)$/gm;

/**
 * A list lasts in a class and in a function that opens something; elsewhere it is the result of a
 * call. A list of an async function ends with its call, unless the function opens something.
 */
const mayLast = (text: string, at: number, isList: boolean): boolean => {
  const [, name = "", rest = ""] = [...text.slice(0, at).matchAll(DECLARED)].at(-1) ?? [];
  if (/^open|[rR]unner$|^[A-Z]/.test(name)) return true;
  return !isList && !rest.includes("async ");
};

const found = [...FOLDERS, "stream"].flatMap((folder) =>
  readdirSync(`${root}/${folder}`, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !file.startsWith("testing/"))
    .flatMap((file) => {
      const text = readFileSync(`${root}/${folder}/${file}`, "utf8");
      return [...text.matchAll(GROWS)]
        .filter((match) => mayLast(text, match.index, match[0].endsWith("[];")))
        .map(([, name]) => `${folder}/${file} ${name}`);
    }),
);

/** These live as long as the process, or as the object that they belong to. */
const lasting: Readonly<Record<string, string>> = {
  "apps/ingest/edges/external.ts names": "names of one query, which is 16 KiB at most; gone with the request",
  "apps/ingest/edges/upload.ts underWay": "MOST_AT_ONCE uploads; gone when they end",
  "apps/ingest/routes/wal-replay.ts followed": "replays under way; our own ids; gone when one ends",
  "apps/keeper/schedules/moves.ts underWay": "3 moves of the log",
  "apps/keeper/schedules/nightly.ts passed": "clients that were inspected tonight, emptied each night",
  "browser/delivery/page-queue.ts waiting": "MAX_WAITING events of one page, the lightest left out first",
  "browser/recorder/chunks.ts events": "CHUNK_BYTES, or CHUNK_MS of one page",
  "browser/recorder/chunks.ts waiting": "MOST_BYTES of one page, then the recording ends",
  "browser/signals/forms.ts begun": "forms of one page, gone when they are sent or left",
  "browser/tracker.ts pageWork": "the groups of signals of this script",
  "domain/calendar.ts dayStarts": "4,096 days",
  "domain/memo.ts older": "as the younger one",
  "domain/memo.ts younger": "the size that its owner gives, texts of at most 1,024 characters, copied",
  "infra/avro/avro.ts layouts": "the schemas of this release",
  "infra/avro/record-wire.ts known": "the schemas that spools were written under",
  "infra/avro/record-wire.ts learning": "schema ids that are being asked for",
  "infra/avro/record-wire.ts writers": "schema ids that the log holds",
  "infra/avro/wire.ts viewed": "the topics of this release",
  "infra/http/direct/direct-host.ts peers": "PEERS_REMEMBERED addresses that connect to us",
  "infra/http/direct/per-second.ts counts": "senders of one second; another map with the next",
  "infra/http/lane.ts waiting": "bodies that are held, 256 MiB of them",
  "infra/http/turns.ts keys": "users with a dear request now, two running and sixty waiting each",
  "infra/http/listen.ts held": "addresses of 5,000 connections",
  "infra/http/listen.ts open": "5,000 connections, and the requests under way on one",
  "infra/http/read-body.ts #few": "FREE_PIECES pieces of one body, gone with the request",
  "infra/http/read-body.ts #joined": "the bytes of one body, gone with the request",
  "infra/http/rate-limit.ts younger": "10,000 keys of our own making, each with the times of its limit",
  "infra/http/body-bounds.ts heldByAddress": "addresses whose bodies are held now",
  "infra/http/body-bounds.ts heldByToken": "tokens whose bodies are held now",
  "infra/http/body-bounds.ts underWay": "bodies under way, one of a connection",
  "infra/kafka/member.ts #committed": "partitions that this member owns; emptied when it joins",
  "infra/kafka/member.ts #sought": "as above",
  "infra/kafka/queue.ts #open": "the messages and bytes of maxWaiting",
  "infra/kafka/queue.ts #queue": "the messages and bytes of maxWaiting, and what was given up goes with the next call",
  "infra/redis/fast-memory.ts loadedFrom": "stages and partitions of the topology",
  "infra/runtime/timing/in-slices.ts waiting": "bodies that are held and longer than a slice",
  "infra/runtime/metrics/gauges.ts shown": "groups of the topology",
  "infra/runtime/scope.ts opened": "what an app opens",
  "infra/spool/last-resort.ts queue": "64 MiB on their way (modules/intake/path/places.ts)",
  "infra/spool/last-resort.ts #all": "200,000 objects, 300 bytes each",
  "infra/spool/spool-files.ts #all": "the size that a spool may have",
  "infra/spool/spool.ts #queue": "64 MiB on their way (modules/intake/path/places.ts)",
  "infra/spool/spool.ts labels": "the kinds of dead letters, which are three",
  "modules/access/secrets/fresh-answers.ts known": "10,000 clients",
  "modules/access/secrets/fresh-answers.ts underway": "clients whose requests wait for an answer of Postgres",
  "modules/access/tokens/live-tokens.ts used": "tokens, emptied once a minute",
  "modules/base/alerts/delivery.ts mailed": "200 incidents",
  "modules/intake/path/facts.ts identities": "8 clients, each with a memo of 100,000 devices",
  "modules/intake/path/path-checks.ts unsaved": "100 checks",
  "modules/intake/sources/payloads.ts newest": "the payloads of one write",
  "modules/intake/sources/source-picture.ts NONE": "empty for good",
  "modules/intake/sources/source-picture.ts active": "the sources that people made, made again with each picture",
  "modules/intake/quotas/quotas.ts buckets": "two sides of each client, and strangers",
  "modules/catalog/pixel/sightings.ts noted": "20,000 sightings, written every ten seconds",
  "modules/catalog/pixel/sightings.ts subjects": "clients of the reference data, emptied with what was noted",
  "modules/intake/path/places.ts #refusing": "the two places",
  "modules/log/groups/revision-reader.ts recorded": "partitions, emptied when the member joins",
  "modules/intake/leads/lead-keys.ts vaults": "1,000 clients, 32 bytes each",
  "modules/intake/leads/lead-queue.ts busy": "3 clients whose leads are being stored",
  "modules/intake/leads/lead-queue.ts waiting": "4,000 leads, 32 MiB of them",
  "modules/log/replays/replay-writes.ts ends": "30,000 messages under way",
  "modules/log/replays/replay-writes.ts lastOf": "partitions of a replay, gone with it",
  "modules/log/replays/replay-writes.ts underWay": "30,000 messages under way",
  "modules/money/decisions/creditable.ts known": "the partners and campaigns of one request, 1,000",
  "modules/running/repair/self-repair.ts #pending": "MOST_PENDING alerts, the oldest left out first",
  "modules/running/repair/standing-groups.ts last": "the stages of the topology",
  "processors/admit/shape.ts kinds": "10,000 keys of at most 64 characters, then emptied",
  "processors/enrich/facts.ts known": "100 clients, each with a memo of 10,000 identifiers",
  "sinks/archive/container.ts blocks": "the compressed blocks of one file, closed at 32 MiB before compression",
  "sinks/archive/write.ts open": "files that are made, one of 32 MiB a partition; all dropped when the group is joined",
  "sinks/archive/write.ts expected": "partitions of the topics that are archived",
  "sinks/archive/write.ts knownIds": "10,000 schema ids, then emptied",
  "stream/runner.ts rebuilding": "partitions whose memory was lost",
  "stream/sink/copy-runner.ts rounds": "partitions of the topic that is copied",
  "stream/sink/copy-runner.ts failing": "partitions, those of the last minutes",
  "stream/sink/sink-runner.ts waiting": "batches of one fetch: no further one comes before they are written",
};
/**
 * These end with the request, the batch, the snapshot of reference data, or the list that they help
 * to build.
 */
const passing: ReadonlySet<string> = new Set([
  "apps/api/docs-page.ts areas",
  "modules/catalog/clients/onboarding/plan.ts seen",
  "domain/reference/snapshot.ts groups",
  "modules/running/state-hash/compare.ts found",
  "modules/running/state-hash/hour-hash.ts sums",
  "domain/reference/snapshot.ts ordered",
  "domain/personal/suppression.ts clients",
  "infra/clickhouse/migrate.ts views",
  "infra/kafka/replay.ts left",
  "infra/kafka/requests.ts byTopic",
  "infra/redis/fast-memory.ts truncated",
  "infra/redis/fast-memory.ts versions",
  "infra/spool/last-resort.ts byLabel",
  "modules/base/alerts/reported-once.ts groups",
  "modules/log/dead-letters/letter.ts byId",
  "modules/money/decisions/creditable.ts known",
  "modules/money/decisions/reattribute.ts decisions",
  "modules/log/dead-letters/letter.ts bySubject",
  "modules/log/dead-letters/letter.ts changed",
  "modules/intake/imports/csv/csv-head.ts ours",
  "modules/intake/imports/csv/csv-lines.ts waiting",
  "modules/intake/imports/run/run-import.ts sums",
  "modules/catalog/reference/checks.ts active",
  "modules/catalog/reference/draft.ts segments",
  "modules/catalog/reference/writer.ts seen",
  "modules/log/replays/replay-lane.ts topics",
  "modules/figures/reports/reconcile.ts currencies",
  "modules/figures/reports/reconcile.ts found",
  "modules/money/decisions/reattribute.ts decisions",
  "modules/money/undo/withdrawals.ts lost",
  "modules/money/undo/withdrawals.ts taken",
  "processors/admit/json-list.ts found",
  "processors/admit/batch.ts events",
  "processors/attribute/facts.ts nothingLinked",
  "processors/commission/month.ts amounts",
  "processors/commission/shares.ts shares",
  "processors/enrich/networks.ts systems",
  "processors/score/facts.ts nothingKnown",
  "processors/settle/spread.ts #asked",
  "processors/settle/spread.ts excess",
  "processors/settle/spread.ts copies",
  "processors/settle/spread.ts noCopies",
  "processors/settle/spread.ts index",
  "processors/settle/spread.ts taken",
  "processors/settle/memory.ts parts",
  "processors/settle/spread.ts unmet",
  "processors/settle/undo/withdraw.ts all",
  "processors/settle/undo/withdraw.ts known",
  "processors/settle/undo/words.ts rows",
  "sinks/archive/check.ts covered",
  "sinks/archive/check.ts ends",
  "sinks/archive/write.ts NO_HEADERS",
  "sinks/rollup-marks/table.ts minutes",
  "stream/dead-letters.ts counts",
  "stream/failpoint.armed.ts passed",
  "stream/fold.ts dropped",
  "stream/fold.ts next",
  "stream/fold.ts outputs",
  "stream/fold.ts refused",
  "stream/fold.ts taken",
  "stream/fold.ts rejected",
  "stream/memory/in-memory.ts stages",
  "stream/memory/recall.ts changed",
  "stream/memory/recall.ts keys",
  "stream/memory/recall.ts later",
  "stream/memory/recall.ts met",
  "stream/memory/recall.ts outcomes",
  "stream/memory/recall.ts values",
  "stream/runner.ts keys",
  "stream/sink/sink-write.ts ranges",
]);

/**
 * A run of reprocess gives up at its limits (modules/money/reprocess/ports.ts), and a trial of a
 * rule evaluates 50,000 events (modules/money/trials/evaluate.ts); then they end.
 */
const RUNS = /^modules\/money\/(reprocess|trials)\//;

test("every map, set and list that grows has a bound that is written down", () => {
  const isListed = (place: string): boolean => RUNS.test(place) || passing.has(place) || lasting[place] !== undefined;
  expect(
    found.filter((place) => !isListed(place)),
    "say here what bounds it, or that it passes",
  ).toEqual([]);
});

test("what is listed is still there", () => {
  expect([...Object.keys(lasting), ...passing].filter((place) => !found.includes(place))).toEqual([]);
});
