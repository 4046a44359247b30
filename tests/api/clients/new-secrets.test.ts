// New secrets over HTTP: each is shown once, the former one stops working, and the mail about it
// does not hold the value.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readMail } from "../../../infra/mail/read-mail.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { openTokens, type Tokens } from "../../../modules/access/tokens/live-tokens.ts";
import { insertUser } from "../../../modules/access/users/create.ts";
import { withUsers } from "../../../modules/access/users/users.ts";
import { apiSuite } from "../../support/api-suite.ts";

const { demo, pool, owner, tokens, ask, running } = apiSuite();
let live: Tokens;
beforeAll(() => {
  live = openTokens(pool, { pollMs: 100 });
});
afterAll(async () => {
  await live.close();
  await owner.query("delete from users where email like '%@secrets.example'");
});

const shop = demo.clients[0].id as number;
let made = 0;
const unique = (): string => {
  made += 1;
  return `${Date.now().toString(36)}-${made}`;
};
const post = (path: string, body?: unknown, role = "admin") => ask(path, { method: "POST", token: tokens[role], body });
const created = async (path: string, body: object) => {
  const answer = await post(path, body);
  expect(answer.status, answer.text).toBe(201);
  return answer.body.id as number;
};
const newClient = () => created("/api/clients", { name: "A & shop", slug: `sec-${unique()}` });
const newPartner = (client_ids: readonly number[], email = `${unique()}@secrets.example`) =>
  created("/api/partners", { name: "Radio <b>", email, client_ids });
const rotate = (partner: number, role = "admin", body?: unknown) =>
  post(`/api/partners/${partner}/upload-credentials/rotate`, body, role);
const mailsTo = async (email: string, count: number) => {
  const mails = () =>
    running()
      .mails()
      .map(readMail)
      .filter(({ to }) => to === email);
  await until(`${count} mails to ${email}`, 20_000, async () => {
    if (mails().length < count) throw new Error(`${mails().length} came`);
  });
  return mails();
};
const isLive = async (token: string, wanted: boolean) => {
  await until(`a token is ${wanted ? "live" : "dead"}`, 30_000, async () => {
    if ((live.find(token) !== undefined) !== wanted) throw new Error("not yet");
  });
};

describe("an upload token", () => {
  test("is shown once, and the former is dead", async () => {
    const partner = await newPartner([shop]);
    const first = await rotate(partner);
    expect(first.status, first.text).toBe(200);
    expect(first.body).toEqual({
      upload_token: expect.stringMatching(/^trb_upload_[A-Za-z0-9_-]{43}$/),
      prefix: first.body.upload_token.slice(0, 15),
      rotated_at: expect.stringMatching(/Z$/),
    });
    await isLive(first.body.upload_token, true);
    const second = await rotate(partner, "manager");
    await isLive(second.body.upload_token, true);
    await isLive(first.body.upload_token, false);
    const { body } = await ask(`/api/partners/${partner}`, { token: tokens.admin });
    expect(body.upload_token).toEqual({ prefix: second.body.prefix, last_used_at: null });
    const { rows } = await owner.query(
      sql`select action, client_id, after from audit where entity = ${`partner:${partner}`} order by audit_id`,
    );
    const { prefix } = first.body;
    expect(rows.slice(1)).toEqual([
      { action: "upload_token.rotated", client_id: shop, after: { prefix } },
      { action: "upload_token.rotated", client_id: shop, after: { prefix: second.body.prefix } },
    ]);
    expect(JSON.stringify(rows)).not.toContain(first.body.upload_token);
  });

  test("is made by one of many at once last, and one is live", async () => {
    const partner = await newPartner([shop]);
    const answers = await Promise.all(Array.from({ length: 8 }, () => rotate(partner)));
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
    const { rows } = await owner.query(
      sql`select prefix from tokens where kind = 'upload' and partner_id = ${partner} and revoked_at is null`,
    );
    expect(rows).toHaveLength(1);
    expect(answers.map(({ body }) => body.prefix)).toContain(rows[0].prefix);
  });

  test("is mailed about to the partner's users, each in its language, without the token", async () => {
    const partner = await newPartner([shop]);
    const known = { client: () => true, partner: () => true };
    const people = [`${unique()}@secrets.example`, `${unique()}@secrets.example`] as const;
    await withUsers(pool, async (tx) => {
      const user = { name: "P", role: "partner", partner_id: partner } as const;
      await insertUser(tx, { ...user, email: people[0] }, known);
      await insertUser(tx, { ...user, email: people[1], locale: "en" }, known);
    });
    const { body } = await rotate(partner);
    const [spanish] = await mailsTo(people[0], 1);
    expect(spanish).toMatchObject({ subject: "Su token de carga ha cambiado" });
    expect(spanish!.html).toContain("Radio &#60;b&#62;");
    const [english] = await mailsTo(people[1], 1);
    expect(english).toMatchObject({ subject: "Your upload token has changed" });
    expect(english!.messageId).not.toBe(spanish!.messageId);
    for (const { text, html } of [spanish!, english!]) expect(text + html).not.toContain(body.upload_token);
    await rotate(partner);
    expect(await mailsTo(people[0], 2)).toHaveLength(2);
  });

  test("of a partner without users is announced to the partner's own address", async () => {
    const email = `${unique()}@secrets.example`;
    await rotate(await newPartner([shop], email));
    expect((await mailsTo(email, 1)).map(({ subject }) => subject)).toEqual(["Su token de carga ha cambiado"]);
  });

  test("is made by those who are responsible for the partner, and for one that is still there", async () => {
    const foreign = await newPartner([await newClient()]);
    const plain = ({ text }: { text: string }) => text.replace(/"(instance|request_id)":"[^"]*"/g, "");
    const [theirs, none] = [await rotate(foreign, "manager"), await rotate(2_000_000_000, "manager")];
    expect([theirs.status, plain(theirs)]).toEqual([404, plain(none)]);
    for (const role of ["partner", "client", "viewer"]) expect((await rotate(foreign, role)).status).toBe(403);
    const field = await rotate(foreign, "admin", { upload_token: "mine" });
    expect([field.status, field.body.errors]).toMatchObject([400, [{ pointer: "/upload_token" }]]);
    await ask(`/api/partners/${foreign}`, { method: "DELETE", token: tokens.admin });
    const late = await rotate(foreign);
    expect([late.status, late.body.code]).toEqual([409, "partner_archived"]);
  });
});

describe("a signing secret", () => {
  test("that was made again is mailed about to admins and the client's managers, without its value", async () => {
    const client = await newClient();
    const mine = { name: "M", role: "client_manager" } as const;
    const known = { client: () => true, partner: () => true };
    const [manager, other] = [`${unique()}@secrets.example`, `${unique()}@secrets.example`] as const;
    await withUsers(pool, async (tx) => {
      await insertUser(tx, { ...mine, email: manager, client_ids: [client], locale: "en" }, known);
      await insertUser(tx, { ...mine, email: other, client_ids: [shop] }, known);
    });
    const { status, body } = await post(`/api/clients/${client}/pixel-config/regenerate-secret`);
    expect(status).toBe(200);
    const [mail] = await mailsTo(manager, 1);
    expect(mail).toMatchObject({ subject: "New signing secret for A & shop" });
    expect(mail!.text + mail!.html).not.toContain(body.hmac_secret);
    const toAdmin = await mailsTo("admin@demo.tributary.test", 1);
    expect(toAdmin.some(({ subject }) => subject === "Nuevo secreto de firma de A & shop")).toBe(true);
    const { rows } = await owner.query(
      sql`select recipient from mails where template = 'secret_regenerated' and recipient = any (${[other]})`,
    );
    expect(rows).toEqual([]);
  });
});

describe("a launch", () => {
  test("brings each partner its link, its days and what is paid for, and no rate", async () => {
    const client = await newClient();
    const [one, two] = [`${unique()}@secrets.example`, `${unique()}@secrets.example`] as const;
    const partners = [await newPartner([client], one), await newPartner([client], two)];
    const campaign = await created("/api/campaigns", {
      ...{ client_id: client, name: "Summer", destination_url: "https://shop.example/" },
      ...{ starts_on: "2090-02-01", ends_on: "2090-02-28" },
    });
    const contract = { event_type: "purchase", type: "percent", rate: "12.34", effective_from: "2090-01-01" };
    const { status, body } = await post(`/api/campaigns/${campaign}/launch`, {
      partners,
      commissions: [{ partner_id: partners[0], ...contract }],
    });
    expect(status).toBe(200);
    const [mail] = await mailsTo(one, 1);
    expect(mail!.subject).toBe("Summer: su enlace");
    const link = body.links.find(({ partner_id }: any) => partner_id === partners[0]).url;
    expect(mail!.text).toContain(link);
    expect(mail!.text).toContain("desde el 1 de febrero de 2090 hasta el 28 de febrero de 2090");
    expect(mail!.text).toContain("Se le paga por: purchase.");
    expect(mail!.text).not.toMatch(/12[.,]34/);
    const [other] = await mailsTo(two, 1);
    expect(other!.text).not.toContain("Se le paga");
    expect(other!.text).not.toContain(link);
  });
});
