// Leads as users read them: who sees which, what is audited, and what an erasure leaves.
import { beforeAll, describe, expect, test } from "vitest";
import { identifyFor, pepperOf } from "../../../domain/device-id.ts";
import { type SubjectKind, subjectsOf } from "../../../domain/personal/suppression.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { keyringOf } from "../../../infra/runtime/keyring.ts";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { resealClientSecrets } from "../../../modules/access/secrets/client-secrets.ts";
import { type LeadContent, nameOf, subjectsIn, unsealLead } from "../../../modules/intake/leads/lead-cipher.ts";
import { openLeadKeys } from "../../../modules/intake/leads/lead-keys.ts";
import { purgeLeads } from "../../../modules/intake/leads/purge-leads.ts";
import { clientRetentions } from "../../../modules/privacy/retention.ts";
import { suppress } from "../../../modules/privacy/suppressions.ts";
import { apiSuite } from "../../support/api-suite.ts";
import { pusher, type Signer } from "../../support/push.ts";

const { env, demo, owner, pool, ask, send, read, fresh } = apiSuite();
const keyring = keyringOf(env.TRIBUTARY_SECRET!);
const push = pusher(ask);
/** The first shop of the demonstration, which its manager and its own user see. */
let shop: Signer;
let own: Signer;
beforeAll(async () => {
  const signer = async (id: number): Promise<Signer> => {
    const { body } = await send("POST", `/api/clients/${id}/pixel-config/regenerate-secret`);
    return { id, secret: body.hmac_secret };
  };
  shop = await signer(demo.clients[0].id);
  own = await signer((await send("POST", "/api/clients", { name: "A shop", slug: fresh("leads") })).body.id);
  await until("the clients and their secrets are in force", 30_000, async () => {
    for (const client of [own, shop])
      expect((await push(client, { client_lead_id: fresh("in-force") })).status).toBe(200);
  });
});
const pathOf = ({ id }: Signer, query = ""): string => `/api/clients/${id}/lead-submissions?${query}`;
const pushed = async (client: Signer, lead: object): Promise<string> => {
  const { status, body } = await push(client, lead);
  expect(status).toBe(200);
  return body.lead_id;
};
const leadAt = async (client: Signer, lead_id: string, role = "admin") =>
  (await read(pathOf(client, "limit=100"), role)).body.data.find((one: { lead_id: string }) => one.lead_id === lead_id);

describe("the list", () => {
  test("shows staff the lead and whom it is credited to, and the client's user the lead alone", async () => {
    const sent = {
      ...{ client_lead_id: fresh("l"), first_name: "Ana", last_name: "Q", email: "Ana@Shop.example", phone: "55 1" },
      ...{ product: "loan", stage: "new", lead_value: "12.5", currency: "USD", event_time: "2026-11-20T10:00:00Z" },
    };
    const lead_id = await pushed(shop, { ...sent, branch: { city: "CDMX" } });
    const row = {
      ...{
        ...sent,
        lead_id,
        lead_value: "12.50",
        event_time: "2026-11-20T10:00:00.000Z",
        extra: { branch: { city: "CDMX" } },
      },
      ...{ received_at: expect.any(String), day: expect.any(String), erased: false },
    };
    const credit = { attributed: false, partner_id: null, campaign_id: null };
    expect(await leadAt(shop, lead_id, "client")).toEqual(row);
    for (const role of ["admin", "manager"]) expect(await leadAt(shop, lead_id, role)).toEqual({ ...row, ...credit });
    for (const role of ["partner", "viewer"]) expect((await read(pathOf(shop), role)).status).toBe(403);
  });

  test("is of the caller's clients alone; any other is answered as an unknown one", async () => {
    const unknown = (await read(pathOf({ ...own, id: 2_000_000_000 }), "client")).body;
    for (const role of ["client", "manager"]) {
      const { status, body } = await read(pathOf(own), role);
      expect([status, body.detail, body.code]).toEqual([404, unknown.detail, unknown.code]);
    }
  });

  test("finds by product, stage, day, credit and the whole e-mail, however it is written", async () => {
    const email = `${fresh("x")}@shop.example`;
    const lead_id = await pushed(own, { client_lead_id: fresh("l"), email, product: "mortgage", stage: "won" });
    const found = async (query: string) =>
      (await read(pathOf(own, query))).body.data.map((one: { lead_id: string }) => one.lead_id);
    const today = new Date(Date.now() - 6 * 3_600_000).toISOString().slice(0, 10);
    for (const query of [
      `email=${email.toUpperCase()}`,
      "product=mortgage",
      "stage=won&attributed=false",
      `product=mortgage&from=${today}&to=${today}`,
    ])
      expect([query, await found(query)]).toEqual([query, [lead_id]]);
    for (const query of [
      "email=shop.example",
      "product=mort",
      "product=mortgage&attributed=true",
      "product=mortgage&from=2025-01-01&to=2025-01-02",
    ])
      expect([query, await found(query)]).toEqual([query, []]);
    expect((await read(pathOf(shop, "attributed=true"), "client")).status).toBe(400);
    expect((await read(pathOf(own, "attributed=1"))).status).toBe(400);
  });

  test("says of a credited lead to whom", async () => {
    const lead_id = await pushed(own, { client_lead_id: fresh("l") });
    await owner.query(sql`
      insert into conversions (client_id, conversion_id, version, partner_id, event_id, cause_event_id, event_type,
        customer, occurred_at, value_minor, refunded_minor, currency, status, method, content_hash)
      select client_id, ${`cnv_${lead_id}`}, 1, 7, event_id, event_id, 'lead_submit', 'x', received_at, 0, 0, 'MXN',
        'credited', 'click', '' from leads where lead_id = ${lead_id}`);
    expect(await leadAt(own, lead_id)).toMatchObject({ attributed: true, partner_id: 7, campaign_id: null });
    const { client_lead_id } = await leadAt(own, lead_id);
    expect((await push(own, { client_lead_id })).body).toEqual({ status: "duplicate", lead_id, attributed: true });
  });

  test("goes by pages in either order, each lead once", async () => {
    for (let n = 0; n < 5; n += 1) await pushed(own, { client_lead_id: fresh("page"), product: "paged" });
    for (const sort of ["received_at", "-received_at"]) {
      const seen: string[] = [];
      for (let cursor: string | null = ""; cursor !== null; ) {
        const page: any = (
          await read(pathOf(own, `product=paged&limit=2&sort=${sort}${cursor && `&cursor=${cursor}`}`))
        ).body;
        seen.push(...page.data.map((one: { lead_id: string }) => one.lead_id));
        cursor = page.next_cursor;
      }
      expect([seen.length, new Set(seen).size]).toEqual([5, 5]);
    }
  });

  test("as a file holds every lead, formulas made harmless, and no credit for the client's user", async () => {
    await pushed(shop, { client_lead_id: fresh("csv"), first_name: "=cmd|' /C calc'!A0", product: "csv-of-leads" });
    const file = async (role: string) => (await read(pathOf(shop, "product=csv-of-leads&format=csv"), role)).text;
    const [head, line] = (await file("admin")).split("\r\n");
    expect(head).toBe(
      "lead_id,client_lead_id,day,received_at,event_time,first_name,last_name,email,phone,product,stage,lead_value," +
        "currency,attributed,partner_id,campaign_id",
    );
    expect(line).toContain("'=cmd|");
    expect((await file("client")).split("\r\n")[0]).not.toMatch(/attributed|partner|campaign/);
  });

  test("shows the client's users masked values where the client says so, and staff what it was", async () => {
    const product = fresh("masked");
    const person = { first_name: "Ana", last_name: "Q", email: "ana@shop.example", phone: "5512345678" };
    const lead = { client_lead_id: fresh("l"), ...person, product };
    const lead_id = await pushed(shop, { ...lead, note: "calls from 5599999999" });
    const none = await pushed(shop, { client_lead_id: fresh("l"), product });
    const say = (leads_in_plain: boolean, role = "admin") =>
      send("PATCH", `/api/clients/${shop.id}`, { leads_in_plain }, role);
    const file = async (role: string) => (await read(pathOf(shop, `product=${product}&format=csv`), role)).text;
    expect((await say(false, "manager")).body.leads_in_plain).toBe(false);
    try {
      const hidden = { first_name: "***", last_name: "***", email: "a***@shop.example", phone: "***" };
      expect(await leadAt(shop, lead_id, "client")).toMatchObject({ ...lead, ...hidden, extra: { note: "***" } });
      expect(await leadAt(shop, none, "client")).toMatchObject({ first_name: null, email: null, phone: null });
      expect(await file("client")).toContain(`,***,***,a***@shop.example,***,${product},`);
      expect(await file("client")).not.toMatch(/Ana|ana@|5512345678/);
      // An address that finds a lead says whose it is.
      const refused = await read(pathOf(shop, "email=ana@shop.example"), "client");
      expect([refused.status, refused.body.errors[0].pointer]).toEqual([400, "/email"]);
      for (const role of ["admin", "manager"]) {
        expect(await leadAt(shop, lead_id, role)).toMatchObject({ ...lead, extra: { note: "calls from 5599999999" } });
        expect(await file(role)).toContain("ana@shop.example");
      }
    } finally {
      expect((await say(true)).status).toBe(200);
    }
    expect(await leadAt(shop, lead_id, "client")).toMatchObject(lead);
    expect((await say(false, "client")).status).toBe(403);
  });

  test("is written down each time, with the filters but no address, and how many were sent", async () => {
    const id = fresh("l");
    await pushed(own, { client_lead_id: id, product: id });
    await read(pathOf(own, `product=${id}`));
    await read(pathOf(own, `product=${id}&format=csv&email=q@x.mx`), "admin");
    const { rows } = await owner.query(sql`select actor, action, entity, after from audit
      where client_id = ${own.id} and after->>'product' = ${id} order by audit_id`);
    const entry = { actor: "admin@demo.tributary.test", entity: `client:${own.id}` };
    expect(rows).toEqual([
      { ...entry, action: "leads.read", after: { product: id, rows: 1 } },
      { ...entry, action: "leads.exported", after: { product: id, email: "redacted", rows: 0 } },
    ]);
  });
});

describe("an erasure", () => {
  const identify = () => identifyFor(pepperOf(keyring.pepper, own.id), 10);
  const erase = (kind: SubjectKind, value: string) =>
    suppress(
      pool,
      own.id,
      subjectsOf(kind, value, identify()).map((subject) => ({ kind, subject })),
      { since: Date.now(), reason: "asked to", actor: "test" },
    );
  const nothing = { first_name: null, last_name: null, email: null, phone: null, extra: null, erased: true };
  const person = (over: object = {}) => ({ client_lead_id: fresh("e"), first_name: "Eva", product: "kept", ...over });
  /** The row that can decrypt a lead, as a backup holds it. */
  const backup = async (lead_id: string) => {
    const { rows } = await owner.query(sql`select * from lead_people where lead_id = ${lead_id}`);
    return rows[0];
  };
  const opens = (row: any): Promise<LeadContent | undefined> =>
    transaction(pool, [own.id], async (tx) => {
      const keys = await openLeadKeys(keyring).find(tx, own.id, subjectsIn(row));
      const some = subjectsIn(row).flatMap((subject) => keys.get(nameOf(subject)) ?? []);
      try {
        return unsealLead(some, own.id, row.lead_id, row.sealed);
      } catch {
        return undefined;
      }
    });

  test.each([
    ["email", "eva@erased.example", " EVA@erased.example"],
    ["phone", "5599887766", "+52 1 55 9988 7766"],
  ] as const)(
    "by %s makes its leads unreadable, in a backup too, and leaves those of others",
    async (kind, value, asked) => {
      const mine = [await pushed(own, person({ [kind]: value })), await pushed(own, person({ [kind]: value }))];
      const others = await pushed(own, person({ [kind]: kind === "email" ? "ada@erased.example" : "5599887767" }));
      const [kept, keptOfOthers] = [await backup(mine[0]!), await backup(others)];
      expect((await opens(kept))?.first_name).toBe("Eva");
      await erase(kind, asked);
      for (const id of mine) expect(await leadAt(own, id)).toMatchObject({ ...nothing, product: "kept" });
      expect(await leadAt(own, others)).toMatchObject({ first_name: "Eva", erased: false });
      expect([await opens(kept), (await opens(keptOfOthers))?.first_name]).toEqual([undefined, "Eva"]);
      const { rows } = await owner.query(
        sql`select 1 from lead_keys where client_id = ${own.id} and subject = ${kept[kind]}`,
      );
      expect(rows).toEqual([]);
      // A later lead is new, and a repeat of the erased one brings nothing back.
      expect(await leadAt(own, await pushed(own, person({ [kind]: value })))).toMatchObject({ first_name: "Eva" });
    },
  );

  test("by the client's own id takes that lead alone, its id too, and a repeat is a duplicate", async () => {
    const [email, id] = [`${fresh("y")}@x.mx`, fresh("gone")];
    const gone = await pushed(own, person({ client_lead_id: id, email }));
    const stays = await pushed(own, person({ email }));
    await erase("client_lead_id", id);
    expect(await leadAt(own, gone)).toMatchObject({ ...nothing, client_lead_id: null });
    expect(await leadAt(own, stays)).toMatchObject({ first_name: "Eva", email });
    expect((await push(own, person({ client_lead_id: id, email }))).body.status).toBe("duplicate");
    expect(await leadAt(own, gone)).toMatchObject(nothing);
  });

  test("that runs beside pushes of the same person leaves each lead whole or gone", async () => {
    const email = `${fresh("z")}@x.mx`;
    const pushes = Array.from({ length: 40 }, async (_, n) => pushed(own, person({ email, stage: `s${n}` })));
    const erasures = Array.from({ length: 5 }, () => erase("email", email));
    const ids = await Promise.all(pushes);
    await Promise.all(erasures);
    for (const id of ids) {
      const row = await backup(id);
      if (row !== undefined) expect((await opens(row))?.first_name).toBe("Eva");
    }
    await erase("email", email);
    expect(await Promise.all(ids.map(backup))).toEqual(ids.map(() => undefined));
  });

  test("is not what another secret of the installation does: leads stay readable", async () => {
    const lead_id = await pushed(own, person());
    const row = await backup(lead_id);
    const later = keyringOf(`kQ8vX2mN7rT4wY9zB3cF6hJ1lP5sD0gA,${env.TRIBUTARY_SECRET}`);
    await resealClientSecrets(pool, later);
    try {
      const opened = await transaction(pool, [own.id], async (tx) => {
        const keys = await openLeadKeys(later).find(tx, own.id, subjectsIn(row));
        const some = subjectsIn(row).map((one) => keys.get(nameOf(one))!);
        return unsealLead(some, own.id, lead_id, row.sealed);
      });
      expect(opened.first_name).toBe("Eva");
    } finally {
      // The running API only knows the former secret.
      await resealClientSecrets(pool, { ...later, newest: keyring.newest });
    }
    expect(await leadAt(own, lead_id)).toMatchObject({ first_name: "Eva" });
  });
});

describe("a lead that is older than its client keeps events", () => {
  const nothing = { client_lead_id: null, first_name: null, email: null, phone: null, extra: null, erased: true };
  const monthsAgo = (months: number): Date => {
    const date = new Date();
    date.setUTCMonth(date.getUTCMonth() - months, 15);
    return date;
  };
  const received = (lead_id: string, months: number) =>
    owner.query(sql`update leads set received_at = ${monthsAgo(months)} where lead_id = ${lead_id}`);
  const rowsOfHalfAYear = async (client: Signer) => {
    const from = new Date(Date.now() - 180 * 86_400_000).toISOString().slice(0, 10);
    const { status, text, body } = await read(pathOf(client, `from=${from}&limit=100`));
    expect(status, text).toBe(200);
    return body.data as Record<string, unknown>[];
  };
  const purge = async (isClosing = () => false) => {
    const clients = await clientRetentions(pool);
    return purgeLeads(
      pool,
      clients.filter(({ clientId }) => clientId === short.id || clientId === own.id),
      { now: Date.now(), isClosing, atOnce: 2 },
    );
  };
  let short: Signer;
  beforeAll(async () => {
    const { body } = await send("POST", "/api/clients", { name: "Short", slug: fresh("leads"), retention_months: 3 });
    const made = await send("POST", `/api/clients/${body.id}/pixel-config/regenerate-secret`);
    short = { id: body.id, secret: made.body.hmac_secret };
    await until("the client is in force", 30_000, async () =>
      expect((await push(short, { client_lead_id: "in-force" })).status).toBe(200),
    );
  });

  test("keeps what is no one's, loses the rest with its keys, and is a duplicate for good", async () => {
    const [both, gone] = [`${fresh("b")}@old.example`, `${fresh("g")}@old.example`];
    const ids = [1, 2, 3, 4, 5].map((n) => ({ client_lead_id: fresh(`old-${n}`) }));
    const old = await Promise.all(
      ids.map((id) => pushed(short, { ...id, email: gone, first_name: "Eva", stage: "won" })),
    );
    const shared = await pushed(short, { client_lead_id: fresh("old"), email: both });
    const young = await pushed(short, { client_lead_id: fresh("young"), email: both, first_name: "Ada" });
    const ofOther = await pushed(own, { client_lead_id: fresh("young"), email: gone, first_name: "Ida" });
    for (const lead_id of [...old, shared]) await received(lead_id, 4);
    for (const lead_id of [young, ofOther]) await received(lead_id, lead_id === young ? 2 : 23);

    expect(await purge(() => true)).toBe(0);
    expect([await purge(), await purge()]).toEqual([6, 0]);
    const rows = await rowsOfHalfAYear(short);
    for (const lead_id of old)
      expect(rows.find((row) => row.lead_id === lead_id)).toMatchObject({ ...nothing, stage: "won" });
    expect(rows.find((row) => row.lead_id === young)).toMatchObject({ first_name: "Ada", email: both, erased: false });
    const { rowCount } = await owner.query(sql`select 1 from lead_people where lead_id = ${ofOther}`);
    expect(rowCount).toBe(1);

    const identify = identifyFor(pepperOf(keyring.pepper, short.id), 10);
    const keysOf = async (subject: string) =>
      (await owner.query(sql`select 1 from lead_keys where client_id = ${short.id} and subject = ${subject}`)).rowCount;
    expect([await keysOf(identify.plain(gone)), await keysOf(old[0]!), await keysOf(identify.plain(both))]).toEqual([
      0, 0, 1,
    ]);
    expect((await push(short, { ...ids[0], email: gone })).body).toMatchObject({
      status: "duplicate",
      lead_id: old[0],
    });
    expect((await rowsOfHalfAYear(short)).find((row) => row.lead_id === old[0])).toMatchObject(nothing);
  });
});
