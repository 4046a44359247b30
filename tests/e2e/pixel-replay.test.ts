// Session replay in a real browser against the real pixel host: what is recorded, what never leaves
// the browser, when it ends, and how an operator plays it.
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { serveRecording } from "../../apps/cli/commands/running/recording-page.ts";
import { openLog } from "../../infra/runtime/log.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { newClientSecret, saveClientSecret } from "../../modules/access/secrets/client-secrets.ts";
import { openRecording } from "../../modules/intake/recordings/recording-reads.ts";
import { storeChunk } from "../../modules/intake/recordings/recording-store.ts";
import { launchChromium, USER_AGENT } from "../support/chromium.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { inMemoryObjects } from "../support/in-memory-objects.ts";
import { factsOfTwo, keyring, openPixelHost, type PixelHost, type PixelWorld } from "../support/pixel-host.ts";
import { CLIENT, openVisit, pageErrors, snippet, type Visit } from "../support/pixel-visit.ts";

const recording = { replay_enabled: true, replay_sample_rate: 100, consent_replay: false };
const world: PixelWorld = { isBuilt: true };
const objects = inMemoryObjects();
let database: FreshDatabase;
let browser: Browser;
let visit: Visit;
let host: PixelHost;
let context: BrowserContext;
let page: Page;
let errors: readonly string[];
/** The visit under test, because a page of an earlier test may still send its rest. */
let session: string | undefined;
/** The bodies of POST /replay, as text; "" for replay.js. */
let sent: string[];

beforeAll(async () => {
  database = await freshDatabase();
  const pool = database.pool({ max: 4 });
  await saveClientSecret(pool, CLIENT, newClientSecret(), keyring);
  world.record = (taken) => storeChunk({ pool, objects, keyring }, taken);
  // It bundles the script that the host then reads.
  visit = await openVisit();
  [host, browser] = await Promise.all([openPixelHost(world), launchChromium()]);
}, 600_000);
afterAll(async () => {
  await browser?.close();
  await host?.close();
  await visit?.close();
  await database?.drop();
});
beforeEach(() => {
  visit.reset();
  host.clear();
  world.settings = recording;
  delete world.facts;
  sent = [];
});
afterEach(async () => {
  await context?.close();
  expect(errors).toEqual([]);
});

const pixelUrl = () => `http://px.${visit.domain}:${host.port}`;
const put = (path: string, body: string, headers: Readonly<Record<string, string>> = {}, nonce = ""): void => {
  const html = `<title>${path}</title>${snippet(pixelUrl(), "", nonce)}</head><body>${body}</body>`;
  visit.pages.set(path, { html, headers });
};
const go = async (path = "/"): Promise<void> => {
  context = await browser.newContext({ userAgent: USER_AGENT, viewport: { width: 1_000, height: 700 } });
  page = await context.newPage();
  errors = pageErrors(page);
  page.on("request", (request) => {
    if (/\/replay(\.js)?$/.test(request.url())) sent.push(request.postData() ?? "");
  });
  await page.goto(visit.site + path);
  await page.waitForFunction("window.svc && svc.v === 1");
};
const svc = (...call: readonly unknown[]): Promise<void> => page.evaluate(`svc(...${JSON.stringify(call)})`);
const leave = (): Promise<unknown> => page.goto("about:blank");
const isLoaded = () => page.waitForResponse(/\/replay\.js$/, { timeout: 20_000 });
const mine = () => host.recorded.filter(({ chunk }) => chunk.sessionId === session);
const isRecorded = (): Promise<void> =>
  until("a chunk was stored", 30_000, async () => {
    session = (await context.cookies()).find(({ name }) => name === "_svc_sid")?.value;
    expect(mine().length).toBeGreaterThan(0);
  });
const loaded = async (): Promise<void> => {
  await go();
  await isRecorded();
};
/** Runs in the page. */
const colourOf = (element: any): string => element.ownerDocument.defaultView.getComputedStyle(element).color;
const hasEvent = (name: string): boolean =>
  host.events.some(({ t, custom_name }) => t === name || custom_name === name);
const stored = (): string =>
  mine()
    .map(({ chunk }) => chunk.events)
    .join("\n");

describe("a recorded visit", () => {
  const SECRETS = ["hunter2", "planted-hidden", "4111111111111111", "ana@example.mx", "5512345678", "typed-name"];
  const MORE = ["long-secret-note", "chosen-card", "edited-words", "blocked-words", "masked-words", "set-by-script"];
  const FORM = `
    <h1>Bienvenida, ana@example.mx</h1><canvas id=c width=20 height=20></canvas>
    <form onsubmit="return false">
      <input name=name><input name=mail type=email><input name=tel type=tel>
      <input name=pass type=password><input type=hidden name=h value=planted-hidden>
      <input name=card autocomplete=cc-number><input type=checkbox name=agree id=agree>
      <textarea name=note>long-secret-note</textarea>
      <select name=pay><option value=plain>Uno</option><option value=chosen-card>Dos</option></select>
      <div contenteditable id=edit>x</div><div class=svc-block>blocked-words</div><p class=svc-mask>masked-words</p>
      <input type=hidden name=later><button type=button id=show>Mostrar</button><input type=submit value=Pagar>
    </form>
    <script>
      show.onclick = () => {
        document.querySelector("[name=pass]").type = "text";
        document.querySelector("[name=later]").value = "set-by-script";
        document.querySelector("[name=later]").setAttribute("value", "set-by-script");
        c.getContext("2d").fillRect(0, 0, 9, 9);
        const late = document.createElement("input");
        late.type = "hidden"; late.value = "planted-hidden-late";
        document.forms[0].append(late, "Gracias");
      };
    </script>`;

  test("holds no input, no canvas and no mouse move, neither in what is sent nor in what is stored", async () => {
    put("/", FORM);
    await loaded();
    await page.fill("[name=name]", "typed-name");
    await page.fill("[name=mail]", "ana@example.mx");
    await page.fill("[name=tel]", "5512345678");
    await page.fill("[name=pass]", "hunter2");
    await page.mouse.move(10, 10);
    await page.mouse.move(400, 300, { steps: 20 });
    await page.click("#show");
    // After the change of type the password is visible text.
    await page.fill("[name=pass]", "hunter2-shown");
    await page.fill("[name=card]", "4111111111111111");
    await page.check("#agree");
    await page.selectOption("[name=pay]", "chosen-card");
    await page.locator("#edit").fill("edited-words");
    await page.mouse.wheel(0, 200);
    await until("the end of it was stored", 30_000, () => expect(stored()).toContain("Gracias"));
    await leave();

    const left = sent.join("\n") + stored();
    expect(left.length).toBeGreaterThan(1_000);
    const options = 'value":"chosen-card';
    for (const secret of [...SECRETS, ...MORE])
      expect([secret, left.replaceAll(options, "").includes(secret)]).toEqual([secret, false]);
    for (const seen of ["Bienvenida", "Pagar", "Gracias"]) expect(left).toContain(seen);
    const all = mine().flatMap(({ chunk }) => JSON.parse(chunk.events) as { type: number; data: any }[]);
    const sources = new Set(all.filter(({ type }) => type === 3).map(({ data }) => data.source));
    for (const never of [1, 6, 9, 12]) expect(sources).not.toContain(never);
    expect(sources).toContain(5);
    for (const { data } of all) if (data.source === 5) expect(data).toMatchObject({ text: "******", isChecked: false });
    for (const body of objects.held.values()) expect(body.toString("latin1")).not.toMatch(/Bienvenida|hunter2|planted/);
  });

  test("ends when the visitor withdraws, and begins again with a new choice of the same device", async () => {
    put("/", "<h1>uno</h1><script>setInterval(() => document.body.append('tick '), 50)</script>");
    await loaded();
    const [{ chunk: first } = { chunk: undefined }] = mine();
    await svc("consent", { replay: false });
    await until("its last chunk is under way", 30_000, () => expect(hasEvent("consent")).toBe(true));
    const withdrawn = Date.now();
    await page.waitForTimeout(6_500);
    const late = mine().flatMap(({ chunk }) => JSON.parse(chunk.events) as { timestamp: number }[]);
    expect(late.filter(({ timestamp }) => timestamp > withdrawn)).toEqual([]);
    const before = mine().length;
    await svc("consent", { replay: true });
    await until("it is recorded again", 30_000, () => expect(mine().length).toBeGreaterThan(before));
    const again = mine().at(-1)!;
    expect(again.chunk).toMatchObject({ did: first!.did, sessionId: first!.sessionId, consent: 0xff });
    expect(again.chunk.page).not.toBe(first!.page);
    expect(host.events.some(({ did, sid }) => did === again.device && sid === first!.sessionId)).toBe(true);
  });

  test("is played back offline by an operator, page by page, and nothing of it runs", async () => {
    put(
      "/",
      `<h1 style="color:rgb(200,0,0)">Plantas</h1><a href="/two">dos</a><img src=x onerror="window.pwned=1">
      <script>document.body.append('hola')</script><button onclick="this.append(' y más')">Comprar</button>`,
    );
    put("/two", "<h1>Macetas</h1>");
    await loaded();
    await page.click("button");
    const sessionId = session!;
    const one = mine().length;
    await page.click("a");
    await until("the second page was stored", 30_000, () => expect(mine().length).toBeGreaterThan(one));
    await leave();
    await until("both are", 20_000, () => expect(stored()).toContain("Macetas"));

    const by = { actor: "ana@shop.example", role: "operator", request_id: "cli-1", ip: null };
    const ports = { pool: database.pool(), objects, keyring, latestMask: async () => undefined };
    const opened = await openRecording(ports, { clientId: CLIENT, sessionId }, by);
    if (typeof opened === "string") throw new Error(opened);
    const server = await serveRecording(opened, "token", openLog({ app: "cli", level: "silent" }));
    try {
      const origin = `http://127.0.0.1:${server.port}`;
      const player = await context.newPage();
      const playerErrors = pageErrors(player);
      const asked: string[] = [];
      // A request that the policy stops gets no answer.
      player.on("response", (answered) => asked.push(answered.url()));
      const answer = await player.goto(`${origin}/token-view`);
      expect(answer!.headers()["content-security-policy"]).toContain("default-src 'none'; script-src 'self'");
      const frame = player.frameLocator(".replayer-wrapper iframe");
      await frame.locator("h1", { hasText: "Plantas" }).waitFor({ timeout: 20_000 });
      expect(await frame.locator("h1").evaluate(colourOf)).toBe("rgb(200, 0, 0)");
      await frame.locator("button", { hasText: "Comprar y más" }).waitFor({ timeout: 20_000 });
      expect((await player.screenshot()).length).toBeGreaterThan(5_000);
      await player.click("#pages button:nth-child(2)");
      await frame.locator("h1", { hasText: "Macetas" }).waitFor({ timeout: 20_000 });
      expect(await player.evaluate("[window.pwned, frames[0].pwned]")).toEqual([undefined, undefined]);
      expect(asked.filter((url) => !url.startsWith(origin) && !url.startsWith("data:"))).toEqual([]);
      expect(playerErrors).toEqual([]);
      for (const [path, headers] of [
        ["/other-view", {}],
        ["/token-recording.json", { origin: "https://evil.example" }],
      ] as const)
        expect((await fetch(origin + path, { headers })).status).toBe(404);
    } finally {
      await server.close();
    }
  });
});

test("a visit begins with the ticket that its page got, and so does each chunk", async () => {
  put("/", "<h1>uno</h1><script>setInterval(() => document.body.append('tick '), 50)</script>");
  await loaded();
  await until("a second chunk was stored", 30_000, () => expect(mine().length).toBeGreaterThan(1));
  expect(new Set(mine().map(({ hasTicket }) => hasTicket))).toEqual(new Set([true]));
  const bodies = sent.filter((body) => body !== "").map((body) => JSON.parse(body) as { ticket: string });
  expect(new Set(bodies.map(({ ticket }) => ticket)).size).toBe(1);
});

describe("the browser asks the gates first:", () => {
  const closed: readonly (readonly [string, () => void])[] = [
    ["the client records nothing", () => (world.settings = {})],
    ["the visit was not drawn", () => (world.settings = { ...recording, replay_sample_rate: 0 })],
    [
      "the client's default has no consent",
      () => (world.facts = (id) => ({ ...factsOfTwo(id, 0)!, consentDefault: 0x0f })),
    ],
    ["a choice is needed", () => (world.settings = { ...recording, consent_replay: true })],
  ];
  test.each(closed)("nothing is loaded when %s", async (_name, close) => {
    close();
    put("/", "<h1>uno</h1>");
    await go();
    await until("a page view arrived", 30_000, () => expect(hasEvent("page_view")).toBe(true));
    await svc("page");
    await page.waitForTimeout(2_500);
    expect(sent).toEqual([]);
  });

  test("after a choice it begins, also where a choice is needed and under a strict policy", async () => {
    world.settings = { ...recording, consent_replay: true };
    const from = pixelUrl();
    const policy = `default-src 'none'; script-src 'nonce-n0' ${from}; connect-src ${from}; img-src ${from}`;
    put("/", "<h1>uno</h1>", { "Content-Security-Policy": policy }, "n0");
    await go();
    const asked = isLoaded();
    await svc("consent", true);
    await asked;
    await isRecorded();
    expect(mine()[0]!.chunk.consent).toBe(0xff);
  });

  test("a host that closes the gate ends it, and the page goes on", async () => {
    put("/", "<h1>uno</h1><script>setInterval(() => document.body.append('tick '), 50)</script>");
    await loaded();
    world.settings = {};
    const refused = page.waitForResponse((answer) => answer.url().endsWith("/replay") && answer.status() === 403);
    await refused;
    const count = sent.length;
    await page.waitForTimeout(6_000);
    expect(sent.length).toBe(count);
    await svc("event", "wishlist", { sku: "x" });
    await until("events go on", 20_000, () => expect(hasEvent("wishlist")).toBe(true));
  });
});
