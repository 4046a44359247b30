// Events of pages under the ids of events of the shop's server, and of each other: none of them
// sets a sale aside, and copies of one event still count once.
import { describe, expect, test } from "vitest";
import { sentEventId } from "../../domain/ids.ts";
import { topics } from "../../topics.ts";
import { clientId, contract, noon } from "../support/builders.ts";
import { admit, clickBefore, pageView, purchase, shop, token, type Written } from "../support/shop.ts";

const click = () => clickBefore(3_600_000);
const ofPage = { isClientSide: true };
const contracts = { contracts: [contract(), contract({ contract_id: 2, event_type: "signup" })] };
const signup = (revenue: string, over: Written = {}): Written =>
  pageView({ t: "signup", url: undefined, event_id: "id-1", props: { revenue, currency: "MXN" }, ...over });
/** An event that is read again brings its records again, under their ids. */
const valuesIn = ({ conversions }: ReturnType<typeof shop>) =>
  [...new Map(conversions().map((change) => [change.change_id, change])).values()].map(
    ({ kind, order_id, value_minor }) => `${kind} ${order_id ?? "none"} ${value_minor}`,
  );

describe("a stranger who knows the id of a sale sets nothing aside", () => {
  const evil = { did: "evil", url: undefined, event_id: "id-1" };
  test.each([
    ["a lead of an unknown person", pageView({ ...evil, t: "lead_submit" })],
    ["a purchase with a placeholder as its order", purchase(evil, { order_id: " NULL " })],
    ["a purchase of another order", purchase(evil, { order_id: "evil", revenue: "1.00" })],
    ["a custom event that earns", signup("1.00", { did: "evil" })],
    ["a page view", pageView({ did: "evil", event_id: "id-1" })],
  ])("with %s", async (_, event) => {
    for (const isClientSide of [false, true]) {
      const world = shop(contracts);
      await world.post([event], ofPage);
      await world.post([purchase({ event_id: "id-1", svc_click_id: click() })], { isClientSide });
      expect(valuesIn(world)).toEqual(["credited o1 10000"]);
      expect(new Set(world.stored().map(({ event: { event_id } }) => event_id)).size).toBe(2);
    }
  });
});

describe("a page's and a server's copy of an event without an order", () => {
  test.each([
    ["the page's", [ofPage, {}]],
    ["the server's", [{}, ofPage]],
  ] as const)("count once with the server's amount, %s first", async (_, [first, second]) => {
    const world = shop(contracts);
    const said = (over: object) => signup(over === ofPage ? "1.00" : "200.00", { svc_click_id: click() });
    await world.post([said(first)], first);
    await world.post([said(second)], second);
    expect(valuesIn(world).at(-1)).toBe("credited none 20000");
    const rows = new Map(world.stored().map((row) => [row.event.event_id, row.merged_into]));
    expect([...rows.values()].filter((merged) => merged === null)).toHaveLength(1);
    expect(rows.size).toBe(2);
  });

  test("count once too where the page's came before events of pages had ids of their own", async () => {
    const world = shop(contracts);
    const [old] = admit([signup("200.00", { svc_click_id: click() })], noon, token(ofPage));
    if (old?.kind !== "accepted") throw new Error("the edge takes it");
    const data = { ...old.data, event_id: sentEventId(clientId, "id-1") };
    await world.send(topics.eventsRaw, { data, at: old.at, receivedAt: noon });
    await world.post([signup("200.00", { svc_click_id: click() })]);
    await world.post([signup("200.00", { svc_click_id: click() })], ofPage);
    expect(valuesIn(world)).toEqual(["credited none 20000"]);
  });

  test("a copy is one of its own type alone", async () => {
    const world = shop(contracts);
    await world.post([purchase({ event_id: "id-1", did: "evil" }, { order_id: "test", revenue: "1.00" })], ofPage);
    await world.post([pageView({ event_id: "id-1", did: "evil", t: "lead_submit" })], ofPage);
    await world.post([signup("200.00", { svc_click_id: click() })]);
    expect(valuesIn(world)).toEqual(["credited none 20000"]);
    expect(world.stored().every(({ merged_into }) => merged_into === null)).toBe(true);
  });
});
