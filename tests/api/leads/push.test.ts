// Signed leads over HTTP: which signatures are good, what a body may hold, and that the first push
// of an id counts.
import { gzipSync } from "node:zlib";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { identifyFor, pepperOf } from "../../../domain/device-id.ts";
import { leadIdOf, leadKey, leadSubject } from "../../../domain/ids.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { keyringOf } from "../../../infra/runtime/keyring.ts";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { type RunningApi, startApi } from "../../support/api.ts";
import { apiSuite } from "../../support/api-suite.ts";
import { asker } from "../../support/ask.ts";
import { pusher, type Signer, signatureOf } from "../../support/push.ts";
import { expectWithin, msOf } from "../../support/quickest.ts";

const { env, owner, ask, send, fresh } = apiSuite();
const { pepper } = keyringOf(env.TRIBUTARY_SECRET!);
const push = pusher(ask);

const newSecret = async (id: number): Promise<string> => {
  const { status, body } = await send("POST", `/api/clients/${id}/pixel-config/regenerate-secret`);
  expect([status, body]).toMatchObject([200, {}]);
  return body.hmac_secret;
};
/** A change of reference data that takes too long on a busy machine is answered with 503. */
const newClient = (): Promise<Signer> =>
  until("a client is made", 20_000, async () => {
    const { status, body } = await send("POST", "/api/clients", { name: "A shop", slug: fresh("leads") });
    expect([status, body]).toMatchObject([201, {}]);
    return { id: body.id, secret: await newSecret(body.id) };
  });
let shop: Signer;
let other: Signer;
beforeAll(async () => {
  [shop, other] = [await newClient(), await newClient()];
  await until("the clients are in force", 30_000, async () => {
    for (const client of [shop, other]) expect((await push(client, { client_lead_id: "in-force" })).status).toBe(200);
  });
});

const ana = {
  client_lead_id: "lead-1",
  first_name: "Ana",
  last_name: "Quetzalcóatl",
  email: " Ana.Quetzal@Shop.Example",
  phone: "55 1234 5678",
  product: "credit-card",
  stage: "qualified",
  lead_value: 1234.5,
  currency: "mxn",
  event_time: "2026-11-20T10:00:00-06:00",
  branch: "Polanco",
};
const lead = (over: object = {}) => ({ ...ana, client_lead_id: fresh("lead"), ...over });
const stored = async (id: string) =>
  (await owner.query(sql`select * from leads left join lead_people using (client_id, lead_id) where lead_id = ${id}`))
    .rows[0];
const outboxOf = async (id: string) =>
  (
    await owner.query<{ topic: string; record: any }>(sql`select topic, record from outbox
      where client_id = ${shop.id} and record::text like ${`%${id}%`} order by outbox_id`)
  ).rows;

describe("a good push", () => {
  test("is stored once, and a repeat is answered as the same lead and changes nothing", async () => {
    const body = lead();
    const first = await push(shop, body);
    expect([first.status, first.body]).toEqual([
      200,
      { status: "created", lead_id: expect.stringMatching(/^led_[0-9a-f]{32}$/), attributed: false },
    ]);
    const { lead_id } = first.body;
    const before = await stored(lead_id);
    expect((await push(shop, { ...body, email: "b@other.example", stage: "lost" })).body).toEqual({
      ...first.body,
      status: "duplicate",
    });
    expect(await stored(lead_id)).toEqual(before);
    const { rows } = await owner.query(
      sql`select 1 from lead_keys where client_id = ${shop.id} and subject = ${lead_id}`,
    );
    expect(rows).toHaveLength(1);
  });

  test("leaves an event with the hashes that a browser's copy has, and a word for webhooks", async () => {
    const body = lead();
    const { lead_id } = (await push(shop, body)).body;
    await push(shop, body);
    const rows = await outboxOf(lead_id);
    expect(rows.map(({ topic, record }) => [topic, record.type])).toEqual([
      ["events.raw", undefined],
      ["domain.changes", "lead.created"],
      ["domain.changes", "lead.duplicate"],
    ]);
    const identify = identifyFor(pepperOf(pepper, shop.id), 10);
    const { event } = rows[0]!.record;
    const props = JSON.parse(event.props);
    expect(props).toMatchObject({
      email: identify.plain("ana.quetzal@shop.example"),
      phone: identify.plain("+525512345678"),
      product: "credit-card",
      client_lead_id: body.client_lead_id,
    });
    expect(event).toMatchObject({
      t: "lead_submit",
      source: "lead",
      sender_event_id: lead_id,
      client_id: shop.id,
      ts: Date.parse("2026-11-20T16:00:00Z"),
      value_minor: "123450",
      currency: "MXN",
      consent: 255,
      client_side: false,
      ip: null,
      ua: null,
      lead_key: leadKey({ emailHash: props.email, product: "credit-card", clientLeadId: null }),
    });
    const text = JSON.stringify(rows).toLowerCase();
    for (const word of ["ana", "quetzal", "polanco", "12345678"]) expect(text).not.toContain(word);
  });

  test("lies sealed: no row of any table holds a name, an address, a number or a further field of it", async () => {
    await push(shop, lead({ first_name: "Xochitl9", phone: "+52 55 8765 4321", branch: "Coyoacan7" }));
    for (const table of ["leads", "lead_people", "lead_keys", "outbox", "audit", "client_secrets"]) {
      const { rows } = await owner.query<{ text: string }>(`select t::text as text from ${table} t`);
      const text = rows
        .map((row) => row.text)
        .join("\n")
        .toLowerCase();
      const found = ["xochitl9", "ana.quetzal", "87654321", "coyoacan7"].filter((word) => text.includes(word));
      expect(found, table).toEqual([]);
      // Bytes would be stored as hexadecimal.
      expect(text).not.toContain(Buffer.from("Xochitl9").toString("hex"));
    }
  });

  test("of a hundred at once with one id one is created, and it is the one that stands", async () => {
    const id = fresh("race");
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, n) =>
        push(shop, { client_lead_id: id, product: `p${n}`, email: `p${n}@shop.example` }).then((answer) => ({
          n,
          answer,
        })),
      ),
    );
    expect(answers.map(({ answer }) => answer.status)).toEqual(answers.map(() => 200));
    const created = answers.filter(({ answer }) => answer.body.status === "created");
    expect(created).toHaveLength(1);
    const { lead_id } = created[0]!.answer.body;
    expect((await stored(lead_id)).product).toBe(`p${created[0]!.n}`);
    const rows = await outboxOf(lead_id);
    expect(rows.filter(({ topic }) => topic === "events.raw")).toHaveLength(1);
    // The pushes that lost the race left no key of their persons.
    const { rows: keys } = await owner.query(sql`
      select count(*)::int as count from lead_keys k where client_id = ${shop.id} and kind = 'email'
        and not exists (select 1 from lead_people p where p.client_id = k.client_id and p.email = k.subject)`);
    expect(keys).toEqual([{ count: 0 }]);
  });

  test("under another spelling of its id is a repeat, also of one that is stored since before", async () => {
    const id = fresh("spelled");
    const first = await push(shop, { client_lead_id: id });
    for (const spelling of [` ${id}`, `${id.slice(0, 2)}\u200b${id.slice(2)}`])
      expect((await push(shop, { client_lead_id: spelling })).body).toMatchObject({
        ...{ status: "duplicate", lead_id: first.body.lead_id },
      });
    const before = leadIdOf(shop.id, leadSubject(` ${id}`));
    await owner.query(sql`delete from lead_people where lead_id = ${first.body.lead_id}`);
    await owner.query(sql`update leads set lead_id = ${before} where lead_id = ${first.body.lead_id}`);
    expect((await push(shop, { client_lead_id: ` ${id}` })).body).toMatchObject({
      ...{ status: "duplicate", lead_id: before },
    });
  });

  test("counts against what comes with a credential of the client", async () => {
    // What was spent before runs off within milliseconds, so the row shows the newest write alone.
    const spent = async (): Promise<{ readonly bytes: number; readonly at: number }> => {
      const { rows } = await owner.query(
        sql`select bytes, measured_at as at from intake_usage where client_id = ${shop.id} and side = 'signed'`,
      );
      return { bytes: rows[0]?.bytes ?? 0, at: Number(rows[0]?.at ?? 0) };
    };
    const before = await spent();
    await push(shop, lead());
    await until("it is counted", 10_000, async () => {
      const { bytes, at } = await spent();
      expect([bytes > 200, at > before.at]).toEqual([true, true]);
    });
  });

  test("needs no more than an id, and null and an empty text say nothing", async () => {
    const nothing = { first_name: null, email: "", phone: null, product: "", lead_value: null, event_time: null };
    for (const body of [{}, nothing]) {
      const { status, body: answer } = await push(shop, { client_lead_id: fresh("bare"), ...body });
      expect([status, answer.status]).toEqual([200, "created"]);
      expect(await stored(answer.lead_id)).toMatchObject({
        product: null,
        value_minor: null,
        email: null,
        phone: null,
      });
    }
  });

  test("keeps an address or a number that is none as it was sent, and puts no hash of it on the event", async () => {
    const { lead_id } = (await push(shop, lead({ email: "ana@\r\nBcc: x@y.example", phone: "call me" }))).body;
    const { record } = (await outboxOf(lead_id))[0]!;
    const { email, phone, client_lead_id } = JSON.parse(record.event.props);
    expect({ email, phone }).toEqual({ email: undefined, phone: undefined });
    expect(record.event.lead_key).toBe(leadKey({ emailHash: null, product: null, clientLeadId: client_lead_id }));
  });

  test("says that it may be credited when its click id is good, and only then", async () => {
    expect((await push(shop, lead({ svc_click_id: "x".repeat(44) }))).body.attributed).toBe(false);
  });
});

describe("a signature that is not good", () => {
  const body = JSON.stringify(ana);
  const wrong = (): readonly (readonly [what: string, signature: string | null, id?: number, sent?: string])[] => {
    const good = signatureOf(shop.secret, body);
    return [
      ["none", null],
      ["63 digits", good.slice(1)],
      ["65 digits", `${good}0`],
      ["no hex", `${good.slice(1)}g`],
      ["with a prefix", `sha256=${good}`],
      ["two of them", `${good}, ${good}`],
      ["of another client's secret", signatureOf(other.secret, body)],
      ["of re-serialised JSON", signatureOf(shop.secret, JSON.stringify(ana, null, 1))],
      ["of a body that differs by one byte", good, shop.id, body.replace("1234.5", "1234.6")],
      ["of another client's push, replayed at this one", good, other.id],
      ["of an unknown client", good, 2_000_000_000],
    ];
  };
  test("has one answer, byte for byte, whatever is wrong with it", async () => {
    const bare = (await send("POST", "/api/clients", { name: "No secret", slug: fresh("bare") })).body.id;
    const cases = [...wrong(), ["of a client without a secret", signatureOf("", body), bare] as const];
    const answers = await Promise.all(
      cases.map(async ([what, signature, id = shop.id, sent = body]) => {
        const headers = { "x-request-id": "same" };
        const { status, text, headers: got } = await push({ ...shop, id }, sent, { signature, headers });
        return [what, status, text, [...got.keys()].join(), got.get("www-authenticate")];
      }),
    );
    for (const [what, ...answer] of answers) expect([what, ...answer]).toEqual([what, ...answers[0]!.slice(1)]);
    expect(answers[0]![1]).toBe(401);
    expect(JSON.parse(answers[0]![2] as string)).toMatchObject({ code: "unauthorized", status: 401 });
  });

  test("is found before anything of the body or its type is looked at", async () => {
    const headers = { "content-type": "text/html", "content-encoding": "gzip" };
    expect((await push(shop, "{{{", { signature: "0".repeat(64), headers })).status).toBe(401);
  });

  test("takes as long for a client that there is as for one that there is not", async () => {
    const times: { known: number[]; unknown: number[] } = { known: [], unknown: [] };
    for (let n = 0; n < 80; n += 1)
      for (const [kind, id] of [["known", shop.id] as const, ["unknown", 2_000_000_000] as const]) {
        const began = performance.now();
        await push({ ...shop, id }, body, { signature: "0".repeat(64) });
        times[kind].push(performance.now() - began);
      }
    const median = (all: readonly number[]): number => all.toSorted((a, b) => a - b)[all.length >> 1]!;
    const [known, unknown] = [median(times.known), median(times.unknown)];
    expect(Math.abs(known - unknown)).toBeLessThan(Math.max(known, unknown) / 2);
  });

  test("in capital letters is a good one", async () =>
    expect((await push(shop, body, { signature: signatureOf(shop.secret, body).toUpperCase() })).status).toBe(200));
});

describe("a secret that was replaced", () => {
  let twin: RunningApi;
  beforeAll(async () => {
    twin = await startApi(env);
  });
  afterAll(() => twin.close());

  test("is good for nothing at once where it was replaced, and within a second in another process", async () => {
    let client = await newClient();
    const elsewhere = pusher(asker(() => twin.url));
    const body = { client_lead_id: "l" };
    await until("both know the client", 30_000, async () => {
      for (const at of [push, elsewhere]) expect((await at(client, body)).status).toBe(200);
    });
    await expectWithin(1_000, async () => {
      const replaced = { ...client, secret: await newSecret(client.id) };
      const ms = await msOf(async () => {
        expect([(await push(client, body)).status, (await push(replaced, body)).status]).toEqual([401, 200]);
        await until("the other process knows it", 30_000, async () => {
          expect((await elsewhere(client, body)).status).toBe(401);
          expect((await elsewhere(replaced, body)).status).toBe(200);
        });
      });
      client = replaced;
      return ms;
    });
  });
});

describe("a request that cannot be taken", () => {
  test("names its client once, as an id", async () => {
    for (const query of ["", "client_id=", `client_id=${shop.id}&client_id=${shop.id}`, "client_id=x", "client_id=0"]) {
      const { status, body } = await push(shop, ana, { query });
      expect([query, status, body.code, body.errors?.[0].pointer]).toEqual([
        query,
        400,
        "validation_failed",
        "/client_id",
      ]);
    }
  });

  test("is 415 when it is gzipped or of another type, though signed, and 413 when it is huge", async () => {
    const zipped = gzipSync(JSON.stringify(lead()));
    expect((await push(shop, zipped, { headers: { "content-encoding": "gzip" } })).status).toBe(415);
    expect((await push(shop, lead(), { headers: { "content-type": "text/plain" } })).status).toBe(415);
    const latin = { "content-type": "application/json; charset=latin1" };
    expect((await push(shop, lead(), { headers: latin })).status).toBe(415);
    expect((await push(shop, lead({ note: "x".repeat(300_000) }))).status).toBe(413);
  });

  test("is 400 and leaves nothing when two could read it differently, or no store takes it", async () => {
    const bodies: readonly (string | Uint8Array)[] = [
      ...["", "null", "[]", "1", '"x"', '{"client_lead_id":', '{"client_lead_id":"a","client_lead_id":"b"}'],
      ...['{"client_lead_id":"a","x":{"y":1,"y":2}}', '{"client_lead_id":"a","__proto__":{"x":1}}'],
      ...[String.raw`{"client_lead_id":"a\u0000"}`, String.raw`{"client_lead_id":"a","x":"\ud800"}`],
      `{"client_lead_id":"a","x":${"[".repeat(5_000)}${"]".repeat(5_000)}}`,
      JSON.stringify({
        client_lead_id: "a",
        ...Object.fromEntries(Array.from({ length: 1_001 }, (_, n) => [`k${n}`, n])),
      }),
      Buffer.from([...Buffer.from('{"client_lead_id":"'), 0xff, 0xfe, ...Buffer.from('"}')]),
      Buffer.from('\ufeff{"client_lead_id":"a"}', "utf16le"),
    ];
    const count = async () => (await owner.query(sql`select count(*) from leads where client_id = ${shop.id}`)).rows;
    const before = await count();
    for (const body of bodies)
      expect([String(body).slice(0, 60), (await push(shop, body)).status]).toEqual([String(body).slice(0, 60), 400]);
    expect(await count()).toEqual(before);
  });

  test.each([
    ["/client_lead_id", { client_lead_id: undefined }],
    ["/client_lead_id", { client_lead_id: "" }],
    ["/client_lead_id", { client_lead_id: 17 }],
    ["/client_lead_id", { client_lead_id: "x".repeat(201) }],
    ["/email", { email: `${"x".repeat(250)}@shop.example` }],
    ["/phone", { phone: 5512345678 }],
    ["/lead_value", { lead_value: -1 }],
    ["/lead_value", { lead_value: "12,5" }],
    ["/lead_value", { lead_value: "1.234" }],
    ["/lead_value", { lead_value: true }],
    ["/currency", { currency: "XQZ" }],
    ["/event_time", { event_time: "2026-11-20T10:00:00" }],
    ["/event_time", { event_time: "yesterday" }],
    ["/event_time", { event_time: "2019-11-20T10:00:00Z" }],
    ["/event_time", { event_time: "2090-11-20T10:00:00Z" }],
  ])("is 400 at %s for %j", async (pointer, over) => {
    const { status, body } = await push(shop, lead(over));
    expect([status, body.errors?.map((error: { pointer: string }) => error.pointer)]).toEqual([400, [pointer]]);
  });

  test("takes one of the client's 100,000 places a minute if it is signed, and is 429 when all are taken", async () => {
    const client = await newClient();
    await until("the client is in force", 30_000, async () =>
      expect((await push(client, { client_lead_id: "a" })).status).toBe(200),
    );
    const redis = new Redis(env.REDIS_URL!);
    const key = `rate:api:leads:${client.id}`;
    const before = await redis.llen(key);
    await push(client, { client_lead_id: "b" }, { signature: "0".repeat(64) });
    expect(await redis.llen(key)).toBe(before);
    const now = String(Date.now() * 1_000);
    for (let n = 0; n < 10; n += 1) await redis.lpush(key, ...Array.from({ length: 10_000 }, () => now));
    const full = await push(client, { client_lead_id: "c" });
    expect([full.status, full.headers.get("ratelimit-policy")]).toEqual([429, '"default";q=100000;w=60']);
    expect(Number(full.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    await redis.del(key);
    redis.disconnect();
  });
});
