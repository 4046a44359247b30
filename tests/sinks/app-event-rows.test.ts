// The rows of app events: installs and ext_* events, from the sender's body to the table.
import { expect, test } from "vitest";
import type { EventAttributed } from "../../schemas/generated.ts";
import { appEventRows } from "../../sinks/app-events/rows.ts";
import type { AppEventRow } from "../../sinks/app-events/table.ts";
import { topics } from "../../topics.ts";
import { attributed, clickCredit, noon, recorded } from "../support/builders.ts";
import { pageView, purchase, shop } from "../support/shop.ts";

const typesOf = (data: EventAttributed) =>
  appEventRows(recorded(topics.eventsAttributed, data)).map(({ event_type }) => event_type);

test("an install, an order of the app and each event named ext_ are a row; nothing else is one", async () => {
  const { post, rows } = shop();
  await post([
    pageView(),
    purchase(),
    pageView({ t: "quiz_done", event_id: "quiz" }),
    pageView({ t: "extra", event_id: "extra" }),
  ]);
  expect(rows("app-events")).toEqual([]);
  await post([
    pageView({ t: "install", event_id: "install", url: undefined }),
    purchase({ t: "ext_purchase", event_id: "ordered" }, { order_id: "app-1", revenue: "12.50" }),
    pageView({ t: "ext_trial_started", event_id: "trial", url: undefined }),
  ]);
  const inOrder = (rows("app-events") as readonly AppEventRow[]).toSorted((a, b) =>
    a.event_type < b.event_type ? -1 : 1,
  );
  expect(inOrder).toMatchObject([
    { event_type: "ext_purchase", order_id: "app-1", value_minor: "1250", currency: "MXN" },
    { event_type: "ext_trial_started", order_id: null },
    { event_type: "install", source: "batch", value_minor: null, credit_reason: "no_click" },
  ]);
});

test("only the type install is an install: a custom event of that name is not", () => {
  expect(typesOf(attributed({ t: "custom", custom_name: "install" }))).toEqual([]);
  expect(typesOf(attributed({ t: "custom", custom_name: "ext_open" }))).toEqual(["ext_open"]);
  expect(typesOf(attributed({ t: "install" }))).toEqual(["install"]);
});

test("a row has the credit of its event, its time, and the identity of what was pulled", () => {
  const sale_hash = "5".repeat(64);
  const pulled = { t: "ext_purchase", source: "pull", sale_hash, ts: noon, event_id: "copy" };
  const data = attributed(pulled, { version: 3, credit: clickCredit({ partner_id: 22 }), merged_into: "first" });
  expect(appEventRows(recorded(topics.eventsAttributed, data, { at: noon }))).toMatchObject([
    { version: 3, partner_id: 22, credit_status: "attributed", merged_into: "first", occurred_at: noon, sale_hash },
  ]);
});
