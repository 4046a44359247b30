// The platform API and the command line refuse the same changes of users and tokens, and a change
// through either has the same consequences.
import { afterAll, describe, expect, test } from "vitest";
import { inWork, operatorAct } from "../../../apps/cli/work.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { issueToken } from "../../../modules/access/tokens/issue.ts";
import { endToken } from "../../../modules/access/tokens/revoke.ts";
import { changeUser } from "../../../modules/access/users/change.ts";
import { createUser } from "../../../modules/access/users/create.ts";
import { resetUser } from "../../../modules/access/users/reset.ts";
import type { Work } from "../../../modules/base/work.ts";
import { apiSuite } from "../../support/api-suite.ts";
import { expectSame, type Shop, thrownBy, twoDoors } from "../../support/two-doors.ts";

const suite = apiSuite();
const { owner, pool, send, read, fresh } = suite;
const { newShop, shopAfter, archived } = twoDoors(suite);
// Other suites count admins and users.
afterAll(() => owner.query("delete from users where email like '%@doors.example'"));

const UNKNOWN = 2_000_000_000;
const address = () => `${fresh("u")}@doors.example`;
const commanded = (useCase: (work: Work) => Promise<unknown>) => inWork(pool, operatorAct("ana@cli"), useCase);

interface Case {
  readonly code: string;
  readonly given: () => Promise<Shop>;
  readonly request: (shop: Shop) => readonly [method: string, path: string, body: object];
  readonly useCase: (shop: Shop) => (work: Work) => Promise<unknown>;
}
const refusesAlike = (cases: readonly Case[]): void =>
  test.each(cases)("$code", async ({ code, given, request, useCase }) => {
    const shop = await given();
    const answer = await send(...request(shop));
    expectSame(code, answer, await thrownBy(() => commanded(useCase(shop))));
  });

const made = (user: object): Pick<Case, "request" | "useCase"> => {
  const body = { email: address(), name: "Vera", role: "viewer", ...user };
  return { request: () => ["POST", "/api/users", body], useCase: () => (work) => createUser(work, body as never) };
};
const changed = (user_id: number, patch: object): Pick<Case, "request" | "useCase"> => ({
  request: () => ["PATCH", `/api/users/${user_id}`, patch],
  useCase: () => (work) => changeUser(work, { user: { user_id }, patch }),
});
const issued = (kind: "ingest" | "upload", of: (shop: Shop) => object): Pick<Case, "request" | "useCase"> => ({
  request: (shop) => ["POST", "/api/tokens", { kind, ...of(shop) }],
  useCase: (shop) => (work) => issueToken(work, { kind, label: "t", ...of(shop) }),
});

describe("users are refused the same", () =>
  refusesAlike([
    { code: "bad_user", given: newShop, ...made({ email: "no address" }) },
    { code: "bad_user", given: newShop, ...made({ client_ids: [UNKNOWN] }) },
    { code: "bad_user", given: newShop, ...made({ role: "admin", client_ids: [1] }) },
    { code: "email_in_use", given: newShop, ...made({ email: "admin@demo.tributary.test" }) },
    { code: "not_found", given: newShop, ...changed(UNKNOWN, { name: "x" }) },
  ]));

describe("tokens are refused the same", () =>
  refusesAlike([
    {
      code: "client_archived",
      given: shopAfter(archived("/api/clients/:client")),
      ...issued("ingest", ({ client: client_id }) => ({ client_id })),
    },
    {
      code: "partner_archived",
      given: shopAfter(archived("/api/partners/:partner")),
      ...issued("upload", ({ partner: partner_id }) => ({ partner_id })),
    },
    { code: "not_found", given: newShop, ...issued("ingest", () => ({ client_id: UNKNOWN })) },
    { code: "not_found", given: newShop, ...issued("upload", () => ({ partner_id: UNKNOWN })) },
    {
      ...{ code: "not_found", given: newShop, request: () => ["DELETE", `/api/tokens/${UNKNOWN}`, {}] },
      useCase: () => (work) => endToken(work, UNKNOWN),
    },
  ]));
// Only the platform API has `self_reset` and `forbidden` (an operator is no user, and may give any
// limit), and versions. `last_admin` needs an installation with one admin: it is in
// tests/api/users.test.ts and tests/api/first-admin.test.ts.

test("a user that the command line makes and changes is in the audit, as one of the platform API", async () => {
  const email = address();
  const user = { email, name: "Vera", role: "viewer" as const };
  const { user_id } = (await commanded((work) => createUser(work, user))) as { user_id: number };
  await commanded((work) => changeUser(work, { user: { email }, patch: { locale: "en" } }));
  await commanded((work) => resetUser(work, email));
  const { rows } = await owner.query(sql`
    select action, actor from audit where entity = ${`user:${user_id}`} order by audit_id`);
  expect(rows).toEqual(["user.created", "user.updated", "user.reset"].map((action) => ({ action, actor: "ana@cli" })));
});

test("a reset by the command line revokes the pending invitations of the address", async () => {
  const { client: client_id } = await newShop();
  const email = address();
  const invited = await send("POST", "/api/client-invitations", { email, client_id });
  expect(invited.status, invited.text).toBe(201);
  await commanded((work) => createUser(work, { email, name: "Vera", role: "viewer" }));
  await commanded((work) => resetUser(work, email));
  const { body } = await read(`/api/client-invitations?email=${email}`);
  expect(body.data).toMatchObject([{ id: invited.body.id, status: "revoked" }]);
});
