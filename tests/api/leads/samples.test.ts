// The samples of docs/push-leads.md, run as they stand there.
import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { head } from "../../../apps/stack/screen.ts";
import { until } from "../../../infra/runtime/timing/until.ts";
import { apiSuite } from "../../support/api-suite.ts";
import { pusher } from "../../support/push.ts";

const { demo, ask, running } = apiSuite();
/** How each language is run, and whether it is here. */
const runtimes = {
  sh: { command: "sh", file: "push.sh", version: "-c true" },
  js: { command: process.execPath, file: "push.mjs", version: "--version" },
  python: { command: "python3", file: "push.py", version: "--version" },
  php: { command: "php", file: "push.php", version: "--version" },
} as const;
type Language = keyof typeof runtimes;
const isHere = (language: Language): boolean => {
  const { command, version } = runtimes[language];
  try {
    execFileSync(command, version.split(" "), { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};
const page = readFileSync("docs/push-leads.md", "utf8");
const samples = [...page.matchAll(/^```(sh|js|python|php)\n([\s\S]*?)^```$/gm)].map(([, language, text]) => ({
  language: language as Language,
  text: text!,
}));
const folder = mkdtempSync(join(tmpdir(), "push-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const shop = demo.clients[1] as { readonly id: number; readonly hmac_secret: string };
const client = { id: shop.id, secret: shop.hmac_secret };
beforeAll(() =>
  until("the client is in force", 30_000, async () =>
    expect((await pusher(ask)(client, { client_lead_id: "samples" })).status).toBe(200),
  ),
);
const environment = () => ({
  ...process.env,
  ...{ API_URL: running().url, CLIENT_ID: String(client.id), HMAC_SECRET: client.secret },
});

test("the page shows one in each language, and every language that is here is run", () => {
  expect(samples.map(({ language }) => language)).toEqual(Object.keys(runtimes));
  const absent = samples.filter(({ language }) => !isHere(language)).map(({ language }) => language);
  if (absent.length > 0) console.info(`not run, for it is not installed: ${absent.join(", ")}`);
});

test.each(samples.filter(({ language }) => isHere(language)))(
  "the sample in $language pushes a lead",
  async (sample) => {
    const { command, file } = runtimes[sample.language];
    writeFileSync(join(folder, file), sample.text);
    const { stdout } = await promisify(execFile)(command, [join(folder, file)], { env: environment() });
    expect(JSON.parse(stdout)).toMatchObject({ lead_id: expect.stringMatching(/^led_/) });
  },
);

test("the one that npm start prints does too", async () => {
  const run = { apps: { api: { url: running().url } }, services: { kafka: {} } };
  const line = head({ run: () => run as never, demo: demo as never, shopUrl: "" })
    .split("\n")
    .find((text) => text.includes("lead-submission"))!;
  const { stdout } = await promisify(execFile)("sh", ["-c", line]);
  expect(JSON.parse(stdout)).toMatchObject({ status: "created" });
});
