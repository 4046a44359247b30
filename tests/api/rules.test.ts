// Attribution rules over HTTP: which are saved, which are refused, and who sees them.
import { describe, expect, test } from "vitest";
import { sql } from "../../infra/postgres/sql.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { apiSuite } from "../support/api-suite.ts";

const { pool, owner, send, read, fresh } = apiSuite();

/** A client with two partners that work for it, a paused one, and a partner of another client. */
const shop = async () => {
  const partner = (partner_id: number, client_id: number) => ({
    partner_id,
    name: `Partner ${-partner_id}`,
    email: `${fresh("r")}@example.com`,
    client_ids: [client_id],
    status: partner_id === -3 ? ("paused" as const) : ("active" as const),
  });
  const { idOf } = await writeReference(pool, "test", {
    clients: [-1, -2].map((client_id) => ({ client_id, name: "A shop", slug: fresh("rule") })),
    partners: [partner(-1, -1), partner(-2, -1), partner(-3, -1), partner(-4, -2)],
  });
  const [one, two, paused, foreign] = [-1, -2, -3, -4].map((id) => idOf("partners", id)) as [
    number,
    number,
    number,
    number,
  ];
  return { id: idOf("clients", -1), other: idOf("clients", -2), one, two, paused, foreign };
};
const coupon = {
  all: [
    { field: "t", op: "eq", value: "purchase" },
    { field: "coupon", op: "in", value: ["A", "B"] },
  ],
};
// biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
const credits = (partner_id: number) => ({ name: "Coupons", when: coupon, then: { partner_id } });
const auditOf = async (id: number) =>
  (await owner.query(sql`select action, before, after from audit where entity = ${`rule:${id}`} order by audit_id`))
    .rows;

describe("a rule", () => {
  test("is saved with its sentence, and every save after it is a version that stays", async () => {
    const { id: client_id, one, two } = await shop();
    const { status, body, headers } = await send("POST", "/api/rules", { client_id, ...credits(one) });
    expect([status, headers.get("location"), headers.get("etag")]).toEqual([201, `/api/rules/${body.id}`, '"1"']);
    expect(body).toEqual({
      ...{ id: expect.any(Number), client_id, name: "Coupons", status: "active", archived: false, priority: 0 },
      ...{ effective_from: null, effective_to: null, when: coupon, leaves: 2, version: 1 },
      // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
      then: { partner_id: one },
      ...{ created_at: expect.stringMatching(/Z$/), updated_at: body.created_at },
      sentence:
        `An event is credited to Partner 1 (partner ${one}) when type is "purchase" and ` +
        'coupon is one of "A", "B".',
    });
    const next = await send("PUT", `/api/rules/${body.id}`, { ...credits(two), priority: 3, version: 1 });
    expect([next.status, next.body.version, next.body.priority]).toEqual([200, 2, 3]);
    const stale = await send("PUT", `/api/rules/${body.id}`, { ...credits(one), version: 1 });
    expect([stale.status, stale.body.code, stale.body.current_version]).toEqual([409, "version_conflict", 2]);
    const shown = (await read(`/api/rules/${body.id}`)).body;
    expect(shown).toMatchObject({ hits_30d: 0, version: 2, sentence: expect.stringContaining("Partner 2") });
    expect(shown.versions).toEqual([
      { version: 1, at: body.created_at, by: "admin@demo.tributary.test" },
      { version: 2, at: shown.updated_at, by: "admin@demo.tributary.test" },
    ]);
    const { rows } = await owner.query(
      sql`select version, "then" ->> 'partner_id' as partner from rules where rule_id = ${body.id} order by version`,
    );
    expect(rows).toEqual([
      { version: 1, partner: String(one) },
      { version: 2, partner: String(two) },
    ]);
    expect(await auditOf(body.id)).toMatchObject([
      { action: "rule.created", before: null, after: { client_id } },
      { action: "rule.versioned", before: { version: 1 }, after: { priority: 3 } },
    ]);
  });

  test("is replaced as a whole: what is left out is as in a new one", async () => {
    const { id: client_id, one } = await shop();
    const days = { effective_from: "2030-01-01", effective_to: "2030-02-01" };
    const { body } = await send("POST", "/api/rules", { client_id, ...credits(one), priority: 9, ...days });
    expect(body.sentence).toContain("In force on days from 2030-01-01 and before 2030-02-01.");
    const { body: next } = await send("PUT", `/api/rules/${body.id}`, credits(one));
    expect(next).toMatchObject({ priority: 0, effective_from: null, effective_to: null, status: "active" });
  });

  test("takes no field that is not the caller's to set, and ends after it begins", async () => {
    const { id: client_id, other, one } = await shop();
    for (const field of ["id", "rule_id", "version", "archived", "leaves", "sentence", "valid_from"]) {
      const { status, body } = await send("POST", "/api/rules", { client_id, ...credits(one), [field]: 1 });
      expect([status, body.errors], field).toMatchObject([400, [{ pointer: `/${field}`, code: "unknown_field" }]]);
    }
    const { body } = await send("POST", "/api/rules", { client_id, ...credits(one) });
    const moved = await send("PUT", `/api/rules/${body.id}`, { ...credits(one), client_id: other });
    expect([moved.status, moved.body.errors[0].pointer]).toEqual([400, "/client_id"]);
    const days = { effective_from: "2030-02-01", effective_to: "2030-02-01" };
    const backwards = await send("POST", "/api/rules", { client_id, ...credits(one), ...days });
    expect([backwards.status, backwards.body.errors[0].pointer]).toEqual([400, "/effective_to"]);
  });

  test("names every fault of its condition by its place in the body", async () => {
    const { id: client_id, one } = await shop();
    const when = {
      all: [
        { field: "prize", op: "eq", value: 1 },
        { any: [] },
        { not: { field: "t", op: "matches", value: ".*" } },
        { field: "value", op: "gt", value: "10" },
        { field: "t", op: "eq", value: "x", "a/b": 1 },
      ],
    };
    const { status, body } = await send("POST", "/api/rules", { client_id, ...credits(one), when });
    expect([status, body.errors.map(({ pointer, code }: any) => [pointer, code])]).toEqual([
      400,
      [
        ["/when/all/0/field", "unknown_field"],
        ["/when/all/1/any", "empty_group"],
        ["/when/all/2/not/op", "unknown_op"],
        ["/when/all/3/value", "bad_value"],
        ["/when/all/4/a~1b", "unknown_key"],
      ],
    ]);
  });

  test("is refused in a short answer, however much is wrong with it", async () => {
    const { id: client_id, one } = await shop();
    const leaf = { field: "t", op: "eq", value: "x" };
    let deep: object = leaf;
    for (let n = 0; n < 20; n++) deep = { not: deep };
    const conditions: readonly unknown[] = [
      { all: Array(60_000).fill([]) },
      { all: Array(100).fill({ any: Array(500).fill(null) }) },
      { any: Array(101).fill(leaf) },
      deep,
      ...[null, [], "x", 5],
      undefined,
    ];
    for (const when of conditions) {
      const { status, text } = await send("POST", "/api/rules", { client_id, ...credits(one), when });
      expect([status, text.length < 30_000], text.slice(0, 200)).toEqual([400, true]);
    }
    const most = await send("POST", "/api/rules", { client_id, ...credits(one), when: { any: Array(100).fill(leaf) } });
    expect([most.status, most.body.leaves]).toEqual([201, 100]);
  });

  test("credits a partner of its client who is not paused, and what is switched off may wait for one", async () => {
    const { id: client_id, one, paused, foreign } = await shop();
    for (const partner of [foreign, 2_000_000_000]) {
      const { status, body } = await send("POST", "/api/rules", { client_id, ...credits(partner) });
      expect([status, body.errors]).toMatchObject([
        400,
        [{ pointer: "/then/partner_id", code: "partner_not_of_client" }],
      ]);
    }
    const { status, body } = await send("POST", "/api/rules", { client_id, ...credits(paused) });
    expect([status, body.code]).toEqual([409, "partner_inactive"]);
    const off = await send("POST", "/api/rules", { client_id, ...credits(paused), status: "inactive" });
    expect([off.status, off.body.sentence]).toEqual([201, expect.stringMatching(/It is switched off\.$/)]);
    // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
    const unknown = { client_id, ...credits(one), then: { partner_id: one, campaign_id: 2_000_000_000 } };
    const { body: lost } = await send("POST", "/api/rules", unknown);
    expect(lost.errors[0].pointer).toBe("/then/campaign_id");
  });

  test("is one of at most 500 active ones of its client", async () => {
    const { id: client_id, one } = await shop();
    const some = Array.from({ length: 500 }, (_, n) => ({
      ...{ rule_id: -1 - n, client_id, name: `Rule ${n}` },
      when: { field: "coupon", op: "eq" as const, value: `C${n}` },
      // biome-ignore lint/suspicious/noThenProperty: the wire name of what a rule does
      then: { partner_id: one },
    }));
    const { idOf } = await writeReference(pool, "test", { rules: some });
    const { status, body } = await send("POST", "/api/rules", { client_id, ...credits(one) });
    expect([status, body.code]).toEqual([409, "too_many_rules"]);
    expect((await send("PUT", `/api/rules/${idOf("rules", -1)}`, credits(one))).status).toBe(200);
    expect((await send("POST", "/api/rules", { client_id, ...credits(one), status: "inactive" })).status).toBe(201);
    expect((await send("DELETE", `/api/rules/${idOf("rules", -2)}`)).status).toBe(204);
    expect((await send("POST", "/api/rules", { client_id, ...credits(one) })).status).toBe(201);
  });

  test("is switched off and archived by DELETE, once, and changes no more", async () => {
    const { id: client_id, one } = await shop();
    const { body } = await send("POST", "/api/rules", { client_id, ...credits(one) });
    expect((await send("DELETE", `/api/rules/${body.id}`, { version: 2 })).body.code).toBe("version_conflict");
    expect((await send("DELETE", `/api/rules/${body.id}`)).status).toBe(204);
    expect((await send("DELETE", `/api/rules/${body.id}`)).status).toBe(204);
    expect((await read(`/api/rules/${body.id}`)).body).toMatchObject({
      status: "inactive",
      archived: true,
      version: 2,
    });
    expect((await send("PUT", `/api/rules/${body.id}`, credits(one))).body.code).toBe("rule_archived");
    expect((await read(`/api/rules?client_id=${client_id}`)).body.data).toEqual([]);
    expect((await auditOf(body.id)).map(({ action }) => action)).toEqual(["rule.created", "rule.archived"]);
  });

  test("answers an Idempotency-Key with the rule that it made", async () => {
    const { id: client_id, one } = await shop();
    const headers = { "idempotency-key": fresh("key") };
    const [first, second] = await Promise.all(
      [0, 1].map(() => send("POST", "/api/rules", { client_id, ...credits(one) }, "admin", headers)),
    );
    expect([first!.status, second!.body.id]).toEqual([201, first!.body.id]);
    expect((await read(`/api/rules?client_id=${client_id}`)).body.data).toHaveLength(1);
  });
});

test("rules are listed in the order in which they win, page by page", async () => {
  const { id: client_id, one, two } = await shop();
  const rule = async (name: string, priority: number, when: object = coupon, partner = one) =>
    (await send("POST", "/api/rules", { client_id, ...credits(partner), name, priority, when })).body.id;
  await rule("third", 1);
  await rule("fourth", 1);
  await rule("fifth", 1, { field: "country", op: "eq", value: "MX" });
  await rule("second", 1, { all: [coupon, { not: { field: "country", op: "in", value: ["MX", "US"] } }] }, two);
  await rule("first", 2);
  await rule("last", -7);
  const order = ["first", "second", "third", "fourth", "fifth", "last"];
  const found: string[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const { body } = await read(
      `/api/rules?client_id=${client_id}&limit=2${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`,
    );
    found.push(...body.data.map(({ name }: { name: string }) => name));
    cursor = body.next_cursor;
  }
  expect(found).toEqual(order);
  const namesOf = async (query: string) =>
    (await read(`/api/rules?client_id=${client_id}${query}`)).body.data.map(({ name }: { name: string }) => name);
  expect(await namesOf(`&partner_id=${two}`)).toEqual(["second"]);
  expect(await namesOf("&status=inactive")).toEqual([]);
  expect((await namesOf("&sort=-updated_at"))[0]).toBe("last");
  expect((await read(`/api/rules?client_id=${client_id}&sort=name`)).status).toBe(400);
});

describe("by role", () => {
  test("a viewer reads rules and no address; a partner and a client are refused", async () => {
    const { id: client_id, one } = await shop();
    const { body } = await send("POST", "/api/rules", { client_id, ...credits(one) });
    const shown = await read(`/api/rules/${body.id}`, "viewer");
    expect([shown.status, shown.body.versions[0].by]).toEqual([200, "a***@demo.tributary.test"]);
    expect((await send("POST", "/api/rules", { client_id, ...credits(one) }, "viewer")).status).toBe(403);
    for (const role of ["partner", "client"])
      expect((await read(`/api/rules/${body.id}`, role)).status, role).toBe(403);
  });

  test("a rule of a client that a manager does not see answers as one that does not exist", async () => {
    const { id: client_id, one } = await shop();
    const { body } = await send("POST", "/api/rules", { client_id, ...credits(one) });
    const unknown = 2_000_000_000;
    for (const [method, given] of [
      ["GET", undefined],
      ["PUT", credits(one)],
      ["DELETE", undefined],
    ] as const) {
      const [foreign, none] = [
        await send(method, `/api/rules/${body.id}`, given, "manager"),
        await send(method, `/api/rules/${unknown}`, given, "manager"),
      ];
      const said = ({ text }: { text: string }) =>
        text
          .replaceAll(String(body.id), "ID")
          .replaceAll(String(unknown), "ID")
          .replace(/"request_id":"[^"]+"/, "");
      expect([foreign.status, said(foreign)], method).toEqual([404, said(none)]);
    }
    expect((await send("POST", "/api/rules", { client_id, ...credits(one) }, "manager")).status).toBe(404);
    expect((await read(`/api/rules?client_id=${client_id}`, "manager")).status).toBe(404);
    const { data } = (await read("/api/rules?limit=100", "manager")).body;
    expect(data.some((rule: { client_id: number }) => rule.client_id === client_id)).toBe(false);
    expect((await read(`/api/rules/${body.id}`)).body.version).toBe(1);
  });

  test("no rule is saved below an archived client", async () => {
    const { id: client_id, one } = await shop();
    const { body } = await send("POST", "/api/rules", { client_id, ...credits(one) });
    await send("DELETE", `/api/clients/${client_id}`);
    expect((await send("POST", "/api/rules", { client_id, ...credits(one) })).body.code).toBe("client_archived");
    expect((await send("PUT", `/api/rules/${body.id}`, credits(one))).body.code).toBe("client_archived");
    expect((await read(`/api/rules/${body.id}`)).status).toBe(200);
  });
});
