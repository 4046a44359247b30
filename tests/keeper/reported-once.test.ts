// The checker of law L2 finds an extra alert, a missing one, a mail sent twice, and a recovery
// without its downtime.
import { expect, test } from "vitest";
import { violationsOfReporting } from "../../modules/base/alerts/reported-once.ts";

const T0 = Date.UTC(2026, 10, 21, 12);
const minute = 60_000;
const outage = { service: "analytics_store", from: T0, to: T0 + 4 * minute };
const down = {
  incident_id: "inc_a",
  service: "analytics_store",
  status: "down",
  severity: "normal",
  told_at: T0 + 3 * minute,
  duration: null,
} as const;
const back = { ...down, status: "recovered", told_at: T0 + 4.5 * minute, duration: "3 min 30 s" } as const;
const mails = ["inc_a.down.normal", "inc_a.recovered.normal"];
const timing = { intervalMs: minute, graceMs: 15_000 };

test("one alert and one recovery with its downtime, each mailed once, keep the law", () => {
  expect(violationsOfReporting([outage], [down, back], mails, timing)).toEqual([]);
  expect(violationsOfReporting([{ ...outage, to: T0 + minute }], [], [], timing), "shorter than three probes").toEqual(
    [],
  );
});

test.each<[string, Parameters<typeof violationsOfReporting>[1], readonly string[], RegExp]>([
  ["it is not reported", [], [], /0 incidents/],
  ["it is reported twice", [down, down, back], mails, /reported down \(normal\) 2 times/],
  ["it is mailed twice", [down, back], [...mails, mails[0]!], /2 mails of inc_a down/],
  ["it is not mailed", [down, back], [mails[1]!], /0 mails of inc_a down/],
  ["its return is not reported", [down], [mails[0]!], /the return of analytics_store/],
  ["it returns without having been away", [back], [mails[1]!], /recovered and was never down/],
  ["the downtime is missing", [down, { ...back, duration: null }], mails, /recovered without a downtime/],
  [
    "it is reported too late",
    [{ ...down, told_at: T0 + 4 * minute }, back],
    mails,
    /reported 240000 ms after it had gone/,
  ],
  [
    "it is two incidents",
    [down, back, { ...down, incident_id: "inc_b" }],
    [...mails, "inc_b.down.normal"],
    /2 incidents/,
  ],
])("broken when %s", (_, alerts, came, says) => {
  expect(violationsOfReporting([outage], alerts, came, timing).join("; ")).toMatch(says);
});
