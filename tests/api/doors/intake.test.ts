// The platform API and the command line refuse the same sources and imports.
import { randomBytes, randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { inWork, operatorAct } from "../../../apps/cli/work.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { keyringOf } from "../../../infra/runtime/keyring.ts";
import type { RefusalError } from "../../../modules/base/refusal.ts";
import type { Work } from "../../../modules/base/work.ts";
import { beginUpload } from "../../../modules/intake/imports/imports.ts";
import { undoImport } from "../../../modules/intake/imports/undo.ts";
import { changeSource } from "../../../modules/intake/sources/change.ts";
import { createSource } from "../../../modules/intake/sources/create.ts";
import { rotateKey } from "../../../modules/intake/sources/rotate-key.ts";
import { apiSuite } from "../../support/api-suite.ts";
import { expectSame, type Shop, thrownBy, twoDoors } from "../../support/two-doors.ts";

const suite = apiSuite();
const { owner, pool, send, fresh } = suite;
const { created, newShop, archived } = twoDoors(suite);

const keyring = keyringOf(randomBytes(32).toString("base64url"));
const commanded = (useCase: (work: Work) => Promise<unknown>) => inWork(pool, operatorAct("ana@cli"), useCase);

const mapping = { event_name: "event", dedup_key: "id" };
const newSource = (client_id: number, more: object = {}) => ({
  ...{ client_id, slug: fresh("net"), name: "Net", kind: "generic", mapping, ...more },
});
/** A file of the command line: omitted fields have their defaults. */
const whole = (source: object) => ({
  ...{ mode: null, state: "draft", constants: {}, event_names: {}, allow_ips: [], pull: null },
  ...{ unsigned: null, unsigned_money: false, ...source },
});
const UNKNOWN = 2_000_000_000;

interface SourceCase {
  readonly code: string;
  readonly isArchived?: boolean;
  /** A change of the existing source, by its id. */
  readonly change?: object;
  readonly make?: object;
  /** Further fields of the existing source. */
  readonly given?: object;
  readonly id?: number;
}
const cases: readonly SourceCase[] = [
  { code: "client_archived", isArchived: true, make: {} },
  { code: "client_archived", isArchived: true, change: { name: "Other" } },
  { code: "bad_mode", make: { mode: "data_warehouse" } },
  { code: "bad_mode", make: { kind: "property_relay" } },
  { code: "bad_mode", change: { kind: "property_relay" } },
  { code: "incomplete", change: { mapping: {}, state: "active" } },
  { code: "incomplete", change: { mapping: { event_name: "event" }, state: "active" } },
  { code: "incomplete", change: { unsigned: false, state: "active" } },
  { code: "bad_unsigned", make: { kind: "mmp", unsigned: true } },
  { code: "bad_unsigned", make: { unsigned_money: true } },
  { code: "bad_unsigned", change: { unsigned: false, unsigned_money: true } },
  {
    code: "credential_needed",
    given: { pull: { driver: "mmp", url: "https://a.example" }, pull_secret: "secret" },
    change: { pull: { driver: "mmp", url: "https://b.example", look_back_days: 1 } },
  },
  { code: "not_found", id: UNKNOWN, change: { name: "Other" } },
];

describe("a source is refused the same", () => {
  test.each(cases)("$code: $make$change", async ({ code, isArchived = false, make, given, change: patch, id }) => {
    const shop: Shop = await newShop();
    const source_id =
      id ?? Number((await created("/api/sources", newSource(shop.client, given))).id.slice("src_".length));
    if (isArchived) await archived("/api/clients/:client")(shop);
    const source = newSource(shop.client, make);
    const answer = patch
      ? await send("PATCH", `/api/sources/src_${source_id}`, patch)
      : await send("POST", "/api/sources", source);
    const thrown = await thrownBy(() =>
      commanded((work) =>
        patch
          ? changeSource(work, keyring, { source_id, patch, secrets: {} })
          : createSource(work, keyring, whole(source) as never),
      ),
    );
    expectSame(code, answer, thrown);
  });

  test("by a slug that another one has, and one that was active is a draft no more", async () => {
    const { client } = await newShop();
    const source = newSource(client);
    const { id } = await created("/api/sources", source);
    const taken = await thrownBy(() => commanded((work) => createSource(work, keyring, whole(source) as never)));
    expectSame("slug_taken", await send("POST", "/api/sources", source), taken);
    expect((await send("PATCH", `/api/sources/${id}`, { state: "active" })).status).toBe(200);
    const source_id = Number(id.slice("src_".length));
    const change = { source_id, patch: { state: "draft" as const }, secrets: {} };
    const drafted = await thrownBy(() => commanded((work) => changeSource(work, keyring, change)));
    expectSame("bad_state", await send("PATCH", `/api/sources/${id}`, { state: "draft" }), drafted);
  });

  test("whose key is rotated, of an archived client", async () => {
    const shop = await newShop();
    const { id } = await created("/api/sources", newSource(shop.client));
    await archived("/api/clients/:client")(shop);
    const thrown = await thrownBy(() =>
      commanded((work) => rotateKey(work, Number(id.slice("src_".length)), undefined)),
    );
    expectSame("client_archived", await send("POST", `/api/sources/${id}/rotate-key`), thrown);
  });
});

describe("the undo of an import is refused the same", () => {
  const refusedAlike = async (code: string, import_id: string) => {
    const answer = await send("POST", `/api/imports/${import_id}/undo`, { reason: "x" });
    const thrown = await thrownBy(() => commanded((work) => undoImport(work, { import_id, reason: "x" })));
    expectSame(code, answer, thrown);
    return { answer, thrown: thrown as RefusalError };
  };

  test("while it has not ended, and when it is undone", async () => {
    const { client: client_id, partner: partner_id } = await newShop();
    const wanted = { client_id, partner_id, filename: "a.csv", source: "put" as const, created_by: "ana" };
    const import_id = (await beginUpload(pool, wanted))!;
    await refusedAlike("not_ended", import_id);
    await owner.query(sql`
      update imports set status = 'completed', finished_at = now(), undone_at = now(),
        undone = '{"job_id": "job_1", "reason": "x", "asked_by": "ana", "round": 1}' where import_id = ${import_id}`);
    const { answer, thrown } = await refusedAlike("already_undone", import_id);
    expect([answer.body.job_id, thrown.refusals[0]!.details]).toEqual(["job_1", { job_id: "job_1" }]);
  });

  test("when there is none", () => refusedAlike("not_found", `imp_${randomUUID()}`));
});
// Only the platform API sends, cancels and undoes files.
