// Makes a client with everything that it needs in one request, over HTTP on a real database.
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { dayOf, monthsAfter } from "../../../domain/calendar.ts";
import { readMail } from "../../../infra/mail/read-mail.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { keyringOf } from "../../../infra/runtime/keyring.ts";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { clientSecretOf } from "../../../modules/access/secrets/client-secrets.ts";
import { openTokens } from "../../../modules/access/tokens/live-tokens.ts";
import { apiSuite } from "../../support/api-suite.ts";

const { env, demo, pool, owner, tokens, ask, running } = apiSuite();

let made = 0;
const unique = (): string => {
  made += 1;
  return `onb-${Date.now().toString(36)}-${made}`;
};
const address = (): string => `${unique()}@onboard.example`;
const onboard = (body: unknown, role = "admin", headers: Readonly<Record<string, string>> = {}) =>
  ask("/api/clients/onboard", { method: "POST", token: tokens[role], body, headers });
const read = async (path: string) => (await ask(path, { token: tokens.admin })).body;
const send = (method: string, path: string, body?: unknown) => ask(path, { method, token: tokens.admin, body });
const newPartner = async (): Promise<number> =>
  (await send("POST", "/api/partners", { name: "Known", email: address(), client_ids: [demo.clients[0].id] })).body.id;

const terms = { event_type: "purchase", type: "percent", rate: "10", effective_from: "2099-01-01" };
const page = "https://www.shop.example/";
/** A body with every kind of record, and a partner that existed before. */
const whole = (known: number) => ({
  client: { name: "Casa Norte", slug: unique(), attribution: { click_window_days: 14 } },
  segments: [
    { code: "HOME", name: "Home" },
    { code: "GARDEN", name: "Garden" },
  ],
  partners: [
    { key: "radio", name: "Radio", email: address(), payout: { min_amount: "50" } },
    { key: "blog", name: "Blog", email: address(), invite: true },
    { id: known },
  ],
  commissions: [
    { partner: "radio", ...terms },
    { partner: known, ...terms, segment: "HOME", rate: "12.5" },
  ],
  campaigns: [
    {
      ...{ name: "Summer", destination_url: page, partners: ["radio", known], launch: true },
      ...{ starts_on: "2099-01-01", patterns: [{ kind: "coupon", value: "RADIO10", partner: "radio" }] },
    },
    { name: "Winter", destination_url: page, partners: ["blog"] },
  ],
  pixel_config: { allowed_domains: ["*.shop.example"], jurisdiction: "EU", consent_default: 0, auto_signals: false },
});
/** The number of records of each kind. */
const counts = async () =>
  (
    await owner.query(`select (select count(*) from clients)::int as clients,
      (select count(*) from segments)::int as segments,
      (select count(*) from partners)::int as partners, (select count(*) from links)::int as links,
      (select count(*) from segment_commissions)::int as contracts, (select count(*) from campaigns)::int as campaigns,
      (select count(*) from pixel_configs)::int as pixels, (select count(*) from client_secrets)::int as secrets,
      (select count(*) from tokens)::int as tokens, (select count(*) from invitations)::int as invitations,
      (select count(*) from mails)::int as mails, (select count(*) from audit)::int as audit`)
  ).rows[0];

describe("an onboarding", () => {
  test("makes all of it, and shows the secrets once", async () => {
    const known = await newPartner();
    const body = whole(known);
    const { status, body: got, headers, text } = await onboard(body);
    expect(status, text).toBe(201);
    expect(headers.get("location")).toBe(`/api/clients/${got.client.id}`);
    const id = got.client.id as number;
    const [radio, blog] = got.partners.map((one: { id: number }) => one.id);
    expect(got).toEqual({
      client: await read(`/api/clients/${id}`),
      segments: [
        { code: "GARDEN", name: "Garden" },
        { code: "HOME", name: "Home" },
      ],
      partners: [
        { key: "radio", id: radio },
        { key: "blog", id: blog },
        { key: null, id: known },
      ],
      commissions: [{ id: expect.any(Number) }, { id: expect.any(Number) }],
      campaigns: [
        {
          ...{ id: expect.any(Number), name: "Summer", status: "active" },
          links: [radio, known].map((partner_id) => ({
            ...{ partner_id, code: expect.stringMatching(/^[\w-]{12}$/), url: expect.stringMatching(/^\/c\//) },
            status: "active",
          })),
        },
        {
          id: expect.any(Number),
          name: "Winter",
          status: "draft",
          links: [expect.objectContaining({ partner_id: blog })],
        },
      ],
      pixel: { snippet: expect.stringContaining(`svc("init", {client_id: ${id}});`) },
      ingest_token: expect.stringMatching(/^trb_ingest_/),
      hmac_secret: expect.stringMatching(/^[0-9a-f]{64}$/),
      warnings: [],
    });
    expect(got.client).toMatchObject({ name: "Casa Norte", attribution: { click_window_days: 14 }, version: 1 });
    expect(await read(`/api/campaigns/${got.campaigns[0].id}`)).toMatchObject({
      ...{ status: "active", starts_on: "2099-01-01", client_id: id },
      patterns: [{ kind: "coupon", value: "RADIO10", partner_id: radio }],
    });
    expect(await read(`/api/partners/${blog}`)).toMatchObject({ status: "invited", client_ids: [id] });
    expect((await read(`/api/partners/${known}`)).client_ids).toContain(id);
    expect((await read(`/api/partners/${known}`)).client_ids).toContain(demo.clients[0].id);
    expect((await read(`/api/partners/${known}/segment-commissions?client_id=${id}`)).data).toMatchObject([
      { id: got.commissions[1].id, segment: "HOME", rate: "12.5" },
    ]);
    expect(await read(`/api/clients/${id}/pipeline/pixel-config`)).toMatchObject({
      ...{ allowed_domains: ["*.shop.example"], jurisdiction: "EU", consent_default: 0, auto_signals: false },
      tracked_events: ["page_view", "purchase", "lead_submit"],
    });
  });

  test("gives a token that opens the client, and the secret that signs for it", async () => {
    const { body: got } = await onboard({ client: { name: "A shop", slug: unique() } });
    const live = openTokens(pool, { pollMs: 100 });
    try {
      await until("the token is known", 30_000, async () => {
        if (live.find(got.ingest_token) === undefined) throw new Error("not yet");
      });
      expect(live.find(got.ingest_token)).toMatchObject({ kind: "ingest", client_id: got.client.id });
    } finally {
      await live.close();
    }
    expect(await clientSecretOf(pool, got.client.id, keyringOf(env.TRIBUTARY_SECRET!))).toBe(got.hmac_secret);
    expect(got.segments.map(({ code }: { code: string }) => code)).toEqual(["DA", "HA", "IT", "MX", "NW", "VD"]);
    const { rows } = await owner.query(sql`select after from audit where client_id = ${got.client.id}`);
    for (const secret of [got.ingest_token, got.hmac_secret]) expect(JSON.stringify(rows)).not.toContain(secret);
  });

  test("sent again under its key does nothing more, and shows no secret", async () => {
    const body = whole(await newPartner());
    const key = { "idempotency-key": unique() };
    const first = await onboard(body, "admin", key);
    const before = await counts();
    const again = await onboard(body, "admin", key);
    expect(again.status).toBe(201);
    expect(again.body).toEqual({ ...first.body, ingest_token: null, hmac_secret: null, secrets: "shown_once" });
    expect(await counts()).toEqual(before);
    const other = await onboard({ ...body, segments: [] }, "admin", key);
    expect([other.status, other.body.code]).toEqual([409, "idempotency_conflict"]);
    const { rows } = await owner.query(sql`select answer from idempotency_keys where key = ${key["idempotency-key"]}`);
    expect(rows).toHaveLength(1);
    for (const secret of [first.body.ingest_token, first.body.hmac_secret])
      expect(JSON.stringify(rows)).not.toContain(secret);
  });

  test("of one slug at once is done by one", async () => {
    const slug = unique();
    const before = await counts();
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, n) =>
        onboard({
          client: { name: `Shop ${n}`, slug },
          partners: [{ key: "radio", name: "Radio", email: address(), invite: true }],
        }),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([201, ...Array(5).fill(409)]);
    for (const { status, body } of answers)
      if (status === 409) expect([body.code, body.errors[0].pointer]).toEqual(["slug_taken", "/client/slug"]);
    const after = await counts();
    for (const what of ["clients", "partners", "tokens", "secrets", "invitations"])
      expect(after[what] - before[what], what).toBe(1);
  });

  test("is announced, audited and mailed about: an invitation with its link, a launch with its own", async () => {
    const known = await newPartner();
    const body = whole(known);
    const { body: got } = await onboard(body);
    const [radio, blog] = body.partners as unknown as readonly { email: string }[];
    const mailsTo = (email: string) =>
      running()
        .mails()
        .map(readMail)
        .filter(({ to }) => to === email);
    await until("both mails", 20_000, async () => {
      if (mailsTo(radio!.email).length + mailsTo(blog!.email).length < 2) throw new Error("not yet");
    });
    expect(mailsTo(blog!.email)).toMatchObject([{ subject: "Invitación para trabajar con Casa Norte" }]);
    expect(mailsTo(blog!.email)[0]!.text).toMatch(/trb_invitation_[\w-]{43}/);
    const launch = mailsTo(radio!.email)[0]!;
    expect(launch.subject).toBe("Summer: su enlace");
    expect(launch.text).toContain(got.campaigns[0].links[0].url);
    const id = got.client.id as number;
    const { rows } = await owner.query(sql`select action, entity from audit where client_id = ${id} order by audit_id`);
    const partnerIds = got.partners.map((one: { id: number }) => one.id);
    expect(rows.map(({ action, entity }: any) => `${action} ${entity}`)).toEqual([
      ...[`client.onboarded client:${id}`, `partner.created partner:${partnerIds[0]}`],
      ...[`partner.created partner:${partnerIds[1]}`, `partner.updated partner:${known}`],
      ...got.commissions.map((one: { id: number }) => `contract.created contract:${one.id}`),
      ...[`campaign.launched campaign:${got.campaigns[0].id}`, `campaign.created campaign:${got.campaigns[1].id}`],
      ...[expect.stringMatching(/^token.created token:\d+$/), expect.stringMatching(/^invitation.created /)],
    ]);
    const { rows: announced } = await owner.query(
      sql`select record ->> 'type' as type, record ->> 'entity' as entity from outbox
        where topic = 'domain.changes' and client_id = ${id}`,
    );
    expect(announced).toContainEqual({ type: "campaign.launched", entity: `campaign:${got.campaigns[0].id}` });
    expect(announced).toContainEqual({ type: "partner.invited", entity: `partner:${partnerIds[1]}` });
    expect(announced).toContainEqual({ type: "client.created", entity: `client:${id}` });
    expect(announced.filter(({ type }) => type === "campaign.launched")).toHaveLength(1);
  });

  test("warns of a coupon that credits none of several partners", async () => {
    const body = whole(await newPartner());
    const [summer] = body.campaigns as any[];
    summer.patterns = [{ kind: "coupon", value: "ALL10" }];
    expect((await onboard(body)).body.warnings).toMatchObject([
      { code: "coupon_without_partner", pointer: "/campaigns/0/patterns/0" },
    ]);
  });
});

describe("a fault", () => {
  const today = dayOf(Date.now());
  type Body = ReturnType<typeof whole> & Record<string, any>;
  /** Requests that save nothing, each with its status, code and place. */
  const refused = async (
    change: (body: Body) => void,
    pointer: string,
    code: string | undefined = undefined,
    status = code === undefined ? 400 : 409,
  ) => {
    const body = whole(await newPartner()) as Body;
    change(body);
    const before = await counts();
    const answer = await onboard(body);
    const { errors } = answer.body;
    expect([answer.status, errors?.map((one: { pointer: string }) => one.pointer)], answer.text).toEqual([
      ...[status, expect.arrayContaining([pointer])],
    ]);
    if (code !== undefined) expect([answer.body.code, errors[0].code]).toContain(code);
    expect(await counts()).toEqual(before);
  };

  test("of the client, its segments and its pixel names its place and leaves nothing", async () => {
    await refused((body) => Object.assign(body.client, { name: "" }), "/client/name");
    await refused((body) => Object.assign(body.client, { slug: "No" }), "/client/slug");
    await refused((body) => Object.assign(body.client, { id: 7 }), "/client/id");
    await refused((body) => Object.assign(body.client, { fraud: { review: 90, reject: 10 } }), "/client/fraud/reject");
    await refused((body) => Object.assign(body.client, { hold_days: { page_view: 3 } }), "/client/hold_days/page_view");
    await refused((body) => Object.assign(body.segments[1]!, { code: "HOME" }), "/segments/1/code");
    await refused((body) => Object.assign(body.segments[1]!, { active: false }), "/segments/1/active");
    await refused(
      (body) => Object.assign(body.pixel_config, { replay_sample_rate: 101 }),
      "/pixel_config/replay_sample_rate",
    );
    await refused(
      (body) => Object.assign(body.pixel_config, { allowed_domains: ["shop.example", "https://x.example"] }),
      "/pixel_config/allowed_domains/1",
    );
    await refused((body) => Object.assign(body.pixel_config, { version: 1 }), "/pixel_config/version");
    await refused((body) => Object.assign(body, { budgets: [] }), "/budgets");
    const slug = unique();
    await onboard({ client: { name: "A", slug } });
    await refused((body) => Object.assign(body.client, { slug }), "/client/slug", "slug_taken");
  });

  test("of a partner names its place and leaves nothing", async () => {
    const taken = address();
    await send("POST", "/api/partners", {
      ...{ name: "Taken", email: taken, client_ids: [demo.clients[0].id], referral_code: unique() },
    });
    const set = (n: number, more: object) => (body: Body) => void Object.assign(body.partners[n]!, more);
    await refused(set(0, { email: "no address" }), "/partners/0/email");
    await refused(set(0, { email: undefined }), "/partners/0/email");
    await refused(set(0, { key: undefined }), "/partners/0/key");
    await refused(set(0, { key: "7" }), "/partners/0/key");
    await refused(set(0, { client_ids: [1] }), "/partners/0/client_ids");
    await refused(set(0, { status: "active" }), "/partners/0/status");
    await refused(set(0, { payout: { currency: "JPY", min_amount: "1.50" } }), "/partners/0/payout/min_amount");
    await refused(set(1, { key: "radio" }), "/partners/1/key");
    await refused(
      (body) => Object.assign(body.partners[1]!, { email: (body.partners[0] as any).email.toUpperCase() }),
      "/partners/1/email",
    );
    await refused(set(2, { name: "Named" }), "/partners/2/name");
    await refused((body) => void body.partners.push(body.partners[2]!), "/partners/3/id");
    await refused((body) => void body.partners.push({ id: 2_000_000_000 } as never), "/partners/3/id");
    await refused(set(0, { email: taken }), "/partners/0/email", "email_in_use");
    await refused(set(1, { email: "admin@demo.tributary.test" }), "/partners/1/email", "email_in_use");
    const code = unique();
    await send("POST", "/api/partners", {
      ...{ name: "C", email: address(), client_ids: [demo.clients[0].id], referral_code: code },
    });
    await refused(set(0, { referral_code: code }), "/partners/0/referral_code", "referral_code_taken");
    const gone = await newPartner();
    await send("DELETE", `/api/partners/${gone}`);
    await refused((body) => void body.partners.push({ id: gone } as never), "/partners/3/id", "partner_archived");
  });

  test("of a contract or a campaign names its place and leaves nothing", async () => {
    const contract = (n: number, more: object) => (body: Body) => void Object.assign(body.commissions[n]!, more);
    const campaign = (n: number, more: object) => (body: Body) => void Object.assign(body.campaigns[n]!, more);
    await refused(contract(1, { partner: "tv" }), "/commissions/1/partner");
    await refused(contract(1, { partner: 2_000_000_000 }), "/commissions/1/partner");
    await refused(contract(1, { partner: -1 }), "/commissions/1/partner");
    await refused(contract(1, { partner_id: 1 }), "/commissions/1/partner_id");
    await refused(contract(0, { rate: "101" }), "/commissions/0/rate");
    await refused(contract(0, { rate: undefined }), "/commissions/0/rate");
    await refused(contract(0, { segment: "MX" }), "/commissions/0/segment");
    await refused(contract(0, { event_type: "page_view" }), "/commissions/0/event_type");
    await refused((body) => void body.commissions.push(body.commissions[0]!), "/commissions/2");
    await refused(
      contract(0, { effective_from: monthsAfter(today, -3) }),
      "/commissions/0/effective_from",
      "month_closed",
    );
    await refused(campaign(0, { partners: ["radio", "radio"] }), "/campaigns/0/partners/1");
    await refused(campaign(0, { partners: [] }), "/campaigns/0/partners");
    await refused(campaign(1, { partners: ["tv"] }), "/campaigns/1/partners/0");
    await refused(campaign(1, { destination_url: "https://shop.example.evil/" }), "/campaigns/1/destination_url");
    await refused(campaign(1, { fallback_url: "https://evil.example/" }), "/campaigns/1/fallback_url");
    await refused(campaign(1, { destination_url: "javascript:alert(1)" }), "/campaigns/1/destination_url");
    await refused(campaign(0, { starts_on: "2020-01-01", ends_on: "2020-01-02" }), "/campaigns/0/ends_on");
    await refused(campaign(1, { starts_on: "2090-02-01", ends_on: "2090-01-01" }), "/campaigns/1/ends_on");
    await refused(
      campaign(0, { patterns: [{ kind: "coupon", value: "x", partner: "tv" }] }),
      "/campaigns/0/patterns/0/partner",
    );
    await refused(campaign(0, { status: "active" }), "/campaigns/0/status");
    const paused = await newPartner();
    await send("PATCH", `/api/partners/${paused}`, { status: "paused" });
    await refused(
      (body) => {
        body.partners.push({ id: paused } as never);
        body.campaigns[1]!.partners.push(paused as never);
      },
      "/campaigns/1/partners/1",
      "partner_inactive",
    );
  });

  test("of what is too much is said before anything is done", async () => {
    const partners = (count: number) =>
      Array.from({ length: count }, (_, n) => ({ key: `p${n}`, name: `P ${n}`, email: address() }));
    await refused(
      (body) => Object.assign(body, { partners: partners(201), commissions: [], campaigns: [] }),
      "/partners",
    );
    const campaign = (n: number) => ({
      ...{ name: `C ${n}`, destination_url: page, partners: Array.from({ length: 200 }, (_, m) => `p${m}`) },
    });
    await refused(
      (body) =>
        Object.assign(body, {
          partners: partners(200),
          commissions: [],
          campaigns: Array.from({ length: 6 }, (_, n) => campaign(n)),
        }),
      "/campaigns",
    );
    const many = { client: { name: "A", slug: unique() }, segments: Array(21_000).fill(0) };
    expect((await onboard(many)).body.errors[0].code).toBe("too_many_keys");
    const deep = `{"client": ${'{"a":'.repeat(40)}1${"}".repeat(40)}}`;
    expect((await onboard(deep)).status).toBe(400);
    expect((await onboard('{"client": {"name": "A", "slug": "a-b"}, "client": {}}')).body.errors[0].code).toBe(
      "repeated_key",
    );
    expect((await onboard('{"__proto__": {}, "client": {}}')).status).toBe(400);
    for (const body of ["[]", "null", "7", '"x"', "{}"]) expect((await onboard(body)).status, body).toBe(400);
  });

  test("of the role is said before the body is looked at", async () => {
    for (const role of ["manager", "partner", "client", "viewer"])
      expect((await onboard({ nothing: true }, role)).status, role).toBe(403);
    expect((await ask("/api/clients/onboard", { method: "POST", body: {} })).status).toBe(401);
  });
});

test("all that one request may hold is there at once", { timeout: 120_000 }, async () => {
  const partners = Array.from({ length: 200 }, (_, n) => ({
    ...{ key: `p${n}`, name: `Partner ${n}`, email: address(), invite: n % 2 === 0 },
  }));
  const commissions = partners.flatMap(({ key }) =>
    ["purchase", "install", "lead_submit", "signup", "trial"].map((event_type) => ({
      ...{ ...terms, partner: key, event_type },
    })),
  );
  const campaigns = Array.from({ length: 100 }, (_, n) => ({
    ...{ name: `C ${n}`, destination_url: page, launch: true },
    partners: Array.from({ length: 10 }, (_, m) => `p${(n * 2 + m) % 200}`),
    patterns: [{ kind: "coupon", value: `CODE${n}`, partner: `p${(n * 2) % 200}` }],
  }));
  const large = {
    ...{ client: { name: "Large", slug: unique() }, partners, commissions, campaigns },
    segments: Array.from({ length: 200 }, (_, n) => ({ code: `S${n}`, name: `Segment ${n}` })),
  };
  // On a busy machine a change may take too long: 503 asks to send it again.
  let answer = await onboard(large);
  for (let tries = 1; answer.status === 503 && tries < 10; tries += 1) {
    await setTimeout(Number(answer.headers.get("retry-after")) * 1_000);
    answer = await onboard(large);
  }
  const { status, body, text } = answer;
  expect(status, text.slice(0, 500)).toBe(201);
  expect([body.segments.length, body.partners.length, body.commissions.length]).toEqual([200, 200, 1_000]);
  expect(body.campaigns.flatMap(({ links }: { links: unknown[] }) => links)).toHaveLength(1_000);
  const { rows } = await owner.query(sql`
    select (select count(*)::int from mails where facts ->> 'name' = 'Large' or facts ->> 'clients' = 'Large') as mails,
      (select count(*)::int from audit where client_id = ${body.client.id}) as audited`);
  // A mail for each link and invitation, and an audit row for every record.
  expect(rows).toEqual([{ mails: 1_100, audited: 1 + 200 + 1_000 + 100 + 1 + 100 }]);
  // Mails are sent in order, so those of other suites would wait behind these.
  await owner.query("delete from mails where facts ->> 'name' = 'Large' or facts ->> 'clients' = 'Large'");
});
