// Invitations over HTTP: a mail with a link, accepted once, visible to those who see the client or
// the partner, and stored without the token.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readMail } from "../../infra/mail/read-mail.ts";
import { sql } from "../../infra/postgres/sql.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { apiSuite } from "../support/api-suite.ts";

const PORTAL = "https://portal.example";
const portal = { PORTAL_URL: PORTAL, TRUSTED_PROXIES: "loopback" };
const { demo, pool, owner, ask, as, running, fresh } = apiSuite(portal);
const own = demo.clients[0].id as number;
/** A client and a partner that no manager has. */
let foreign: { readonly client: number; readonly partner: number };
beforeAll(async () => {
  const { idOf } = await writeReference(pool, "test", {
    clients: [{ client_id: -1, slug: `inv-${Date.now().toString(36)}`, name: "Far" }],
    partners: [{ partner_id: -1, name: "Far", email: "far@people.example", client_ids: [-1] }],
  });
  foreign = { client: idOf("clients", -1), partner: idOf("partners", -1) };
});
// Other suites count users.
afterAll(() => owner.query("delete from users where email like '%@invited.example'"));

const post = (path: string, body: object, role = "manager", headers: Record<string, string> = {}) =>
  as(role, path, { method: "POST", body, headers });
const address = (): string => `${fresh("i")}@invited.example`;
/** An invited partner of the manager's client. */
const newPartner = async (): Promise<number> => {
  const partners = [
    { partner_id: -1, name: "Near & <b>", email: "near@people.example", status: "invited" as const, client_ids: [own] },
  ];
  return (await writeReference(pool, "test", { partners })).idOf("partners", -1);
};
const mailsTo = (email: string) =>
  running()
    .mails()
    .map(readMail)
    .filter(({ to }) => to === email);
const mailTo = async (email: string, count = 1) => {
  await until(`${count} mails to ${email}`, 60_000, async () => {
    if (mailsTo(email).length < count) throw new Error(`${mailsTo(email).length} came`);
  });
  return mailsTo(email)[count - 1]!;
};
const tokenIn = (text: string): string => /trb_invitation_[\w-]{43}/.exec(text)![0];
const invite = async (kind: "partner" | "client" = "client") => {
  const [email, partner] = [address(), kind === "partner" ? await newPartner() : 0];
  const path = kind === "client" ? "/api/client-invitations" : "/api/invitations";
  const { body } = await post(path, kind === "client" ? { email, client_id: own } : { email, partner_id: partner });
  return { email, partner, path, id: body.id as string, token: tokenIn((await mailTo(email)).text) };
};
let senders = 0;
/** Each request comes from an address of its own, because an address has 60 requests a minute. */
const from = () => {
  senders += 1;
  return { "x-forwarded-for": `198.51.100.${senders}` };
};
const accept = (path: string, token: string, more: object = {}) =>
  ask(`${path}/accept`, { method: "POST", body: { token, name: "Iris", ...more }, headers: from() });
const verify = (path: string, token: string) => ask(`${path}/verify?token=${token}`, { headers: from() });
const rowOf = async (id: string) =>
  (await owner.query(sql`select * from invitations where invitation_id = ${Number(id.slice(4))}`)).rows[0];
const usersOf = async (email: string) =>
  (await owner.query(sql`select role, partner_id, client_ids, name from users where email = ${email}`)).rows;
const auditOf = async (id: string) =>
  (
    await owner.query(sql`
      select action, actor, client_id from audit where entity = ${`invitation:${id.slice(4)}`} order by audit_id`)
  ).rows;

describe("an invitation", () => {
  test("is mailed once with a link that is good for a week, and its token is kept nowhere", async () => {
    const [email, partner] = [address(), await newPartner()];
    const body = { email: email.toUpperCase(), partner_id: partner };
    const first = await post("/api/invitations", body, "manager", { "idempotency-key": email });
    expect([first.status, first.headers.get("location")]).toEqual([201, `/api/invitations/${first.body.id}`]);
    expect(first.body).toEqual({
      ...{ id: expect.stringMatching(/^inv_\d+$/), email, partner_id: partner, role: "partner", status: "pending" },
      ...{ invited_by: "manager@demo.tributary.test", created_at: expect.any(String), accepted_at: null },
      updated_at: expect.any(String),
      expires_at: expect.any(String),
    });
    const days = (Date.parse(first.body.expires_at) - Date.parse(first.body.created_at)) / 86_400_000;
    expect(days).toBeCloseTo(7, 3);
    expect((await post("/api/invitations", body, "manager", { "idempotency-key": email })).text).toBe(first.text);
    const { text, html, subject } = await mailTo(email);
    expect(subject).toMatch(/^Invitación para trabajar con /);
    expect(text).toContain("Demo Client Manager le invita a trabajar con ");
    const token = tokenIn(text);
    expect(text).toContain(`${PORTAL}/invitation#${token}`);
    expect(html).toContain(`<a href="${PORTAL}/invitation#${token}">`);
    for (const table of ["invitations", "mails", "audit", "idempotency_keys", "outbox"]) {
      const { rows } = await owner.query(sql`
        select 1 from ${{ text: table, values: [] }} kept where strpos(kept::text, ${token}) > 0`);
      expect(rows, table).toEqual([]);
    }
    const listed = await as("manager", `/api/invitations?email=${email}`);
    expect(listed.body.data).toEqual([first.body]);
    expect(await auditOf(first.body.id)).toEqual([
      { action: "invitation.created", actor: "manager@demo.tributary.test", client_id: null },
    ]);
    const mails = (await as("admin", "/api/mails?status=sent")).body.data;
    expect(mails).toContainEqual(
      expect.objectContaining({ recipient: email, template: "invitation_partner", status: "sent", attempts: 1 }),
    );
    expect(mailsTo(email)).toHaveLength(1);
  });

  test("is in the language of who invites, and a name of tags is text", async () => {
    await as("manager", "/api/auth/me", { method: "PATCH", body: { locale: "en", name: "Max <i>&" } });
    try {
      const { email } = await invite();
      const { text, html, subject } = await mailTo(email);
      expect(subject).toMatch(/^Access to the .* portal$/);
      expect(text).toContain("Max <i>& invites you to the portal of ");
      expect(html).toContain("Max &#60;i&#62;&#38; invites you");
    } finally {
      await as("manager", "/api/auth/me", { method: "PATCH", body: { locale: "es", name: "Demo Client Manager" } });
    }
  });

  test("of a partner is looked at without a trace, accepted, and makes the partner active", async () => {
    const { email, partner, path, id, token } = await invite("partner");
    const before = await rowOf(id);
    const seen = await verify(path, token);
    expect(seen.body).toEqual({
      ...{ valid: true, kind: "partner", status: "pending", email: `i***${email.slice(email.indexOf("@"))}` },
      ...{ name: "Near & <b>", expires_at: new Date(before.expires_at).toISOString() },
    });
    expect(await rowOf(id)).toEqual(before);
    const done = await accept(path, token);
    expect([done.status, done.body]).toEqual([200, { status: "accepted", kind: "partner", email, login_url: PORTAL }]);
    expect(await usersOf(email)).toEqual([{ role: "partner", partner_id: partner, client_ids: [own], name: "Iris" }]);
    const { rows } = await owner.query(sql`
      select status from partners where partner_id = ${partner} order by version desc limit 1`);
    expect(rows).toEqual([{ status: "active" }]);
    const me = await ask("/api/auth/me", { token: await running().signed({ sub: email, email }) });
    expect(me.body).toMatchObject({ role: "partner", partner_id: partner });
    expect((await verify(path, token)).body).toMatchObject({ valid: false, status: "accepted" });
    expect((await accept(path, token)).body.code).toBe("invitation_used");
    expect((await auditOf(id)).map(({ action, actor }) => [action, actor])).toEqual([
      ["invitation.created", "manager@demo.tributary.test"],
      ["invitation.accepted", email],
    ]);
    await until("the inviter knows", 20_000, async () => {
      const came = mailsTo("manager@demo.tributary.test").filter(({ text }) => text.includes("Near & <b>"));
      if (!came.some(({ subject }) => subject === "Iris ha aceptado")) throw new Error("no mail yet");
    });
  });

  test("of twenty who accept it at once lets one in, as the user of that client", async () => {
    const { email, path, id, token } = await invite();
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => accept(path, token, { name: `N ${n}` })));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(409)]);
    expect(new Set(answers.filter(({ status }) => status === 409).map(({ body }) => body.code))).toEqual(
      new Set(["invitation_used"]),
    );
    expect(await usersOf(email)).toEqual([
      { role: "client_user", partner_id: null, client_ids: [own], name: expect.stringMatching(/^N \d+$/) },
    ]);
    expect((await auditOf(id)).map(({ action, client_id }) => [action, client_id])).toEqual([
      ["invitation.created", own],
      ["invitation.accepted", own],
    ]);
  });

  test("is pending once; sent again the one before is dead, and each has its mail", async () => {
    const { email, path, id, token } = await invite();
    const again = await post(path, { email, client_id: own });
    expect([again.status, again.body]).toMatchObject([409, { code: "invitation_pending", invitation_id: id }]);
    const resent = await post(path, { email, client_id: own, resend: true });
    expect([resent.status, resent.body.status]).toEqual([201, "pending"]);
    const newer = tokenIn((await mailTo(email, 2)).text);
    expect(newer).not.toBe(token);
    expect((await accept(path, token)).body.code).toBe("invitation_revoked");
    expect((await auditOf(id)).map(({ action }) => action)).toEqual(["invitation.created", "invitation.revoked"]);
    expect((await auditOf(resent.body.id)).map(({ action }) => action)).toEqual(["invitation.resent"]);
    expect((await accept(path, newer)).status).toBe(200);
    const taken = await post(path, { email, client_id: own });
    expect([taken.status, taken.body.code]).toEqual([409, "email_in_use"]);
  });

  test("of a week ago is expired, and makes way for another", async () => {
    const { email, path, id, token } = await invite();
    await owner.query(sql`
      update invitations set expires_at = clock_timestamp() where invitation_id = ${Number(id.slice(4))}`);
    expect((await verify(path, token)).body).toMatchObject({ valid: false, status: "expired" });
    expect((await accept(path, token)).body.code).toBe("invitation_expired");
    expect(await usersOf(email)).toEqual([]);
    expect((await post(path, { email, client_id: own })).status).toBe(201);
  });

  test("is revoked while it is pending, by its id or its token, once", async () => {
    for (const by of ["id", "token"] as const) {
      const one = await invite();
      const end = () => as("manager", `${one.path}/${one[by]}`, { method: "DELETE" });
      expect([(await end()).status, (await end()).status], by).toEqual([204, 404]);
      expect((await accept(one.path, one.token)).body.code).toBe("invitation_revoked");
    }
    const { path, id, token } = await invite("partner");
    await accept(path, token);
    const late = await as("manager", `${path}/${id}`, { method: "DELETE" });
    expect([late.status, late.body.code]).toEqual([409, "invalid_transition"]);
  });

  test("has no role but that of its kind, and its token is good for its kind alone", async () => {
    const { path, token, email } = await invite();
    for (const more of [{ role: "admin" }, { email: address() }, { client_ids: [1] }, { name: "" }])
      expect((await accept(path, token, more)).status, JSON.stringify(more)).toBe(400);
    for (const answer of [
      await accept("/api/invitations", token),
      await verify("/api/invitations", token),
      await verify(path, `trb_invitation_${"A".repeat(43)}`),
      await accept(path, "x"),
    ])
      expect([answer.status, answer.body.code]).toEqual([404, "not_found"]);
    expect(await usersOf(email)).toEqual([]);
    for (const body of [{ role: "admin" }, { token: "x" }, { invited_by: "x" }, { partner_id: 1 }, { email: "x" }])
      expect((await post(path, { email: address(), client_id: own, ...body })).status, JSON.stringify(body)).toBe(400);
  });

  test("of a partner is revoked with the end of that partner, and the audit says which", async () => {
    const { partner, token, id, path } = await invite("partner");
    const other = await invite("partner");
    expect((await as("admin", `/api/partners/${partner}`, { method: "DELETE" })).status).toBe(204);
    expect((await verify(path, token)).body.status).toBe("revoked");
    expect((await verify(path, other.token)).body.status).toBe("pending");
    const { rows } = await owner.query<{ after: { revoked_invitations: number[] } }>(sql`
      select after from audit where action = 'partner.archived' and entity = ${`partner:${partner}`}`);
    expect(rows[0]!.after.revoked_invitations.map((one) => `inv_${one}`)).toEqual([id]);
  });

  test("leads nowhere when its client was archived since", async () => {
    const { idOf } = await writeReference(pool, "test", {
      clients: [{ client_id: -1, slug: `end-${Date.now().toString(36)}`, name: "End" }],
    });
    const [client, email] = [idOf("clients", -1), address()];
    await post("/api/client-invitations", { email, client_id: client }, "admin");
    const token = tokenIn((await mailTo(email)).text);
    await as("admin", `/api/clients/${client}`, { method: "DELETE" });
    const { body } = await verify("/api/client-invitations", token);
    expect(body.status).toBe("revoked");
    expect((await accept("/api/client-invitations", token)).body.code).toBe("invitation_revoked");
    expect(await usersOf(email)).toEqual([]);
    const more = await post("/api/client-invitations", { email, client_id: client, resend: true }, "admin");
    expect([more.status, more.body.code]).toEqual([409, "client_archived"]);
  });
});

describe("by role", () => {
  test("a manager invites to what it has; a foreign one is an unknown one, byte for byte", async () => {
    const same = { "x-request-id": "same" };
    const never = 2_000_000_000;
    for (const [path, field, id] of [
      ["/api/invitations", "partner_id", foreign.partner],
      ["/api/client-invitations", "client_id", foreign.client],
    ] as const) {
      const email = address();
      const hidden = await post(path, { email, [field]: id }, "manager", same);
      const unknown = await post(path, { email, [field]: never }, "manager", same);
      expect([hidden.status, hidden.text]).toEqual([404, unknown.text]);
      const { body } = await post(path, { email, [field]: id }, "admin");
      expect((await as("manager", `${path}?limit=100`)).text).not.toContain(email);
      const end = (of: string) => as("manager", `${path}/${of}`, { method: "DELETE", headers: same });
      const [foreignOne, none] = [await end(body.id), await end(`inv_${never}`)];
      expect([foreignOne.status, foreignOne.text.replaceAll(body.id, "N")]).toEqual([
        404,
        none.text.replaceAll(`inv_${never}`, "N"),
      ]);
      expect((await as("admin", `${path}/${body.id}`, { method: "DELETE" })).status).toBe(204);
    }
  });

  test("a viewer sees no address, also by asking for one; the others are refused", async () => {
    const { email, path } = await invite();
    const seen = await as("viewer", `${path}?limit=1`);
    expect(seen.body.data[0]).toMatchObject({
      email: expect.stringMatching(/^.\*\*\*@/),
      invited_by: "m***@demo.tributary.test",
    });
    expect(seen.text).not.toContain(email);
    expect((await as("viewer", `${path}?email=${email}`)).status).toBe(400);
    for (const role of ["partner", "client", "viewer"])
      for (const [method, of] of [
        ["POST", "/api/invitations"],
        ["POST", "/api/client-invitations"],
        ["DELETE", "/api/invitations/inv_1"],
        ["DELETE", "/api/client-invitations/inv_1"],
        ["GET", "/api/mails"],
      ] as const)
        expect((await as(role, of, { method })).status, `${role} ${method} ${of}`).toBe(403);
    for (const role of ["partner", "client"]) expect((await as(role, path)).status).toBe(403);
  });
});
