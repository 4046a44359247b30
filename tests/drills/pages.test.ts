// Runs the commands of the pages in a shell on the whole product, in their order. `npm run drills`;
// tests/docs/commands.test.ts only parses them.
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Product, type Ran, root, startProduct, until } from "../support/e2e-product.ts";
import { commandsIn, type PageCommand, pagesOf } from "../support/page-commands.ts";

/** Replaces values that a page shows of another moment by those of this stack. */
type Here = readonly (readonly [of: RegExp, here: string])[];

/** Commands that are not run here, each with its reason. */
const elsewhere: readonly (readonly [page: RegExp, command: RegExp, why: string])[] = [
  [/api-in-ten-minutes|push-leads/, /./, "has a test of its own"],
  [/import-csv/, /./, "tests/edges/uploads and tests/api/uploads-in-parts.test.ts type it"],
  [/events\.md/, /^curl/, "tests/docs/events.test.ts sends every event of the page"],
  [/send-events/, /./, "tests/docs/send-events.test.ts and tests/e2e/guides.test.ts run its samples"],
  [/README/, /^curl|^npx tributary send/, "tests/e2e/story.test.ts and cdnow.test.ts send these"],
  [/operate/, /KAFKA_BROKERS=\.\.\./, "names servers of the reader"],
  [
    /scale/,
    /migrate apply --cluster/,
    "needs a cluster: tests/contracts/clickhouse-migrations.test.ts reads its statements",
  ],
  [/operate/, /OPS_PORT=9181/, "starts a process that stays: tests/guarantees/hosting.test.ts hosts this way"],
  [/pixel\/replay/, /replay-view/, "tests/e2e/pixel-replay.test.ts records a visit first"],
  [/poison-data|dead-letters/, /set-aside/, "tests/guarantees/poison.test.ts stops a stage on purpose"],
  [/wrong-attribution/, /^npx tributary rewind enrich/, "shows a refusal: tests/guarantees/rewind.test.ts"],
];
/** Commands that end with another code here, because nothing was lost. */
const codes: readonly (readonly [command: RegExp, code: number])[] = [
  [/^(find|grep)/, 1],
  [/hash --compare/, 1],
  // The doctor reports that the demonstration is open.
  [/tributary doctor/, 1],
];
/** Values that a command prints once and that later ones need. */
const learned: Record<string, string> = {};
const learn = (printed: string): void => {
  const key = /\/postback\/external\/src_3\?key=(\S+)/.exec(printed)?.[1];
  if (key !== undefined) learned.KEY = key;
};

let product: Product;
let folder: string;
let here: Here;
const bin = (): string => join(folder, "bin");

/** Variables that the pages take as exported. */
const exported = (): Readonly<Record<string, string>> => ({
  INGEST: product.ingestUrl,
  INGEST_URL: product.ingestUrl,
  ADMIN_TOKEN: (product.stack.run.demo as { admin_token: string }).admin_token,
  ADDRESS: "ana@example.com",
  STRIPE_WEBHOOK_SECRET: "whsec_try_the_notices",
  MP_SECRET: "try_the_notices_of_it",
  MP_ACCESS_TOKEN: "an access token of no account",
  ADYEN_HMAC_KEY: "0".repeat(64),
  ADYEN_USER: "tributary",
  ADYEN_PASSWORD: "a password of no account",
});

const typed = (command: string): Promise<Ran> =>
  new Promise((resolve) => {
    const { TRIBUTARY_SECRET: _, ...outer } = process.env;
    const own = { TRIBUTARY_HOME: product.stack.home, PATH: `${bin()}${delimiter}${process.env.PATH}` };
    const env = { ...outer, ...own, ...exported(), ...learned };
    const shell = spawn("bash", ["-o", "pipefail", "-ec", command], {
      cwd: folder,
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let [stdout, stderr] = ["", ""];
    shell.stdout.on("data", (text) => (stdout += text));
    shell.stderr.on("data", (text) => (stderr += text));
    shell.once("close", (code) => resolve({ code, stdout, stderr }));
  });

/** Clients of stores, which only some machines have. */
const PROGRAMS = ["psql", "redis-cli"];
const isHereToo = (program: string): boolean => spawnSync("which", [program]).status === 0;

/** A sale with its commission, an event that its sink refuses, and bytes that are no record. */
const lived = async (): Promise<Here> => {
  const { id, token } = product.client("casa-verde");
  const props = { revenue: "100.00", currency: "MXN", product_id: "lamp", quantity: 1, coupon: "VERDE10" };
  const events = ["pages-1", "pages-2"].map((order) => ({
    ...{ t: "purchase", ts: Date.now() - 60_000, cid: id, did: `device of ${order}`, event_id: order },
    props: { ...props, order_id: order },
  }));
  await product.rows("alter table product_sales add constraint pages check (order_id <> 'pages-2')");
  const answer = await fetch(`${product.ingestUrl}/ingest/batch`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ events }),
  });
  expect(await answer.json()).toMatchObject({ accepted: 2 });
  const producer = product.kafka.producer();
  await producer.send([{ topic: "events.raw", key: "g", value: Buffer.from("garbage") }]);
  await producer.close();
  await product.quiet(60_000);
  const letter = await until("both letters are indexed", 60_000, async () => {
    const letters = await product.rows<{ letter_id: string }>("select letter_id from dead_letters order by code");
    if (letters.length < 2) throw new Error(`${letters.length} letters`);
    return letters[0]!.letter_id;
  });
  await product.rows("alter table product_sales drop constraint pages");
  const hour = (n: number) => new Date(Date.now() - n * 3_600_000).toISOString().slice(0, 13);
  const [link] = (product.stack.run.demo as { links: { partner_id: number; client_id: number }[] }).links.filter(
    ({ client_id }) => client_id === id,
  );
  return [
    [/dl_(?:\.\.\.|[0-9a-f]{32})/g, letter],
    [/demo-1795281495-2300|e73eb7d4-[0-9a-f-]+/g, "pages-1"],
    [/--partner \d+/g, `--partner ${link!.partner_id}`],
    [/--from (?:20\S+|-\d+[hd])/g, `--from ${hour(2)}:00Z`],
    [/--to 20\S+/g, `--to ${hour(1)}:00Z`],
    [/AQGh_\w+/g, "pages-1"],
    [/http:\/\/127\.0\.0\.1:(?:3000|20153)/g, product.ingestUrl],
    [/http:\/\/127\.0\.0\.1:29273/g, product.stack.run.apps["ingest-standby"]!.url!],
    ...PROGRAMS.filter((program) => !isHereToo(program)).map(
      (program) => [new RegExp(`^${program} .*$`, "gm"), ""] as const,
    ),
  ];
};

const program = (name: string, script: string): void => {
  writeFileSync(join(bin(), name), `#!/bin/sh\n${script}\n`);
  chmodSync(join(bin(), name), 0o755);
};
beforeAll(async () => {
  product = await startProduct(undefined, ["payments"]);
  folder = mkdtempSync(join(tmpdir(), "tributary-pages-"));
  mkdirSync(bin());
  program("npx", `shift\nexec '${process.execPath}' '${root}/dist/apps/cli/main.js' "$@"`);
  // A refusal is a failure too. A saved change is in force within a second.
  const curl = spawnSync("which", ["curl"], { encoding: "utf8" }).stdout.trim();
  program("curl", `exec ${curl} --fail-with-body --retry 2 --retry-all-errors "$@"`);
  writeFileSync(join(folder, "sales.csv"), "customer_id,date,quantity,dollars\nc-1,2026-11-20,1,12.50\n");
  symlinkSync(product.stack.home, join(folder, ".tributary"));
  here = await lived();
  expect((await typed("npx tributary hash --json > before.json")).code).toBe(0);
}, 240_000);
afterAll(async () => {
  await product?.clear();
  rmSync(folder, { recursive: true, force: true });
});

const isHere = ({ page, text }: PageCommand): boolean =>
  !elsewhere.some(([ofPage, command]) => ofPage.test(page) && command.test(text));
const pages = pagesOf()
  .map((page) => ({ page, commands: commandsIn(page).filter(isHere) }))
  .filter(({ commands }) => commands.length > 0);

describe.each(pages)("$page", ({ commands }) => {
  test.each(commands)("$text", async ({ text }) => {
    const command = here.reduce((line, [of, found]) => line.replaceAll(of, found), text);
    const { code, stdout, stderr } = await typed(command);
    const allowed = [0, ...codes.flatMap(([of, other]) => (of.test(command) ? [other] : []))];
    expect(allowed, `${command}\n${stdout}${stderr}`).toContain(code);
    learn(stdout + stderr);
    // curl ends with 0 whatever the answer is.
    expect(stdout, command).not.toContain("urn:tributary:problem:");
    expect(stderr, command).not.toMatch(/^ +at .*\.(?:ts|js|mjs):\d+/m);
  });
});

test("every exception is about a command that a page still shows", () => {
  const all = pagesOf().flatMap(commandsIn);
  for (const [page, command] of elsewhere)
    expect(
      all.some((one) => page.test(one.page) && command.test(one.text)),
      `${page} ${command}`,
    ).toBe(true);
});
