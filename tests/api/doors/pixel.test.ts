// The pixel of a client: the platform API and the command line use the same use case, so they
// refuse with the same words.
import { describe, expect, test } from "vitest";
import { configurePixel } from "../../../apps/cli/commands/running/pixel.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { apiSuite } from "../../support/api-suite.ts";
import { type Case, type Shop, twoDoors } from "../../support/two-doors.ts";

const suite = apiSuite();
const { pool, owner, read } = suite;
const { newShop, shopAfter, archived, refusesAlike } = twoDoors(suite);

const pathOf = ({ client: id }: Shop): string => `/api/clients/${id}/pipeline/pixel-config`;
const hosts = (allowed: readonly string[]): Pick<Case, "request" | "command"> => ({
  request: (shop) => ["POST", pathOf(shop), { allowed_domains: allowed }],
  command: ({ client }) => configurePixel(pool, { client: `${client}`, allowedDomains: allowed.join(","), yes: true }),
});

// The command line sends no version, and an unknown client is an error of its usage.
const cases: readonly Case[] = [
  { code: "client_archived", given: shopAfter(archived("/api/clients/:client")), ...hosts(["shop.example"]) },
  { code: "invalid_value", given: newShop, ...hosts(["shop.example", "https://shop.example"]) },
];

describe("a refusal is the same at both doors", () => refusesAlike(cases));

test("the command line takes no more hosts and events than the platform API", async () => {
  const { client } = await newShop();
  const many = (count: number): string => Array.from({ length: count }, (_, n) => `h${n}`).join(",");
  const configured = (options: object) => configurePixel(pool, { client: `${client}`, ...options, yes: true });
  await expect(configured({ allowedDomains: many(201) })).rejects.toThrow("/allowed_domains: at most 200 hosts");
  await expect(configured({ trackedEvents: many(101) })).rejects.toThrow("/tracked_events: at most 100 events");
  expect((await configured({ allowedDomains: many(200), trackedEvents: many(100) })).version).toBe(2);
});

test("a preview keeps nothing; saved by the command line, the law is that of the client and in the audit", async () => {
  const shop = await newShop();
  const options = { client: `${shop.client}`, jurisdiction: "EU", consentDefault: "3", autoSignals: "false" };
  expect(await configurePixel(pool, options)).toMatchObject({ jurisdiction: "EU", version: 2 });
  expect((await read(pathOf(shop))).body).toMatchObject({ jurisdiction: "MX", version: 1 });
  await configurePixel(pool, { ...options, yes: true });
  expect((await read(pathOf(shop))).body).toMatchObject({
    ...{ jurisdiction: "EU", consent_default: 3, auto_signals: false, version: 2 },
  });
  const { rows } = await owner.query(sql`
    select role, action, before -> 'jurisdiction' as before, after -> 'jurisdiction' as after from audit
    where client_id = ${shop.client} order by audit_id desc limit 1`);
  expect(rows).toEqual([{ role: "operator", action: "pixel_config.updated", before: "MX", after: "EU" }]);
});
