// A topology in memory: sends to one topic and reads another, through the worker's own runner.

import { expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { drive } from "../../stream/testing/drive.ts";
import { rateOf, sent, step, toy, toys } from "../support/toy.ts";

test("what is sent at one end is read at the other", async () => {
  const driven = drive(toy, { wire: inMemoryWire, read: rateOf(3) });
  await driven.send(toys.raw, sent(step("a", { order: "o", worth: 2 })), sent(step("b", { order: "o", worth: 4 })));
  expect(driven.read(toys.sums).map(({ data }) => data.total)).toEqual([6, 18]);
  expect(driven.read(toys.paid).at(-1)!.data.total).toBe(24);
});

test("what a stage refuses lies in the dead letters, with its reason", async () => {
  const driven = drive(toy, { wire: inMemoryWire, read: rateOf(1), hosting: [["check", "walk", "point"], ["settle"]] });
  await driven.send(toys.raw, sent(step("a", { worth: -1 })));
  expect(driven.messages("toy.dlq").map(({ headers }) => headers["tributary-code"])).toEqual(["negative"]);
});

test("facts change between events, and what was decided before stays when a stage is rewound", async () => {
  const driven = drive(toy, { wire: inMemoryWire, read: rateOf(1) });
  await driven.send(toys.raw, sent(step("a", { order: "o" })));
  driven.know(rateOf(100));
  await driven.send(toys.raw, sent(step("b", { order: "o" })));
  await driven.rewind("settle");
  const totals = driven.read(toys.sums).map(({ data }) => data.total);
  expect(totals).toEqual([2, 202, 2, 202]);
  expect(driven.counts.filter(({ chain }) => chain === "settle").at(-1)!.stages[0]).toMatchObject({
    events: 2,
    recalled: 2,
  });
});

test("looking up a fact that was not given is an error, not an absence", async () => {
  await expect(drive(toy, { wire: inMemoryWire }).send(toys.raw, sent(step("a")))).rejects.toThrow(
    "nothing is known of rate",
  );
});
