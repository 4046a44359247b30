// The queue of the browser's script: which event is dropped first when it is full, and which events
// fit into one body.
import { expect, test } from "vitest";
import { bytesOf } from "../../browser/data/json.ts";
import {
  CALL,
  MAX_BODY,
  MAX_WAITING,
  oneBody,
  type QueuedEvent,
  SIGNAL,
  VITAL,
  type Weight,
  withOne,
} from "../../browser/delivery/queue.ts";

const waiting = (id: number, weight: Weight, size = 10): QueuedEvent => ({
  event: { t: "x", ts: 1, event_id: `${id}`, did: "d", sid: "s", url: "", props: {} },
  weight,
  json: "x".repeat(size),
  notBefore: 0,
});
const filledWith = (weights: readonly Weight[]): readonly QueuedEvent[] =>
  weights.reduce<readonly QueuedEvent[]>((all, weight, n) => withOne(all, waiting(n, weight)), []);
const idsOf = (all: readonly QueuedEvent[]) => all.map(({ event }) => Number(event.event_id));

test("a full queue loses its oldest signal first", () => {
  const weights = Array.from({ length: MAX_WAITING }, (_, n) => (n < 2 ? VITAL : n < 10 ? CALL : SIGNAL));
  const full = withOne(filledWith(weights), waiting(1_000, VITAL));
  expect(full).toHaveLength(MAX_WAITING);
  expect(idsOf(full)).not.toContain(10);
  expect(idsOf(full).slice(0, 10)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});
test("a signal never pushes out what a page asked for", () => {
  const full = withOne(filledWith(Array.from({ length: MAX_WAITING }, () => CALL)), waiting(1_000, SIGNAL));
  expect(idsOf(full)).not.toContain(1_000);
});
test("with nothing but purchases in it, the oldest goes", () => {
  const full = withOne(filledWith(Array.from({ length: MAX_WAITING }, () => VITAL)), waiting(1_000, VITAL));
  expect(idsOf(full)).not.toContain(0);
  expect(idsOf(full)).toContain(1_000);
});
test("a body holds at most 50 events and 30,000 bytes, in order", () => {
  const many = Array.from({ length: 120 }, (_, n) => waiting(n, SIGNAL));
  expect(idsOf(oneBody(many, bytesOf))).toEqual(Array.from({ length: 50 }, (_, n) => n));
  const large = Array.from({ length: 4 }, (_, n) => waiting(n, SIGNAL, MAX_BODY / 2));
  expect(oneBody(large, bytesOf)).toHaveLength(2);
});
test("an event that fills a body alone still goes", () => {
  expect(oneBody([waiting(0, VITAL, MAX_BODY * 2), waiting(1, VITAL)], bytesOf)).toHaveLength(1);
  expect(oneBody([], bytesOf)).toEqual([]);
});
