// The drills of the runbooks on the whole product: after a restored backup, after a rotation, and
// after a rolling restart there and back, `tributary hash --compare` finds no difference. `npm run
// drills` prints the seconds.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { realpathSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { randomFrom } from "../../infra/runtime/random.ts";
import { type Control, controlOf } from "../../infra/runtime/stack-control.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { eventsOf, newSeed, post, type SentEvent } from "../support/e2e-load.ts";
import { environmentOf, type Product, type Ran, spawned, startProduct, until } from "../support/e2e-product.ts";

/** The order of the runbooks: first the stages that decide, last the edges. */
const ROLLING = ["worker-chain", "worker-money", "keeper", "ingest"];
const running = apps.filter(({ name }) => ROLLING.includes(name));
const EVENTS = 5_000;
const random = randomFrom(newSeed("drills"));

let product: Product;
let control: Control;
/** The variables that the operator exports. */
let given: Readonly<Record<string, string>>;
let next: (count: number) => readonly SentEvent[];
beforeAll(async () => {
  product = await startProduct(running);
  control = controlOf(product.stack.run);
  given = { TRIBUTARY_SECRET: product.stack.env.TRIBUTARY_SECRET! };
  next = eventsOf(random, "drill", product.client("aurora-music").id);
}, 180_000);
afterAll(() => product?.clear());

const file = (): string => join(product.stack.home, "before.json");
const tributary = (...args: readonly string[]): Promise<Ran> =>
  spawned(["dist/apps/cli/main.js", ...args], { ...environmentOf(product.stack.home), ...given }).done;
const done = async (...args: readonly string[]): Promise<string> => {
  const { code, stdout, stderr } = await tributary(...args);
  expect({ code, stderr: code === 0 ? "" : stderr }, args.join(" ")).toEqual({ code: 0, stderr: "" });
  return stdout;
};

/** Sends more events, and waits until all are stored and counted. */
const sent = async (count: number): Promise<void> => {
  const { token } = product.client("aurora-music");
  expect((await post(product.ingestUrl, token, next(count))).accepted).toBe(count);
  await product.quiet(60_000);
};
const noted = async (): Promise<void> => {
  await until("no minute waits for its rollups", 60_000, async () => {
    const said = await done("hash", "--json");
    if (JSON.parse(said).waiting_minutes > 0) throw new Error(said);
    writeFileSync(file(), said);
  });
};
/** The command exits with 1 while a table differs, for example until rollups are computed. */
const unchanged = async (): Promise<void> => {
  await product.quiet(60_000);
  await until("no table differs", 60_000, async () => {
    const { code, stdout } = await tributary("hash", "--compare", file());
    if (code !== 0) throw new Error(stdout);
  });
};
const differs = async (): Promise<void> =>
  expect((await tributary("hash", "--compare", file())).code, "the drill has an effect").toBe(1);
const restarted = async (names: readonly string[]): Promise<void> => {
  for (const name of names) {
    const was = product.stack.pid(name);
    await product.stack.stop(name);
    await product.stack.start({ ...running.find((app) => app.name === name)!, env: given });
    expect(product.stack.pid(name)).not.toBe(was);
  }
};

/** Prints the time of a drill; the pages have these figures. */
const timed = async <T>(what: string, work: () => Promise<T> | T): Promise<T> => {
  const began = performance.now();
  const result = await work();
  console.log(`${what}: ${((performance.now() - began) / 1_000).toFixed(1)} s`);
  return result;
};
const eventsNow = async (): Promise<string> =>
  (await product.clickhouse<{ n: string }>("select toString(count()) as n from events"))[0]!.n;

test("a backup of Postgres from before is put back, and three rewinds bring all of it", async () => {
  await sent(EVENTS);
  // If root runs the stack, the folder is a link to the data.
  const data = realpathSync(join(product.stack.home, "postgres"));
  const copy = (from: string, to: string) => execFileSync("cp", ["-a", from, to]);
  const taken = new Date(Date.now() - 60_000).toISOString();
  await timed("backup of Postgres, with its stop and start", async () => {
    await control.stop("postgres");
    copy(data, `${data}.backup`);
    await control.start("postgres");
  });
  console.log(`${execFileSync("du", ["-sm", `${data}.backup`], { encoding: "utf8" }).split("\t")[0]} MiB of Postgres`);
  await sent(EVENTS);
  await noted();

  const readers = ["worker-chain", "worker-money", "keeper"];
  for (const name of readers) await control.stop(name);
  await timed("restore of Postgres", async () => {
    await control.stop("postgres");
    renameSync(data, `${data}.old`);
    copy(`${data}.backup`, data);
    await control.start("postgres");
  });
  await differs();
  for (const name of readers) await control.start(name);
  console.log(`${await eventsNow()} events`);
  for (const sink of ["conversions", "ledger", "analytics"])
    await timed(`rewind ${sink}`, () => done("rewind", sink, "--to", taken, "--reason", "a drill", "--yes"));
  await timed("until hash --compare finds no difference", unchanged);
  for (const kept of ["old", "backup"]) rmSync(`${data}.${kept}`, { recursive: true });
  await sent(100);
}, 280_000);

test("a rotation of the secret changes no table", async () => {
  await noted();
  given = { TRIBUTARY_SECRET: `${randomBytes(32).toString("base64")},${given.TRIBUTARY_SECRET}` };
  await timed("rolling restart under both secrets", () => restarted(ROLLING));
  const { secrets } = JSON.parse(await done("secrets", "show", "--json"));
  const said = await timed("secrets rotate", () => done("secrets", "rotate", "--yes", "--json"));
  expect(JSON.parse(said)).toMatchObject({ step: "wait", resealed: secrets[1].sealed });
  await unchanged();
  await sent(100);
  await differs();
}, 180_000);

test("the steps of an upgrade, and those of going back, change no table", async () => {
  await noted();
  // The owner of an external database runs these steps, which `npm start` does by itself.
  const { POSTGRES_ADMIN_URL, POSTGRES_URL } = product.stack.env;
  const outer = given;
  given = { ...given, POSTGRES_ADMIN_URL: POSTGRES_ADMIN_URL!, POSTGRES_URL: POSTGRES_URL! };
  for (const words of ["topics apply", "schemas apply", "migrate apply"])
    await timed(words, () => done(...words.split(" ")));
  given = outer;
  await timed("rolling restart", () => restarted(ROLLING));
  await unchanged();
  await timed("rolling restart in the opposite order", () => restarted([...ROLLING].reverse()));
  await unchanged();
  await sent(100);
  await differs();
}, 180_000);
