// Commissions of every type of contract, from the saved contract to the entries in the ledger, on a
// real Postgres.
import type pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ReferenceChanges } from "../../modules/catalog/reference/entities.ts";
import { openReference } from "../../modules/catalog/reference/reference.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import { contracts } from "../../processors/commission/contracts.ts";
import type { LedgerEntry } from "../../schemas/generated.ts";
import { ledgerRows } from "../../sinks/ledger/rows.ts";
import { ledger } from "../../sinks/ledger/table.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import { topics } from "../../topics.ts";
import { recorded } from "../support/builders.ts";
import { type Happening, history, sumOf } from "../support/contract-builders.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { committed } from "../support/money-builders.ts";

let database: FreshDatabase;
let pool: pg.Pool;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 4 });
});
afterAll(() => database.drop());

let shops = 0;
/**
 * The entries of a history for a shop with one contract and one partner: facts are read from the
 * saved contract, and rows are written to the tables.
 */
const booked = async (
  terms: object,
  happenings: (parties: { client_id: number; partner_id: number; occurred_at: number }) => readonly Happening[],
) => {
  shops += 1;
  const saved = await writeReference(pool, "test", {
    clients: [{ client_id: -1, slug: `shop-${shops}`, name: "Shop" }],
    partners: [{ partner_id: -1, name: "Partner", email: "partner@shop.example", client_ids: [-1] }],
    contracts: [{ client_id: -1, partner_id: -1, event_type: "purchase", effective_from: "2020-01-01", ...terms }],
  } as ReferenceChanges);
  const client_id = saved.idOf("clients", -1);
  const made = history(
    happenings({ client_id, partner_id: saved.idOf("partners", -1), occurred_at: saved.recorded_at }),
  );
  const events = made.map((event) => ({ ...event, at: event.data.occurred_at, receivedAt: saved.recorded_at }));
  const reference = openReference(pool, { pollMs: 100 });
  const factsOf = await contracts.load(events, reference.read);
  await reference.close();
  const entries: readonly LedgerEntry[] = committed(events, factsOf);
  const rows = entries.flatMap((one) => ledgerRows(recorded(topics.ledgerEntries, one)));
  await postgresStore(pool).within({ tenants: [client_id], token: `commissions/${shops}` }, (write) =>
    ledger.write(rows, write),
  );
  const kept = await database.adminPool.query<{
    commission_id: string;
    amount_minor: bigint;
    status: string;
    type: string;
    version: number;
  }>(
    "select commission_id, amount_minor, status, type, version from commissions where client_id = $1 " +
      "order by commission_id",
    [client_id],
  );
  return { entries, commissions: kept.rows };
};

describe("what is saved is what is paid", () => {
  test.each([
    ["percent", { type: "percent", rate: 12.5 }, 25_00n],
    ["flat", { type: "flat", amount: "30.00" }, 60_00n],
    ["hybrid", { type: "hybrid", amount: 1, rate: 1 }, 4_00n],
    ["recurring", { type: "recurring", amount: 3, months: 2 }, 6_00n],
    ["a minimum", { type: "percent", rate: 1, min: 5 }, 10_00n],
    ["a cap", { type: "percent", rate: 100, cap: { period: "lifetime", amount: 150 } }, 150_00n],
    [
      "marginal tiers",
      {
        type: "tiered",
        tiers: [
          { from: 0, rate: 5 },
          { from: 100, rate: 10 },
        ],
      },
      15_00n,
    ],
    [
      "retroactive tiers",
      {
        type: "tiered",
        tier_mode: "retroactive",
        tiers: [
          { from: 0, rate: 5 },
          { from: 150, rate: 10 },
        ],
      },
      20_00n,
    ],
    [
      "tiers of amounts",
      {
        type: "tiered",
        tiers: [
          { from: 0, amount: 7 },
          { from: 1, amount: 8 },
        ],
      },
      15_00n,
    ],
  ])("by %s", async (_, terms, total) => {
    const { entries, commissions } = await booked(terms, (over) => [
      { sale: 100_00n, over },
      { sale: 100_00n, over },
    ]);
    expect(sumOf(entries)).toBe(total);
    expect(commissions.reduce((sum, { amount_minor }) => sum + amount_minor, 0n)).toBe(total);
  });
});

test("what a month's tiers earn is an entry beside the sales, and nothing when all of them are refunded", async () => {
  const terms = {
    type: "tiered",
    tier_mode: "retroactive",
    tiers: [
      { from: 0, rate: 5 },
      { from: 150, rate: 10 },
    ],
  };
  const sold = (over: object): readonly Happening[] => [
    { sale: 100_00n, over },
    { sale: 100_00n, over },
  ];
  const month = expect.stringMatching(/^cms_tier_[0-9a-f]{32}$/);
  const { commissions } = await booked(terms, sold);
  expect(commissions).toEqual([
    { commission_id: "cms_0", amount_minor: 5_00n, status: "pending", type: "tiered", version: 1 },
    { commission_id: "cms_1", amount_minor: 10_00n, status: "pending", type: "tiered", version: 1 },
    { commission_id: month, amount_minor: 5_00n, status: "pending", type: "tiered", version: 1 },
  ]);
  const refunded = await booked(terms, (over) => [
    ...sold(over),
    { refundOf: 0, minor: 100_00n },
    { refundOf: 1, minor: 100_00n },
  ]);
  expect(refunded.commissions).toMatchObject([
    { commission_id: "cms_0", amount_minor: 0n, status: "reversed" },
    { commission_id: "cms_1", amount_minor: 0n, status: "reversed" },
    { commission_id: month, amount_minor: 0n, version: 3 },
  ]);
});

test("tiers that something else stored without sense pay nothing and stop nothing", async () => {
  const { entries } = await booked({ type: "tiered", tiers: [{ from: 0, rate: 5 }] }, (over) => [
    { sale: 100_00n, over },
  ]);
  expect(entries).toMatchObject([{ amount_minor: 5_00n }]);
  await database.adminPool.query(
    `update segment_commissions set tiers = '[{"from": "-1"}, null, 7, "x"]' where type = 'tiered'`,
  );
  const reference = openReference(pool, { pollMs: 100 });
  await reference.ready;
  const { rows } = await database.adminPool.query<{ client_id: number; partner_id: number }>(
    "select client_id, partner_id from segment_commissions where type = 'tiered' order by contract_id desc limit 1",
  );
  const known = reference.reference()!.at(Date.now() + 10_000, Date.now() + 10_000);
  expect(known.contract({ ...rows[0]!, segment: null, event_type: "purchase" })).toMatchObject({
    type: "tiered",
    tiers: [],
  });
  await reference.close();
});
