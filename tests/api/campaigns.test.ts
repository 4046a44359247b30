// Campaigns over HTTP: from the draft to the end, by role and on a real database.
import { describe, expect, test } from "vitest";
import { sql } from "../../infra/postgres/sql.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { apiSuite } from "../support/api-suite.ts";

const { pool, owner, tokens, ask, as, send, read, fresh } = apiSuite();

const post = (path: string, body: unknown, headers = {}, role = "admin") => send("POST", path, body, role, headers);
const patch = (path: string, body: unknown, headers = {}, role = "admin") => send("PATCH", path, body, role, headers);
const archive = (path: string) => as("admin", path, { method: "DELETE" });

/** A client with two partners that work for it, and a third one that does not. */
const shop = async () => {
  const { body: client } = await post("/api/clients", { name: "A shop", slug: fresh("camp") });
  const { body: other } = await post("/api/clients", { name: "Another", slug: fresh("camp") });
  const partner = (partner_id: number, client_id: number) => ({
    partner_id,
    name: `Partner ${-partner_id}`,
    email: `${fresh("p")}@example.com`,
    client_ids: [client_id],
  });
  const { idOf } = await writeReference(pool, "test", {
    partners: [partner(-1, client.id), partner(-2, client.id), partner(-3, other.id)],
  });
  const [one, two, foreign] = [-1, -2, -3].map((id) => idOf("partners", id)) as [number, number, number];
  return { id: client.id as number, one, two, foreign };
};
const draft = async (client_id: number, more: object = {}) =>
  post("/api/campaigns", { client_id, name: "Summer", destination_url: "https://shop.example/", ...more });
const auditOf = async (id: number) =>
  (await owner.query(sql`select action, before, after from audit where entity = ${`campaign:${id}`} order by audit_id`))
    .rows;
const terms = (rate: unknown = "10") => ({
  ...{ event_type: "purchase", type: "percent", rate, effective_from: "2099-01-01" },
});
const percent = (partner_id: number, rate?: unknown) => ({ partner_id, ...terms(rate) });
const nextYear = new Date().getUTCFullYear() + 1;

describe("a campaign", () => {
  test("begins as a draft without links, with its place and its version", async () => {
    const { id: client_id } = await shop();
    const { status, body, headers } = await draft(client_id, { starts_on: "2030-01-01", ends_on: "2030-02-01" });
    expect([status, headers.get("location"), headers.get("etag")]).toEqual([201, `/api/campaigns/${body.id}`, '"1"']);
    const { warnings, ...campaign } = body;
    expect(warnings).toEqual([]);
    expect(campaign).toEqual({
      ...{ id: expect.any(Number), client_id, name: "Summer", status: "draft", archived: false },
      ...{ starts_on: "2030-01-01", ends_on: "2030-02-01", destination_url: "https://shop.example/" },
      ...{ fallback_url: null, patterns: [], links: [], version: 1 },
      ...{ created_at: expect.stringMatching(/^\d{4}-.*Z$/), updated_at: body.created_at },
    });
    expect((await read(`/api/campaigns/${body.id}`)).body).toEqual(campaign);
    expect(await auditOf(body.id)).toMatchObject([{ action: "campaign.created", after: { name: "Summer" } }]);
  });

  test("takes no field that is not the caller's to set", async () => {
    const { id: client_id } = await shop();
    for (const field of ["id", "campaign_id", "status", "links", "archived", "version", "valid_from"]) {
      const { status, body } = await draft(client_id, { [field]: field === "status" ? "active" : 1 });
      expect([status, body.errors], field).toMatchObject([400, [{ pointer: `/${field}`, code: "unknown_field" }]]);
    }
    const { body } = await draft(client_id);
    for (const field of ["client_id", "links", "archived", "campaign_id"])
      expect((await patch(`/api/campaigns/${body.id}`, { [field]: 1 })).body.errors[0].pointer).toBe(`/${field}`);
    expect((await patch(`/api/campaigns/${body.id}`, { status: "draft" })).status).toBe(400);
  });

  test("ends on its first day or later, and leads to hosts of the client alone", async () => {
    const { id: client_id } = await shop();
    const backwards = await draft(client_id, { starts_on: "2030-02-01", ends_on: "2030-01-01" });
    expect([backwards.status, backwards.body.errors[0].pointer]).toEqual([400, "/ends_on"]);
    await post(`/api/clients/${client_id}/pipeline/pixel-config`, { allowed_domains: ["*.shop.example"] });
    const foreign = await draft(client_id, { fallback_url: "https://www.shop.example/x" });
    expect([foreign.status, foreign.body.errors]).toMatchObject([
      400,
      [{ pointer: "/destination_url", code: "foreign_destination" }],
    ]);
    const own = await draft(client_id, { destination_url: "https://www.shop.example/" });
    expect(own.status).toBe(201);
    const moved = await patch(`/api/campaigns/${own.body.id}`, { fallback_url: "https://evilshop.example/" });
    expect([moved.status, moved.body.errors[0].pointer]).toEqual([400, "/fallback_url"]);
  });

  test("pauses, goes on and ends, and does nothing else", async () => {
    const { id: client_id, one } = await shop();
    const { body } = await draft(client_id);
    const to = async (status: string) => {
      const answer = await patch(`/api/campaigns/${body.id}`, { status });
      return answer.status === 200 ? answer.body.status : answer.body.code;
    };
    expect([await to("active"), await to("paused"), await to("ended")]).toEqual(Array(3).fill("invalid_transition"));
    await post(`/api/campaigns/${body.id}/launch`, { partners: [one] });
    const again = await post(`/api/campaigns/${body.id}/launch`, { partners: [one] });
    expect([again.status, again.body.code]).toEqual([409, "invalid_transition"]);
    expect([await to("paused"), await to("active"), await to("ended"), await to("active")]).toEqual([
      ...["paused", "active", "ended", "invalid_transition"],
    ]);
  });

  test("is changed by one of two who saw the same version", async () => {
    const { id: client_id } = await shop();
    const { body } = await draft(client_id);
    const both = await Promise.all([
      patch(`/api/campaigns/${body.id}`, { name: "One", version: 1 }),
      patch(`/api/campaigns/${body.id}`, { name: "Two" }, { "if-match": '"1"' }),
    ]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 409]);
    expect(both.find(({ status }) => status === 409)!.body).toMatchObject({
      code: "version_conflict",
      current_version: 2,
    });
    expect((await patch(`/api/campaigns/${body.id}`, {})).body.version).toBe(2);
  });

  test("has the links of its list of partners; one that comes back keeps its code", async () => {
    const { id: client_id, one, two, foreign } = await shop();
    const { body } = await draft(client_id);
    const path = `/api/campaigns/${body.id}`;
    await post(`${path}/launch`, { partners: [one, two] });
    const codeOf = async (partner: number) =>
      (await read(path)).body.links.find(({ partner_id }: { partner_id: number }) => partner_id === partner);
    const before = await codeOf(two);
    expect((await patch(path, { partner_ids: [one] })).body.version).toBe(3);
    expect(await codeOf(two)).toEqual({ ...before, status: "archived" });
    expect((await patch(path, { partner_ids: [one, two] })).status).toBe(200);
    expect(await codeOf(two)).toEqual(before);
    const twice = await patch(path, { partner_ids: [one, one] });
    expect([twice.status, twice.body.errors[0].pointer]).toEqual([400, "/partner_ids/1"]);
    const unknown = await patch(path, { partner_ids: [one, 2_000_000_000] });
    const other = await patch(path, { partner_ids: [one, foreign] });
    expect(other.body.errors).toEqual(unknown.body.errors);
    expect(other.body.errors).toMatchObject([{ pointer: "/partner_ids/1", code: "partner_not_of_client" }]);
  });

  test("warns of a coupon that several partners could claim", async () => {
    const { id: client_id, one, two } = await shop();
    const { body } = await draft(client_id);
    const { body: launched } = await post(`/api/campaigns/${body.id}/launch`, {
      partners: [one, two],
      patterns: [
        { kind: "coupon", value: "SUN", partner_id: one },
        { kind: "coupon", value: "RAIN" },
      ],
    });
    expect(launched.warnings).toMatchObject([{ code: "coupon_without_partner", pointer: "/patterns/1" }]);
  });

  test("is archived: ended for good, out of the list, and readable", async () => {
    const { id: client_id } = await shop();
    const { body } = await draft(client_id);
    const path = `/api/campaigns/${body.id}`;
    const refused = await ask(path, { method: "DELETE", token: tokens.admin, headers: { "if-match": '"9"' } });
    expect([refused.status, refused.body.current_version]).toEqual([409, 1]);
    const gone = await archive(path);
    expect([gone.status, gone.text]).toEqual([204, ""]);
    expect((await archive(path)).status).toBe(204);
    expect((await read(path)).body).toMatchObject({ status: "ended", archived: true, version: 2 });
    expect((await read(`/api/campaigns?client_id=${client_id}`)).body.data).toEqual([]);
    expect((await read(`/api/campaigns?client_id=${client_id}&archived=true`)).body.data).toHaveLength(1);
    for (const answer of [await patch(path, { name: "x" }), await post(`${path}/launch`, { partners: [1] })])
      expect([answer.status, answer.body.code]).toEqual([409, "campaign_archived"]);
  });

  test("below an archived client changes no more", async () => {
    const { id: client_id, one } = await shop();
    const { body } = await draft(client_id);
    await archive(`/api/clients/${client_id}`);
    for (const answer of [
      await draft(client_id),
      await patch(`/api/campaigns/${body.id}`, { name: "x" }),
      await post(`/api/campaigns/${body.id}/launch`, { partners: [one] }),
      await archive(`/api/campaigns/${body.id}`),
    ])
      expect([answer.status, answer.body.code]).toEqual([409, "client_archived"]);
    expect((await read(`/api/campaigns/${body.id}`)).body.version).toBe(1);
  });
});

describe("a launch", () => {
  test("makes links, contracts and budgets, lets the campaign run and says so to the log", async () => {
    const { id: client_id, one, two } = await shop();
    const { body } = await draft(client_id);
    const budgets = [
      { year: nextYear, month: 3, amount: "1500.50" },
      { year: nextYear, month: 3, amount: "20", segment: "MX" },
    ];
    const asked = { partners: [one, two], commissions: [percent(one), percent(two, 5)], budgets, version: 1 };
    const key = { "idempotency-key": `launch-${body.id}` };
    const { status, body: launched } = await post(`/api/campaigns/${body.id}/launch`, asked, key);
    expect(status).toBe(200);
    expect(launched.campaign).toMatchObject({ status: "active", version: 2 });
    expect(launched.links.map(({ partner_id }: { partner_id: number }) => partner_id)).toEqual([one, two]);
    for (const { code, url } of launched.links) expect([url, code]).toEqual([`/c/${code}`, expect.any(String)]);
    const { rows: contracts } = await owner.query(sql`
      select partner_id, rate from segment_commissions where contract_id = any (${launched.commissions}::int[])
      order by contract_id`);
    expect(contracts).toEqual([
      { partner_id: one, rate: "10.0000" },
      { partner_id: two, rate: "5.0000" },
    ]);
    const { rows: saved } = await owner.query(sql`
      select segment, amount_minor, currency from relo_budgets where budget_id = any (${launched.budgets}::int[])
      order by budget_id`);
    expect(saved).toEqual([
      { segment: null, amount_minor: 150_050n, currency: "MXN" },
      { segment: "MX", amount_minor: 2_000n, currency: "MXN" },
    ]);
    const { rows: said } = await owner.query(sql`
      select record from outbox where client_id = ${client_id} and record ->> 'type' = 'campaign.launched'`);
    expect(said).toMatchObject([{ record: { entity: `campaign:${body.id}`, version: 2 } }]);
    expect(await auditOf(body.id)).toMatchObject([
      { action: "campaign.created" },
      { action: "campaign.launched", before: { status: "draft" }, after: { status: "active", partners: [one, two] } },
    ]);
    expect((await post(`/api/campaigns/${body.id}/launch`, asked, key)).body).toEqual(launched);
  });

  test("with any fault leaves nothing, and names its place", async () => {
    const { id: client_id, one, two, foreign } = await shop();
    const { body } = await draft(client_id);
    const path = `/api/campaigns/${body.id}/launch`;
    const good = { partners: [one, two], budgets: [{ year: nextYear, month: 1, amount: "10.00" }] };
    const faults: readonly (readonly [object, string, string])[] = [
      [{ commissions: [percent(one), percent(two, "101")] }, "/commissions/1/rate", "custom"],
      [{ commissions: [percent(one), percent(two, null)] }, "/commissions/1/rate", "invalid"],
      [{ commissions: [{ ...percent(one), segment: "NONE" }] }, "/commissions/0/segment", "unknown"],
      [{ commissions: [percent(foreign)] }, "/commissions/0/partner_id", "partner_not_of_client"],
      [{ commissions: [{ ...percent(one), client_id }] }, "/commissions/0/client_id", "unknown_field"],
      [{ commissions: [percent(one), percent(two), percent(one, "11")] }, "/commissions/2", "invalid"],
      [{ partners: [one, foreign] }, "/partners/1", "partner_not_of_client"],
      [{ partners: [one, 2_000_000_000] }, "/partners/1", "partner_not_of_client"],
      [{ partners: [] }, "/partners", "too_small"],
      [
        { patterns: [{ kind: "coupon", value: "X", partner_id: foreign }] },
        "/patterns/0/partner_id",
        "partner_not_of_client",
      ],
      [{ budgets: [{ year: nextYear, month: 1, amount: "0" }] }, "/budgets/0/amount", "invalid_value"],
      [{ budgets: [{ year: nextYear, month: 1, amount: "1", segment: "NONE" }] }, "/budgets/0/segment", "unknown"],
      [{ budgets: [...good.budgets, ...good.budgets] }, "/budgets/1", "duplicate_item"],
      [{ budgets: [{ year: nextYear + 5, month: 1, amount: "1" }] }, "/budgets/0/month", "invalid_value"],
    ];
    for (const [more, pointer, code] of faults) {
      const { status, body: problem } = await post(path, { ...good, ...more });
      expect([status, problem.errors?.[0]], JSON.stringify(more)).toMatchObject([400, { pointer, code }]);
    }
    const locked = await post(path, { ...good, budgets: [...good.budgets, { year: 2020, month: 1, amount: "1" }] });
    expect([locked.status, locked.body.code]).toEqual([409, "month_closed"]);
    const past = await post(path, { ...good, commissions: [{ ...percent(one), effective_from: "2020-01-01" }] });
    expect([past.status, past.body.code]).toEqual([409, "month_closed"]);
    await writeReference(pool, "test", { partners: [{ partner_id: two, status: "paused" }] });
    const inactive = await post(path, good);
    expect([inactive.status, inactive.body.code, inactive.body.errors[0].pointer]).toEqual([
      ...[409, "partner_inactive", "/partners/1"],
    ]);
    expect((await read(`/api/campaigns/${body.id}`)).body).toMatchObject({ status: "draft", links: [], version: 1 });
    const { rows } = await owner.query(sql`
      select (select count(*)::int from relo_budgets where client_id = ${client_id}) as budgets,
        (select count(*)::int from segment_commissions where client_id = ${client_id}) as contracts`);
    expect(rows).toEqual([{ budgets: 0, contracts: 0 }]);
  });

  test("pays no archived partner, and leaves days of an approved plan as they are", async () => {
    const { id: client_id, one, two } = await shop();
    const { body } = await draft(client_id);
    const path = `/api/campaigns/${body.id}/launch`;
    await archive(`/api/partners/${two}`);
    const paid = await post(path, { partners: [one], commissions: [percent(two)] });
    expect([paid.status, paid.body.code, paid.body.errors[0].pointer]).toEqual([
      ...[409, "partner_archived", "/commissions/0/partner_id"],
    ]);
    const plan = { client_id, year: nextYear, month: 1 };
    const from = { effective_from: `${nextYear - 1}-12-01` };
    await post(`/api/partners/${one}/segment-commissions`, { ...terms(), ...from, client_id });
    await post("/api/planner/save", { ...plan, lines: [{ partner_id: one, budget: "10.00", rate: "10" }] });
    expect((await post("/api/planner/approve", plan)).status).toBe(200);
    const shorter = { ...percent(one), ...from, effective_to: `${nextYear}-01-01` };
    const cut = await post(path, { partners: [one], commissions: [shorter] });
    expect([cut.status, cut.body.code, cut.body.errors[0].pointer]).toEqual([
      ...[409, "month_approved", "/commissions/0/effective_to"],
    ]);
  });

  test("has each of its contracts and budgets in the audit", async () => {
    const { id: client_id, one } = await shop();
    const { body } = await draft(client_id);
    const budgets = [{ year: nextYear, month: 4, amount: "10.00" }];
    await post(`/api/campaigns/${body.id}/launch`, { partners: [one], commissions: [percent(one)], budgets });
    const { rows } = await owner.query(sql`
      select action, after from audit where client_id = ${client_id} and entity similar to '(contract|budget):%'
      order by audit_id`);
    expect(rows).toMatchObject([
      { action: "budget.set", after: { amount: "10.00", currency: "MXN", on_overspend: "alert" } },
      { action: "contract.created", after: { partner_id: one, client_id, rate: "10" } },
    ]);
  });

  test("needs a campaign that is not over", async () => {
    const { id: client_id, one } = await shop();
    const { body } = await draft(client_id, { ends_on: "2020-01-01" });
    const { status, body: problem } = await post(`/api/campaigns/${body.id}/launch`, { partners: [one] });
    expect([status, problem.errors[0].code]).toEqual([400, "ends_in_past"]);
  });

  test("sets a budget that is there again, and keeps links that are there", async () => {
    const { id: client_id, one, two } = await shop();
    const { body } = await draft(client_id);
    const path = `/api/campaigns/${body.id}`;
    const budget = { year: nextYear, month: 2, amount: "10.00" };
    const { body: first } = await post(`${path}/launch`, { partners: [one], budgets: [budget] });
    await patch(path, { status: "paused" });
    const { body: second } = await post(`${path}/launch`, {
      ...{ partners: [two], budgets: [{ ...budget, amount: "12.00" }] },
    });
    expect(second.budgets).toEqual(first.budgets);
    expect(second.links.map(({ partner_id }: { partner_id: number }) => partner_id)).toEqual([one, two]);
    expect(second.links[0]).toEqual(first.links[0]);
    const { rows } = await owner.query(sql`
      select version, amount_minor from relo_budgets where client_id = ${client_id}`);
    expect(rows).toEqual([{ version: 2, amount_minor: 1_200n }]);
  });
});

describe("the list of campaigns", () => {
  test("is filtered, goes on behind its cursor in every order, and is a file too", async () => {
    const { id: client_id, one, two } = await shop();
    const ids: number[] = [];
    for (const [n, starts_on] of ["2030-01-02", null, "2030-01-01", null].entries())
      ids.push((await draft(client_id, { name: `${"baBA"[n]} =sum`, starts_on })).body.id);
    await post(`/api/campaigns/${ids[2]}/launch`, { partners: [one] });
    const all = `/api/campaigns?client_id=${client_id}`;
    for (const sort of ["-created_at", "created_at", "name", "-name", "starts_on", "-starts_on"]) {
      const whole = (await read(`${all}&sort=${sort}`)).body.data.map(({ id }: { id: number }) => id);
      const seen: number[] = [];
      for (let cursor = ""; ; ) {
        const { body } = await read(`${all}&sort=${sort}&limit=1${cursor}`);
        seen.push(...body.data.map(({ id }: { id: number }) => id));
        if (body.next_cursor === null) break;
        cursor = `&cursor=${body.next_cursor}`;
      }
      expect(seen, sort).toEqual(whole);
      expect([...seen].sort()).toEqual([...ids].sort());
    }
    const found = async (query: string) => (await read(`${all}&${query}`)).body.data.map(({ id }: any) => id);
    expect(await found("status=active")).toEqual([ids[2]]);
    expect(await found(`partner_id=${one}`)).toEqual([ids[2]]);
    expect(await found(`partner_id=${two}`)).toEqual([]);
    expect((await found("q=a")).sort()).toEqual([ids[1], ids[3]].sort());
    const { headers, text } = await read(`${all}&format=csv&sort=created_at`);
    expect(headers.get("content-disposition")).toMatch(`filename="campaigns-${client_id}-all-`);
    const [head, ...lines] = text.trim().split("\r\n");
    expect(head).toBe("id,client_id,name,status,starts_on,ends_on,destination_url,fallback_url,created_at");
    expect(lines).toHaveLength(4);
    expect(lines[0]).toMatch(`${ids[0]},${client_id},b =sum,draft,2030-01-02,,https://shop.example/,,`);
  });
});

describe("by role", () => {
  test("a foreign campaign, and one below a foreign client, is an unknown one, byte for byte", async () => {
    const { id: client_id, foreign } = await shop();
    const { body } = await draft(client_id);
    const never = 2_000_000_000;
    const asked = { token: tokens.manager, headers: { "x-request-id": "same" } };
    const requests = [
      { path: (id: number) => `/api/campaigns/${id}`, method: "GET" },
      { path: (id: number) => `/api/campaigns/${id}`, method: "PATCH", body: { name: "Mine" } },
      { path: (id: number) => `/api/campaigns/${id}`, method: "DELETE" },
      { path: (id: number) => `/api/campaigns/${id}/launch`, method: "POST", body: { partners: [foreign] } },
    ];
    for (const { path, ...request } of requests) {
      const [hidden, unknown] = await Promise.all(
        [body.id, never].map((id: number) => ask(path(id), { ...asked, ...request })),
      );
      expect([hidden!.status, unknown!.status], path(0)).toEqual([404, 404]);
      const [one, other] = [
        hidden!.text.replace(`/campaigns/${body.id}`, ""),
        unknown!.text.replace(`/campaigns/${never}`, ""),
      ];
      expect(one).toBe(other);
      expect([...hidden!.headers.keys()]).toEqual([...unknown!.headers.keys()]);
    }
    const below = (id: number) => [
      ask(`/api/campaigns?client_id=${id}`, asked),
      ask("/api/campaigns", {
        ...{ ...asked, method: "POST" },
        body: { client_id: id, name: "Mine", destination_url: "https://shop.example/" },
      }),
    ];
    const [hidden, unknown] = await Promise.all([client_id, never].map((id) => Promise.all(below(id))));
    for (const [n, answer] of hidden!.entries()) {
      expect([answer.status, unknown![n]!.status]).toEqual([404, 404]);
      expect(answer.text).toBe(unknown![n]!.text);
    }
    expect((await read(`/api/campaigns/${body.id}`)).body).toMatchObject({ version: 1, archived: false });
  });

  test("a manager works on its own, a viewer reads, and partners and client users do neither", async () => {
    const { body: own } = await read("/api/clients?limit=1", "manager");
    const client_id = own.data[0].id;
    const asked = { client_id, name: fresh("Mine"), destination_url: "https://shop.example/" };
    const { status, body } = await post("/api/campaigns", asked, {}, "manager");
    expect(status).toBe(201);
    expect((await patch(`/api/campaigns/${body.id}`, { name: "Ours" }, {}, "manager")).body.name).toBe("Ours");
    expect((await read(`/api/campaigns/${body.id}`, "viewer")).body.name).toBe("Ours");
    expect((await patch(`/api/campaigns/${body.id}`, { name: "x" }, {}, "viewer")).status).toBe(403);
    for (const role of ["partner", "client"])
      for (const path of ["/api/campaigns", `/api/campaigns/${body.id}`])
        expect((await read(path, role)).status, `${role} ${path}`).toBe(403);
  });
});
