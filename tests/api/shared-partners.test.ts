// A partner may work for clients of several managers. What acts at all of its clients needs all of
// them, and what a manager gives to a partner stays with the clients that the manager has.
import { afterAll, describe, expect, test } from "vitest";
import { permissionsOf } from "../../apps/api/permissions.ts";
import { readRouteTable } from "../../apps/api/route-table.ts";
import { routesOf } from "../../apps/api/routes.ts";
import { sql } from "../../infra/postgres/sql.ts";
import { openTokens } from "../../modules/access/tokens/live-tokens.ts";
import { apiSuite } from "../support/api-suite.ts";

const { demo, pool, owner, ask, send, read, running, fresh } = apiSuite();
/** The clients of the manager. */
const shops: readonly number[] = demo.clients.map(({ id }: { id: number }) => id);
const own = shops[0]!;
const address = (): string => `${fresh("s")}@shared.example`;
// Other suites count users.
afterAll(() => owner.query("delete from users where email like '%@shared.example'"));

const made = async (path: string, body: object) => {
  const answer = await send("POST", path, body);
  expect(answer.status, answer.text).toBe(201);
  return answer.body;
};
/** A client that the manager does not have. */
const foreignClient = async (): Promise<number> =>
  (await made("/api/clients", { name: "Far shop", slug: fresh("s") })).id;
const partnerOf = async (...client_ids: readonly number[]): Promise<number> =>
  (await made("/api/partners", { name: "A partner", email: address(), client_ids })).id;
/** A partner of the manager's client that has worked for a foreign one, too. */
const formerlyShared = async (): Promise<number> => {
  const id = await partnerOf(own, await foreignClient());
  expect((await send("PATCH", `/api/partners/${id}`, { client_ids: [own] })).status).toBe(200);
  return id;
};
const refusal = ({ status, body }: { readonly status: number; readonly body: any }) => [status, body.code];
const SHARED = [403, "shared_partner"];

type Attempt = readonly [what: string, attempt: (partner: number) => Promise<{ status: number; body: any }>];
const patch =
  (body: object): Attempt[1] =>
  (id) =>
    send("PATCH", `/api/partners/${id}`, body, "manager");
const attempts: readonly Attempt[] = [
  ["rotates the upload token of", (id) => send("POST", `/api/partners/${id}/upload-credentials/rotate`, {}, "manager")],
  ["makes an upload token of", (id) => send("POST", "/api/tokens", { kind: "upload", partner_id: id }, "manager")],
  [
    "ends the upload token of",
    async (partner_id) => {
      const { id } = await made("/api/tokens", { kind: "upload", partner_id });
      return send("DELETE", `/api/tokens/${id}`, undefined, "manager");
    },
  ],
  ["invites a person of", (id) => send("POST", "/api/invitations", { email: address(), partner_id: id }, "manager")],
  [
    "revokes an invitation of",
    async (partner_id) => {
      const { id } = await made("/api/invitations", { email: address(), partner_id });
      return send("DELETE", `/api/invitations/${id}`, undefined, "manager");
    },
  ],
  ["renames", patch({ name: "Mine" })],
  ["pauses", patch({ status: "paused" })],
  ["gives another address to", patch({ email: "mine@shared.example" })],
  ["gives another account to", patch({ payout: { min_amount: "9" } })],
  ["gives another code to", patch({ referral_code: "mine" })],
];
const stateOf = async (partner: number) =>
  (
    await owner.query(sql`
      select (select count(*)::int from partners where partner_id = ${partner}) as versions,
        (select count(*)::int from tokens where partner_id = ${partner} and revoked_at is null) as tokens,
        (select count(*)::int from invitations where partner_id = ${partner} and revoked_at is null) as invitations`)
  ).rows[0];

describe.each([
  ["a partner that also works for a foreign client", async () => partnerOf(own, await foreignClient())],
  ["a partner that has worked for a foreign client", formerlyShared],
] as const)("of %s", (_, given) => {
  test.each(attempts)("no manager %s it", async (what, attempt) => {
    const partner = await given();
    const before = await stateOf(partner);
    expect(refusal(await attempt(partner))).toEqual(SHARED);
    const after = await stateOf(partner);
    if (what.startsWith("ends")) expect(after.tokens).toBe(1);
    else if (what.startsWith("revokes")) expect(after.invitations).toBe(1);
    else expect(after).toEqual(before);
  });
});

test("the page of permissions says the same", async () => {
  const told = permissionsOf(readRouteTable(), await routesOf({} as never)).flatMap(
    ({ method, path, shared_partner: what }) => (what === "" ? [] : `${method} ${path}: ${what}`),
  );
  expect(told).toEqual([
    "POST /api/invitations: always",
    "PATCH /api/partners/:id: all fields but client_ids",
    "POST /api/partners/:id/upload-credentials/rotate: always",
    "DELETE /api/invitations/:id: always",
    "POST /api/tokens: an upload token",
    "DELETE /api/tokens/:id: an upload token",
  ]);
});

test.each(attempts)("a manager %s a partner of its own clients alone", async (_, attempt) => {
  const { status, body } = await attempt(await partnerOf(...shops.slice(0, 2)));
  expect(status, JSON.stringify(body)).toBeLessThan(300);
});

const upload = async (partner_id: number, role: string): Promise<string> =>
  (await send("POST", `/api/partners/${partner_id}/upload-credentials/rotate`, {}, role)).body.upload_token;
const boundOf = async (token: string) => {
  const tokens = openTokens(pool);
  await tokens.ready;
  const found = tokens.find(token);
  await tokens.close();
  return found!.client_ids;
};

test("an upload token of a manager is good for the clients of that day, one of an admin for all", async () => {
  const partner = await partnerOf(own);
  const ofManager = await upload(partner, "manager");
  const joined = await send("PATCH", `/api/partners/${partner}`, { client_ids: [own, await foreignClient()] });
  expect(joined.status).toBe(200);
  expect(await boundOf(ofManager)).toEqual([own]);
  expect(await boundOf(await upload(partner, "admin"))).toBeNull();
  const other = await partnerOf(own);
  const { body } = await send("POST", "/api/tokens", { kind: "upload", partner_id: other }, "manager");
  expect(await boundOf(body.token)).toEqual([own]);
});

/** Lets a person accept an invitation of this role, and returns a token of that person. */
const accepted = async (partner_id: number, role: string): Promise<string> => {
  const email = address();
  const { body } = await send("POST", "/api/invitations", { email, partner_id }, role);
  const { rows } = await owner.query(sql`
    select kind, partner_id, client_ids from invitations where invitation_id = ${Number(body.id.slice(4))}`);
  await owner.query(sql`
    insert into users (email, name, role, partner_id, client_ids)
    values (${email}, 'Iris', 'partner', ${partner_id}, ${rows[0].client_ids ?? []})`);
  return running().signed({ sub: email, email });
};
test("a person whom a manager invites does not see the clients that the partner joins later", async () => {
  const partner = await partnerOf(own);
  const [bound, free] = [await accepted(partner, "manager"), await accepted(partner, "admin")];
  const foreign = await foreignClient();
  expect((await send("PATCH", `/api/partners/${partner}`, { client_ids: [own, foreign] })).status).toBe(200);
  const clients = async (token: string) => (await ask(`/api/partners/${partner}`, { token })).body.client_ids;
  expect(await clients(bound)).toEqual([own]);
  expect((await clients(free)).sort()).toEqual([own, foreign].sort());
  const dashboard = (token: string, client: number) =>
    ask(`/api/partners/${partner}/dashboard?client_id=${client}`, { token });
  expect([(await dashboard(bound, foreign)).status, (await dashboard(free, foreign)).status]).toEqual([404, 200]);

  const { body } = await read(`/api/users?q=${encodeURIComponent("Iris")}`);
  const [user] = body.data.filter(({ client_ids, partner_id }: any) => partner_id === partner && client_ids.length > 0);
  const widened = await send("PATCH", `/api/users/${user.id}`, { client_ids: [] });
  expect([widened.status, widened.body.client_ids]).toEqual([200, []]);
  expect((await dashboard(bound, foreign)).status).toBe(200);
});
