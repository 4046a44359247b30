// An event without an amount has the currency of its client: installs, leads and custom events earn
// under a contract that names amounts.
import { describe, expect, test } from "vitest";
import { client, contract, hourMs } from "../support/builders.ts";
import { clickBefore, pageView, shop, type Written } from "../support/shop.ts";

const flat = (event_type: string) =>
  contract({ event_type, type: "flat", rate_ppm: null, amount_minor: 2_00n, currency: "USD" });
const earned = async (event_type: string, ...events: readonly Written[]) => {
  const { post, entries, stored } = shop({ clients: [client({ currency: "USD" })], contracts: [flat(event_type)] });
  await post(events);
  return {
    entries: entries().map(({ amount_minor, currency, reason }) => [amount_minor, currency, reason]),
    rows: stored().map(({ event }) => event.currency),
  };
};
const svc_click_id = clickBefore(hourMs);

describe("at a client of dollars", () => {
  test.each([
    ["install", pageView({ t: "install", svc_click_id })],
    ["lead_submit", pageView({ t: "lead_submit", svc_click_id, props: { client_lead_id: "L1" } })],
    ["trial", pageView({ t: "trial", svc_click_id })],
  ])("a %s without an amount earns the dollars of its contract, and its row names no currency", async (type, event) =>
    expect(await earned(type, event)).toEqual({ entries: [[2_00n, "USD", null]], rows: [null] }),
  );

  test("an amount without a currency is in the default one, also when a copy brings it", async () => {
    const lead = (event_id: string, props: object) =>
      pageView({ t: "lead_submit", event_id, svc_click_id, props: { client_lead_id: "L1", ...props } });
    const worth = await earned("lead_submit", lead("l1", { lead_value: 50 }));
    expect(worth.entries).toEqual([[0n, "MXN", "currency_mismatch"]]);
    const later = await earned("lead_submit", lead("l1", {}), lead("l2", { lead_value: 50 }));
    expect(later.entries).toEqual([
      [2_00n, "USD", null],
      [-2_00n, "USD", "changed_money"],
      [0n, "MXN", "currency_mismatch"],
    ]);
  });
});
