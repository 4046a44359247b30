// One user's reads of figures hold up no other user.
import { expect, test } from "vitest";
import { dayOf } from "../../domain/calendar.ts";
import { transaction } from "../../infra/postgres/sql.ts";
import { apiSuite } from "../support/api-suite.ts";

const { owner, read } = apiSuite();

test("while a viewer asks for a year of figures again and again, and they hang, an admin is answered", async () => {
  const { body: me } = await read("/api/auth/me", "partner");
  const dashboard = `/api/partners/${me.partner_id}/dashboard?from=${dayOf(Date.now() - 360 * 86_400_000)}`;
  await transaction(owner, null, async (tx) => {
    // What the figures are read from answers no one until the end of this transaction.
    await tx.query("lock table ledger_entries, conversions, commissions in access exclusive mode");
    const hanging = Array.from({ length: 30 }, () => read(dashboard, "viewer"));
    await new Promise((resolve) => setTimeout(resolve, 300));
    const began = performance.now();
    const answers = await Promise.all(["/api/clients?limit=1", "/api/users?limit=1"].map((path) => read(path)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(performance.now() - began).toBeLessThan(1_500);
    const statuses = (await Promise.all(hanging)).map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([429, 503]));
    // Two run at a time, for two seconds each, and the others wait for ten at most.
    expect(statuses.filter((status) => status === 429).length).toBeGreaterThanOrEqual(8);
  });
  expect((await read("/api/partners?limit=1", "viewer")).status).toBe(200);
});
