// The pixel of a client over HTTP: one store behind two forms, the signing secret, and whether
// events arrive.
import { afterAll, describe, expect, test } from "vitest";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { sql } from "../../infra/postgres/sql.ts";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { clientSecretOf } from "../../modules/access/secrets/client-secrets.ts";
import { findingsOf } from "../../modules/catalog/pixel/findings.ts";
import { hostOf, isAllowed } from "../../modules/catalog/pixel/pixel-config.ts";
import { ingestPath } from "../../modules/intake/path/ingest-path.ts";
import { recordIngestPath } from "../../modules/intake/path/path-checks.ts";
import { startApi } from "../support/api.ts";
import { apiSuite } from "../support/api-suite.ts";
import { asker } from "../support/ask.ts";

const { env, pool, owner, tokens, ask, send, read, fresh } = apiSuite();
const keyring = keyringOf(env.TRIBUTARY_SECRET!);
const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
afterAll(() => clickhouse.close());

const newClient = async (): Promise<number> =>
  (await send("POST", "/api/clients", { name: "A shop", slug: fresh("pixel") })).body.id;
const ownOfManager = async (): Promise<number> => (await read("/api/clients?limit=1", "manager")).body.data[0].id;
const pathOf = (id: number): string => `/api/clients/${id}/pipeline/pixel-config`;
const formerOf = (id: number): string => `/api/clients/${id}/pixel-config`;
const auditOf = async (id: number) =>
  (
    await owner.query(sql`
      select action, before, after from audit where client_id = ${id} and action <> 'client.created' order by audit_id`)
  ).rows;

const defaults = {
  allowed_domains: [],
  tracked_events: ["page_view", "purchase", "lead_submit"],
  replay_enabled: false,
  replay_sample_rate: 0,
  consent_replay: false,
  jurisdiction: "MX",
  consent_default: 255,
  tracking_type: "PIXEL",
  auto_signals: true,
  version: 1,
};

describe("the configuration", () => {
  test("has the defaults until something is set, and then what was set beside them", async () => {
    const id = await newClient();
    const before = await read(pathOf(id));
    expect([before.status, before.body, before.headers.get("etag")]).toEqual([200, defaults, '"1"']);
    const change = {
      allowed_domains: ["Shop.Example ", "*.shop.example", "shop.example", "tienda-ñandú.mx"],
      tracked_events: ["purchase", "purchase", "quiz_done"],
      replay_sample_rate: 12.5,
      jurisdiction: "EU",
      consent_default: 3,
    };
    const { status, body } = await send("POST", pathOf(id), change);
    expect(status).toBe(200);
    expect(body).toEqual({
      ...{ ...defaults, ...change, version: 2 },
      allowed_domains: ["shop.example", "*.shop.example", expect.stringMatching(/^xn--tienda-[a-z0-9-]+\.mx$/)],
      tracked_events: ["purchase", "quiz_done"],
    });
    expect((await read(pathOf(id))).body).toEqual(body);
    expect((await send("POST", pathOf(id), {})).body).toEqual(body);
    expect(await auditOf(id)).toMatchObject([
      { action: "pixel_config.updated", before: { replay_sample_rate: 0 }, after: { replay_sample_rate: 12.5 } },
    ]);
    const { rows } = await owner.query(sql`
      select jurisdiction, consent_default from clients where client_id = ${id} order by version desc limit 1`);
    expect(rows).toEqual([{ jurisdiction: "EU", consent_default: 3 }]);
  });

  test("is one store behind both forms; the older one says what comes instead", async () => {
    const id = await newClient();
    const put = await send("PUT", formerOf(id), {
      allowed_domains: "a.example\n\nb.example\r\n",
      replay_enabled: true,
    });
    expect([put.status, put.body.allowed_domains, put.body.hmac_secret]).toEqual([
      ...[200, ["a.example", "b.example"], null],
    ]);
    expect((await read(pathOf(id))).body).toMatchObject({ replay_enabled: true, version: 2 });
    await send("POST", pathOf(id), { replay_enabled: false });
    const { body, headers } = await read(formerOf(id));
    expect(body).toMatchObject({ replay_enabled: false, allowed_domains: ["a.example", "b.example"], version: 3 });
    expect([headers.get("deprecation"), headers.get("sunset"), headers.get("link")]).toEqual([
      expect.stringMatching(/^@\d+$/),
      expect.stringMatching(/GMT$/),
      `<${pathOf(id)}>; rel="successor-version"`,
    ]);
  });

  test("names the place of what it does not take, in both forms", async () => {
    const id = await newClient();
    const faults: readonly (readonly [object, string])[] = [
      [{ replay_sample_rate: 100.1 }, "/replay_sample_rate"],
      [{ replay_sample_rate: -1 }, "/replay_sample_rate"],
      [{ replay_sample_rate: "5" }, "/replay_sample_rate"],
      [{ allowed_domains: ["ok.example", "https://x.example"] }, "/allowed_domains/1"],
      [{ allowed_domains: ["x.example:443"] }, "/allowed_domains/0"],
      [{ allowed_domains: ["10.0.0.1"] }, "/allowed_domains/0"],
      [{ allowed_domains: Array.from({ length: 201 }, (_, n) => `h${n}.example`) }, "/allowed_domains"],
      [{ tracked_events: ["No Name"] }, "/tracked_events/0"],
      [{ tracked_events: Array(101).fill("x") }, "/tracked_events"],
      [{ tracked_events: ["purchase", "click"] }, "/tracked_events/1"],
      [{ jurisdiction: "US" }, "/jurisdiction"],
      [{ consent_default: 256 }, "/consent_default"],
      [{ hmac_secret: "mine" }, "/hmac_secret"],
      [{ client_id: 1 }, "/client_id"],
    ];
    for (const [change, pointer] of faults)
      for (const [method, path] of [["POST", pathOf(id)] as const, ["PUT", formerOf(id)] as const]) {
        const { status, body } = await send(method, path, change);
        expect([status, body.errors[0].pointer], `${method} ${pointer}`).toEqual([400, pointer]);
      }
    expect((await read(pathOf(id))).body).toEqual(defaults);
  });

  test("is changed by one of two who saw the same version, and not below an archived client", async () => {
    const id = await newClient();
    const both = await Promise.all([
      send("POST", pathOf(id), { auto_signals: false, version: 1 }),
      send("PUT", formerOf(id), { consent_replay: true, version: 1 }),
    ]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
    expect(both.find(({ status }) => status === 409)!.body).toMatchObject({ current_version: 2 });
    await send("DELETE", `/api/clients/${id}`);
    for (const answer of [
      await send("POST", pathOf(id), { auto_signals: true }),
      await send("PUT", formerOf(id), { auto_signals: true }),
      await send("POST", `${formerOf(id)}/regenerate-secret`),
    ])
      expect([answer.status, answer.body.code]).toEqual([409, "client_archived"]);
    expect((await read(pathOf(id))).body.version).toBe(2);
  });

  test("knows hosts from addresses, and what lies below a host from what only ends alike", () => {
    for (const text of [
      "",
      "*.",
      "http://x.mx",
      "x.mx:80",
      "x.mx/a",
      "1.2.3.4",
      "[::1]",
      "0x7f.1",
      "a b.mx",
      "-a.mx",
      "*",
    ])
      expect(hostOf(text), text).toBeUndefined();
    expect(["X.MX", "*.x.mx", "localhost"].map(hostOf)).toEqual(["x.mx", "*.x.mx", "localhost"]);
    const allowed = (url: string) => isAllowed(url, ["shop.mx", "*.sub.shop.mx"]);
    expect(["https://shop.mx/a", "https://SHOP.mx:8443/", "https://a.sub.shop.mx/"].map(allowed)).toEqual([
      ...[true, true, true],
    ]);
    const foreign = ["https://sub.shop.mx/", "https://evilsub.shop.mx/", "https://shop.mx.evil/", "https://x@evil.mx/"];
    expect(foreign.map(allowed)).toEqual([false, false, false, false]);
  });
});

describe("the signing secret", () => {
  test("is shown once in full, and each call makes another", async () => {
    const id = await newClient();
    const path = `${formerOf(id)}/regenerate-secret`;
    const first = await send("POST", path);
    expect([first.status, first.body]).toEqual([200, { hmac_secret: expect.stringMatching(/^[0-9a-f]{64}$/) }]);
    expect(await clientSecretOf(pool, id, keyring)).toBe(first.body.hmac_secret);
    const { body } = await send("POST", path);
    expect(body.hmac_secret).not.toBe(first.body.hmac_secret);
    expect(await clientSecretOf(pool, id, keyring)).toBe(body.hmac_secret);
    expect((await send("POST", path, { hmac_secret: "0".repeat(64) })).status).toBe(400);
    const entries = await auditOf(id);
    expect(entries).toMatchObject([{ action: "secret.regenerated" }, { action: "secret.regenerated" }]);
    expect(JSON.stringify(entries)).not.toContain(body.hmac_secret);
  });

  test("is in clear for an admin, and that is audited; a manager has its last four digits", async () => {
    const id = await ownOfManager();
    const { body: own } = await send("POST", `${formerOf(id)}/regenerate-secret`);
    const readings = async () => (await auditOf(id)).filter(({ action }) => action === "secret.read").length;
    const before = await readings();
    expect((await read(formerOf(id))).body.hmac_secret).toBe(own.hmac_secret);
    expect(await readings()).toBe(before + 1);
    const { text, body } = await read(formerOf(id), "manager");
    expect(body.hmac_secret).toBe(`********${own.hmac_secret.slice(-4)}`);
    expect(text).not.toContain(own.hmac_secret.slice(0, -4));
    expect((await read(formerOf(id), "viewer")).body).not.toHaveProperty("hmac_secret");
    const put = await send("PUT", formerOf(id), { consent_replay: false }, "manager");
    expect(put.body.hmac_secret).toBe(`********${own.hmac_secret.slice(-4)}`);
    expect(await readings()).toBe(before + 1);
    for (const role of ["admin", "manager", "viewer"])
      expect((await read(pathOf(id), role)).body, role).not.toHaveProperty("hmac_secret");
    expect((await send("POST", `${formerOf(id)}/regenerate-secret`, undefined, "manager")).status).toBe(403);
  });
});

describe("whether events come in", () => {
  const bucket = (client_id: number, at: number, more: object = {}) => ({
    ...{ client_id, grain: "minute", bucket: Math.floor(at / 60_000) * 60, events: 3, version: 1 },
    ...{ event_type: "page_view", source: "pixel", partner_id: 0, campaign_id: 0, country: "", device: "" },
    ...{ currency: "", clicks: 0, conversions: 0, unattributed: 0, revenue_minor: "0", review: 0, rejected: 0 },
    ...more,
  });
  const insert = (...values: readonly object[]) =>
    clickhouse.insert({ table: "rollups", values, format: "JSONEachRow" });
  const minutes = (n: number): number => Date.now() - n * 60_000;
  const startOf = (at: number): string => new Date(Math.floor(at / 60_000) * 60_000).toISOString();

  test("the pixel is heard when it sent within the hour, and other sources are not it", async () => {
    const [loud, silent, never] = [await newClient(), await newClient(), await newClient()];
    const [newest, former] = [minutes(5), minutes(180)];
    await insert(
      bucket(loud, newest),
      bucket(loud, minutes(30), { event_type: "purchase", events: 2 }),
      bucket(loud, minutes(2), { source: "batch" }),
      bucket(silent, former),
      bucket(silent, minutes(2), { source: "batch" }),
    );
    const of = async (id: number) => (await read(`/api/clients/${id}/pixel/activity`)).body;
    expect(await of(loud)).toEqual({
      ...{ has_activity: true, events_last_hour: 5, last_seen_at: startOf(newest), checked: true, findings: [] },
    });
    expect(await of(silent)).toMatchObject({
      ...{ has_activity: false, events_last_hour: 0, last_seen_at: startOf(former), checked: true },
      findings: [{ code: "silent", sentence: expect.any(String), fix: expect.any(String) }],
    });
    expect(await of(never)).toMatchObject({ last_seen_at: null, checked: true, findings: [{ code: "never_seen" }] });
    await send("POST", pathOf(never), { tracking_type: "S2S" });
    expect((await of(never)).findings).toMatchObject([{ code: "no_server_events" }]);
    await insert(bucket(never, minutes(2), { source: "batch", grain: "day" }));
    expect((await of(never)).findings).toEqual([]);
  });

  test("a tracked event is reported until one came", async () => {
    const id = await newClient();
    await send("POST", pathOf(id), { tracked_events: ["quiz_done"] });
    await owner.query(sql`insert into pixel_sightings (client_id, hour, code, subject, count, largest_ms, last_at)
      values (${id}, ${new Date()}, 'taken', '', 60, 0, now())`);
    await insert(bucket(id, minutes(5)));
    const codes = async () =>
      (await read(`/api/clients/${id}/pixel/activity`)).body.findings.map(({ code }: { code: string }) => code);
    expect(await codes()).toEqual(["not_seen"]);
    await insert(bucket(id, minutes(5), { event_type: "quiz_done", grain: "day" }));
    expect(await codes()).toEqual([]);
  });

  test("findings say what is set against itself", () => {
    const config = { ...defaults, replay_enabled: true, consent_default: 0 } as never;
    const seen = { events_last_hour: 1, last_seen_at: 1 };
    expect(findingsOf(seen, config).map(({ code }) => code)).toEqual(["consent_off", "replay_of_none"]);
    expect(findingsOf(seen, { ...defaults, tracking_type: "S2S" } as never).map(({ code }) => code)).toEqual([
      "unexpected_pixel",
    ]);
  });

  test("the status names the way into the log, and the newest event of any source", async () => {
    const [flowing, late] = [await newClient(), await newClient()];
    const [newest, former] = [minutes(3), minutes(40)];
    await insert(bucket(flowing, newest, { source: "batch" }), bucket(late, former, { source: "batch" }));
    const of = async (id: number) => (await read(`/api/clients/${id}/ingest-status`)).body;
    const check = { instance: fresh("status"), waiting_events: 0, reason: null };
    await recordIngestPath(pool, { ...check, state: "both_down", checked_at: Date.now() });
    expect(await of(flowing)).toEqual({
      ...{ backbone_status: "down", events_flowing: true, last_event_at: startOf(newest) },
    });
    await recordIngestPath(pool, { ...check, state: "operational", checked_at: Date.now() + 1 });
    const { backbone_status, ...rest } = await of(late);
    // Other files share the stack, and the worst of all edges counts.
    const { state } = await ingestPath(pool);
    expect(state === "both_down" ? ["down"] : ["ok", "degraded"]).toContain(backbone_status);
    expect(rest).toEqual({ events_flowing: false, last_event_at: startOf(former) });
  });
});

describe("by role", () => {
  test("a foreign client is an unknown one, byte for byte", async () => {
    const foreign = await newClient();
    const never = 2_000_000_000;
    const asked = { token: tokens.manager, headers: { "x-request-id": "same" } };
    const requests = [
      { path: "pipeline/pixel-config", method: "GET" },
      { path: "pipeline/pixel-config", method: "POST", body: { auto_signals: false } },
      { path: "pixel-config", method: "GET" },
      { path: "pixel-config", method: "PUT", body: { auto_signals: false } },
      { path: "pixel/activity", method: "GET" },
      { path: "ingest-status", method: "GET" },
    ];
    for (const { path, ...request } of requests) {
      const [hidden, unknown] = await Promise.all(
        [foreign, never].map((id) => ask(`/api/clients/${id}/${path}`, { ...asked, ...request })),
      );
      expect([hidden!.status, unknown!.status], path).toEqual([404, 404]);
      const [one, other] = [
        hidden!.text.replace(`/clients/${foreign}`, ""),
        unknown!.text.replace(`/clients/${never}`, ""),
      ];
      expect(one).toBe(other);
      expect([...hidden!.headers.keys()]).toEqual([...unknown!.headers.keys()]);
    }
    expect((await read(pathOf(foreign))).body).toEqual(defaults);
    expect((await send("POST", `/api/clients/${never}/pixel-config/regenerate-secret`)).status).toBe(404);
  });

  test("partners and client users see none of it, a viewer changes none of it", async () => {
    const id = await ownOfManager();
    for (const role of ["partner", "client"])
      for (const path of ["pipeline/pixel-config", "pixel-config", "pixel/activity", "ingest-status"])
        expect((await read(`/api/clients/${id}/${path}`, role)).status, `${role} ${path}`).toBe(403);
    expect((await send("POST", pathOf(id), {}, "viewer")).status).toBe(403);
    expect((await send("PUT", formerOf(id), {}, "viewer")).status).toBe(403);
  });
});

// At the end, because another API binds the users to its own issuer.
describe("while the analytics store is away", () => {
  test("nothing is said of events, and the answer is there in time", async () => {
    const id = await newClient();
    const without = await startApi({ ...env, CLICKHOUSE_URL: "http://x:y@127.0.0.1:9/tributary" });
    try {
      const token = await without.token("admin@demo.tributary.test");
      const away = asker(() => without.url);
      const began = performance.now();
      expect((await away(`/api/clients/${id}/pixel/activity`, { token })).body).toEqual({
        ...{ has_activity: false, events_last_hour: 0, last_seen_at: null, checked: false, findings: [] },
      });
      expect((await away(`/api/clients/${id}/ingest-status`, { token })).body).toEqual({
        ...{ backbone_status: "unknown", events_flowing: false, last_event_at: null },
      });
      expect(performance.now() - began).toBeLessThan(10_000);
    } finally {
      await without.close();
    }
  });
});
