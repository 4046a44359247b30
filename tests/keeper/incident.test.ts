// The state machine of a probed store: every transition of docs/design/contracts.md, "Probes".
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { durationOf, type Probe, type ProbeAnswer, type Step, step } from "../../modules/running/repair/incident.ts";

const T0 = Date.UTC(2026, 10, 21, 12);
const minute = 60_000;
const healthy: Probe = {
  ...{
    name: "analytics_store",
    state: "healthy",
    failures: 0,
    since: T0,
    lastOkAt: T0,
    lastError: null,
    failingSince: null,
  },
  ...{ incidentId: null, restartedAt: [] },
};
/** An incident that began a minute after T0. */
const incident = { incidentId: `inc_analytics_store_${T0 + minute}`, failingSince: T0 + minute };
const failing = (failures: number): Probe => ({
  ...healthy,
  state: "failing",
  failures,
  failingSince: T0 + minute,
  since: T0 + minute,
});
const restarting: Probe = {
  ...failing(3),
  ...incident,
  state: "restarting",
  since: T0 + 3 * minute,
  restartedAt: [T0 + 3 * minute],
};
const down: Probe = { ...failing(4), ...incident, state: "down", since: T0 + 4 * minute };
const ok = (at: number): ProbeAnswer => ({ at, error: null });
const bad = (at: number): ProbeAnswer => ({ at, error: "no answer within 10 s" });
const sentBy = ({ alerts }: Step) =>
  alerts.map(({ status, severity, duration }) => [status, severity, ...(duration ? [duration] : [])]);

describe("a store that can be restarted", () => {
  test.each<[string, Probe, ProbeAnswer, Probe["state"], number, boolean, unknown[]]>([
    ["healthy: a probe that succeeds changes nothing", healthy, ok(T0 + minute), "healthy", 0, false, []],
    ["healthy: the first failure makes it failing", healthy, bad(T0 + minute), "failing", 1, false, []],
    ["failing: a success makes it healthy without an alert", failing(2), ok(T0 + 3 * minute), "healthy", 0, false, []],
    ["failing: the second failure only counts", failing(1), bad(T0 + 2 * minute), "failing", 2, false, []],
    [
      "failing: the third one restarts it and tells",
      failing(2),
      bad(T0 + 3 * minute),
      "restarting",
      3,
      true,
      [["down", "normal"]],
    ],
    [
      "restarting: a success ends the incident with its downtime",
      restarting,
      ok(T0 + 3 * minute + 12_000),
      "healthy",
      0,
      false,
      [["recovered", "normal", "2 min 12 s"]],
    ],
    [
      "restarting: a failure leads down, critically",
      restarting,
      bad(T0 + 3 * minute + 12_000),
      "down",
      4,
      false,
      [["down", "critical"]],
    ],
    ["down: a failure sends no alert", down, bad(T0 + 5 * minute), "down", 5, false, []],
    [
      "down: a success ends the incident with its downtime",
      down,
      ok(T0 + 63 * minute),
      "healthy",
      0,
      false,
      [["recovered", "normal", "1 h 2 min 0 s"]],
    ],
  ])("%s", (_, before, seen, state, failures, isRestart, sent) => {
    const after = step(before, seen, true);
    expect({ state: after.probe.state, failures: after.probe.failures, isRestart: after.isRestart }).toEqual({
      state,
      failures,
      isRestart,
    });
    expect(sentBy(after)).toEqual(sent);
  });

  test("after three restarts within an hour it is left alone, and that is critical", () => {
    const worn: Probe = { ...failing(2), restartedAt: [T0 - 50 * minute, T0 - 30 * minute, T0 - 10 * minute] };
    const after = step(worn, bad(T0 + 3 * minute), true);
    expect([after.probe.state, after.isRestart, sentBy(after)]).toEqual(["down", false, [["down", "critical"]]]);
    expect(after.alerts[0]!.reason).toContain("it was restarted 3 times within an hour and is left alone now");
    // An hour after the first of them, one more restart is allowed.
    const later = { ...worn, failingSince: T0 + 9 * minute };
    expect(step(later, bad(T0 + 11 * minute), true).isRestart).toBe(true);
  });

  test("a recovery ends the incident: the next third failure is another one, restarts and alerts again", () => {
    let probe = healthy;
    const sent: string[] = [];
    let restarts = 0;
    for (const [n, isOk] of [0, 0, 0, 1, 0, 0, 0, 1].entries()) {
      const after = step(probe, isOk ? ok(T0 + n * minute) : bad(T0 + n * minute), true);
      probe = after.probe;
      restarts += after.isRestart ? 1 : 0;
      sent.push(...after.alerts.map(({ incident_id, status }) => `${incident_id} ${status}`));
    }
    const [first, second] = [`inc_analytics_store_${T0}`, `inc_analytics_store_${T0 + 4 * minute}`];
    expect(sent).toEqual([`${first} down`, `${first} recovered`, `${second} down`, `${second} recovered`]);
    expect(restarts).toBe(2);
  });
});

test.each(["object_store", "relational_store"] as const)("%s goes from failing to down without a restart", (name) => {
  const after = step({ ...failing(2), name }, bad(T0 + 3 * minute), false);
  expect([after.probe.state, after.isRestart, sentBy(after)]).toEqual(["down", false, [["down", "critical"]]]);
  const back = step(after.probe, ok(T0 + 4 * minute), false);
  expect([back.probe.state, sentBy(back)]).toEqual(["healthy", [["recovered", "normal", "3 min 0 s"]]]);
});

test(
  "whatever probes answer, an incident has one restart at most, each alert once, and no recovery " +
    "without an alert before it",
  () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { maxLength: 200 }), fc.boolean(), (answers, canRestart) => {
        let probe = healthy;
        const alerts = new Set<string>();
        const restarts = new Map<string, number>();
        for (const [n, isOk] of answers.entries()) {
          const {
            probe: after,
            isRestart,
            alerts: sent,
          } = step(probe, isOk ? ok(T0 + n * minute) : bad(T0 + n * minute), canRestart);
          for (const { incident_id, status, severity, duration } of sent) {
            const key = `${incident_id} ${status} ${severity}`;
            expect(alerts.has(key)).toBe(false);
            if (status === "recovered") {
              expect([...alerts].some((one) => one.startsWith(`${incident_id} down`))).toBe(true);
              expect(duration).toBeDefined();
            }
            alerts.add(key);
          }
          if (isRestart) restarts.set(after.incidentId!, (restarts.get(after.incidentId!) ?? 0) + 1);
          expect(after.restartedAt.length).toBeLessThanOrEqual(3);
          expect(after.state === "healthy").toBe(isOk);
          probe = after;
        }
        for (const count of restarts.values()) expect(count).toBe(1);
      }),
    );
  },
);

test.each([
  [0, "0 s"],
  [999, "1 s"],
  [61_000, "1 min 1 s"],
  [3_600_000, "1 h 0 min 0 s"],
  [90_061_000, "25 h 1 min 1 s"],
])("a downtime of %i ms is %s", (ms, text) => {
  expect(durationOf(ms)).toBe(text);
});
