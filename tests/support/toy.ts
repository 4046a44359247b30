// A pipeline without a domain, for tests of the runner and the topology: three stages on one key,
// then two that decide money on other keys.
import { topic } from "../../infra/avro/codec.ts";
import {
  type AnySink,
  drop,
  emit,
  type FactsFor,
  type Processor,
  type Read,
  reject,
  remembers,
  remembersBy,
  sink,
  stage,
  type View,
} from "../../stream/flow.ts";
import { topology } from "../../stream/topology.ts";

/**
 * An event at a `place`; if it belongs to an `order`, it has a worth. Stages derive the ids of
 * their outputs from the id of the input.
 */
export interface Step {
  readonly id: string;
  readonly place: string;
  readonly order: string;
  readonly worth: number;
  /** The earlier steps at its place, and what later stages add. */
  readonly seen: string;
}
export interface Sum {
  readonly id: string;
  readonly order: string;
  readonly owner: string;
  readonly total: number;
  /** The step that caused this sum, and the facts that were used. */
  readonly cause: string;
}

const text = (...names: string[]) => names.map((name) => ({ name, type: "string" }));
const stepRecord = {
  type: "record",
  name: "Step",
  fields: [...text("id", "place", "order"), { name: "worth", type: "int" }, ...text("seen")],
};
const sumRecord = {
  type: "record",
  name: "Sum",
  fields: [...text("id", "order", "owner"), { name: "total", type: "int" }, ...text("cause")],
};

const steps = (name: string, keyedBy: "place" | "order") =>
  topic<Step>({
    name,
    keyedBy,
    partitions: keyedBy === "place" ? 3 : 2,
    checked: keyedBy === "order",
    record: stepRecord,
    idOf: ({ id }) => id,
    keyOf: (data) => data[keyedBy],
  });
const sums = (name: string, keyedBy: "order" | "owner") =>
  topic<Sum>({
    name,
    keyedBy,
    partitions: 2,
    checked: true,
    record: sumRecord,
    idOf: ({ id }) => id,
    keyOf: (data) => data[keyedBy],
  });

export const toys = {
  raw: steps("toy.raw", "place"),
  checked: steps("toy.checked", "place"),
  walked: steps("toy.walked", "place"),
  out: steps("toy.out", "place"),
  claims: steps("toy.claims", "order"),
  sums: sums("toy.sums", "owner"),
  paid: sums("toy.paid", "owner"),
};

const bytes = {
  encode: (value: unknown) => Buffer.from(JSON.stringify(value)),
  decode: (value: Uint8Array) => JSON.parse(String(value)),
};

/** The value of the facts, e.g. a rate that changes while two owners overlap. */
export const rate: View<number> = { view: "rate" };
const rates: FactsFor<Step, number> = {
  name: "rates",
  load: async (batch, read) => {
    const known = await read(rate, Math.max(...batch.map(({ receivedAt }) => receivedAt)));
    return () => known;
  },
};
export const rateOf =
  (value: number): Read =>
  async () =>
    value as never;

/** Rejects a negative worth, drops a worth of 13, and throws on 666, like a bug in the code. */
const check: Processor<Step, { checked: Step }, null, null, "negative" | "unlucky"> = ({ data }) => {
  if (data.worth === 666) throw new TypeError("check cannot count");
  if (data.worth < 0) return reject("negative");
  if (data.worth === 13) return drop("unlucky");
  return emit([{ output: "checked", data }]);
};

/**
 * Remembers the last three steps of a place, and adds them to the event. Rejects a worth of 1000 or
 * more, which `check` accepts.
 */
const walk: Processor<Step, { walked: Step }, readonly string[], null, "too_much"> = ({ data }, journey) => {
  if (data.worth >= 1000) return reject("too_much");
  const walked = { ...data, seen: journey.join(",") };
  return emit([{ output: "walked", data: walked }], data.worth % 2 === 0 ? [...journey, data.id].slice(-3) : journey);
};

/**
 * Counts odd and even worths of a place under separate keys. Steps with an order also become
 * claims.
 */
const point: Processor<Step, { out: Step; claims: Step }, Readonly<Record<string, number>>, number> = (
  { data },
  counts,
  factor,
) => {
  const parity = data.worth % 2 === 0 ? "even" : "odd";
  const count = (counts[parity] ?? 0) + 1;
  const pointed = { ...data, seen: `${data.seen};${parity}${count};x${factor}` };
  const outputs = [{ output: "out" as const, data: pointed }];
  const claims = data.order === "" ? [] : [{ output: "claims" as const, data: pointed }];
  return emit([...outputs, ...claims], { ...counts, [parity]: count });
};

interface Order {
  readonly total: number;
  readonly steps: number;
}
/**
 * The total worth of an order at today's rate. The result depends on the facts, so deciding an
 * event twice could give two results.
 */
const settle: Processor<Step, { sums: Sum }, Order, number, "nothing"> = ({ data }, order, factor) => {
  if (data.worth === 0) return drop("nothing", order);
  const total = order.total + data.worth * factor;
  const owner = `owner${data.order.length % 2}`;
  const sum = {
    id: `${data.id}/sum`,
    order: data.order,
    owner,
    total,
    cause: `${data.id} x${factor} n${order.steps + 1}`,
  };
  return emit([{ output: "sums", data: sum }], { total, steps: order.steps + 1 });
};
const pay: Processor<Sum, { paid: Sum }, Readonly<Record<string, number>>> = ({ data }, paidSoFar) => {
  const total = (paidSoFar[data.order] ?? 0) + data.total;
  return emit([{ output: "paid", data: { ...data, id: `${data.id}/paid`, total } }], {
    ...paidSoFar,
    [data.order]: total,
  });
};

export const toy = topology(
  "toy",
  (event) => (event === undefined ? "unreadable.dlq" : "toy.dlq"),
  { is: "edge", name: "door", on: "POST /x", accepts: (body) => body, admit: () => [], to: toys.raw },
  stage({ name: "check", from: toys.raw, run: check, to: { checked: toys.checked } }),
  stage({
    name: "walk",
    from: toys.checked,
    run: walk,
    memory: remembers<readonly string[]>({ name: "journey", keyedBy: "place", driver: "fast", initial: [], ...bytes }),
    to: { walked: toys.walked },
  }),
  stage({
    name: "point",
    from: toys.walked,
    run: point,
    memory: remembersBy<number>({
      name: "parities",
      keyedBy: "place",
      driver: "fast",
      keysOf: ({ data }) => [data.worth % 2 === 0 ? "even" : "odd"],
      ...bytes,
    }),
    facts: rates,
    to: { out: toys.out, claims: toys.claims },
  }),
  stage({
    name: "settle",
    from: toys.claims,
    run: settle,
    memory: remembers<Order>({
      name: "orders",
      keyedBy: "order",
      driver: "durable",
      initial: { total: 0, steps: 0 },
      ...bytes,
    }),
    facts: rates,
    to: { sums: toys.sums },
  }),
  stage({
    name: "pay",
    from: toys.sums,
    run: pay,
    memory: remembersBy<number>({
      name: "paid",
      keyedBy: "owner",
      driver: "durable",
      keysOf: ({ data }) => [data.order],
      ...bytes,
    }),
    to: { paid: toys.paid },
  }),
);

export const step = (id: string, over: Partial<Step> = {}): Step => ({
  id,
  place: "here",
  order: "",
  worth: 2,
  seen: "",
  ...over,
});
export const sent = (data: Step, at = 1_000) => ({ data, at });

/** Writes one row a step into a store of the test. */
export const stepsSink = sink<Step, Step>({
  name: "steps",
  from: toys.out,
  rows: ({ data }) => [data],
  into: {
    name: "steps",
    store: "clickhouse",
    key: ["id"],
    tenantOf: () => 1,
    write: (rows, write) => write({ name: "steps" }, rows),
  },
}) as AnySink;
