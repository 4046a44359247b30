// The promises of infra/avro/registry.ts and the wire on the embedded registry: ids before the
// first event, compatibility, and schemas of other writers.
import { afterAll, beforeAll, expect, test } from "vitest";
import { topic } from "../../infra/avro/codec.ts";
import { IncompatibleSchema, openRegistry, type Registry, RegistryAway } from "../../infra/avro/registry.ts";
import { openWire } from "../../infra/avro/wire.ts";
import { classify } from "../../infra/runtime/errors.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { schemas } from "../../schemas/generated-avro.ts";
import type { Recorded } from "../../stream/flow.ts";
import { UnknownSchema, UnreadableRecord } from "../../stream/wire.ts";
import { topics } from "../../topics.ts";
import { workshop } from "../stack/home-for-test.ts";

interface Payment {
  readonly id: string;
  readonly amount_minor: bigint;
}
const text = (name: string) => ({ name, type: "string" });

const paymentsWith = <T extends Payment>(...more: object[]) =>
  topic<T>({
    name: "payments",
    keyedBy: "id",
    partitions: 1,
    checked: true,
    record: {
      type: "record",
      name: "Payment",
      fields: [text("id"), { name: "amount_minor", type: { type: "long", logicalType: "minor-units" } }, ...more],
    },
    idOf: ({ id }) => id,
    keyOf: ({ id }) => id,
  });
const payments = paymentsWith<Payment>();
const withNote = paymentsWith<Payment & { readonly note: string }>({ ...text("note"), default: "" });
const withoutDefault = paymentsWith<Payment & { readonly must: string }>(text("must"));

const read = { topic: "payments", partition: 0, offset: 0 };
const payment = <T extends Payment>(data: T): Recorded<T> => ({
  id: data.id,
  key: data.id,
  at: 1,
  receivedAt: 2,
  position: read,
  data,
});

const here = workshop();
let registry: Registry;
beforeAll(async () => {
  const stack = await here.start({ services: ["kafka", "registry"] });
  registry = openRegistry({ url: stack.env.SCHEMA_REGISTRY_URL!, topicPrefix: "shared." });
});
afterAll(() => here.clear());

test("an app does not start on a topic whose schema is not registered", async () => {
  expect(await registry.plan([payments])).toEqual([{ subject: "shared.payments-value", state: "new" }]);
  await expect(openWire([payments], registry)).rejects.toThrow(
    "the schema of payments is not registered; run: npx tributary schemas apply",
  );
});

test("what is applied is found by its own text, and applying it again changes nothing", async () => {
  const ids = await registry.apply([payments]);
  expect(await registry.apply([payments])).toEqual(ids);
  expect(await registry.idOf(payments)).toBe(ids.get("shared.payments-value"));
  expect(await registry.plan([payments, withNote])).toMatchObject([{ state: "registered" }, { state: "changed" }]);
});

test("a reader of yesterday learns today's schema by its id and reads what it knows of it, money exactly", async () => {
  const yesterday = await openWire([payments], registry);
  await registry.apply([withNote]);
  const today = await openWire([withNote], registry);
  const value = today.encode(withNote, payment({ id: "p1", amount_minor: 9_007_199_254_740_993n, note: "hi" }), null);
  expect(() => yesterday.decode(payments, value, read)).toThrow(UnknownSchema);
  await yesterday.learn(value.readUInt32BE(1));
  expect(yesterday.decode(payments, value, read)).toEqual(payment({ id: "p1", amount_minor: 9_007_199_254_740_993n }));
  const old = yesterday.encode(payments, payment({ id: "p2", amount_minor: -1n }), null);
  await today.learn(old.readUInt32BE(1));
  expect(today.decode(withNote, old, read)).toEqual(payment({ id: "p2", amount_minor: -1n, note: "" }));
});

test("how a field is stored and merged is no part of what is registered", async () => {
  const { eventsRaw } = topics;
  const { fields } = schemas.EventReceived;
  const withAttributes = topic<EventReceived>({
    ...{ ...eventsRaw, checked: false },
    record: { ...schemas.EventReceived, fields: fields.map((field) => ({ ...field, merge: "fill", column: true })) },
  });
  await registry.apply([eventsRaw]);
  expect(await registry.plan([eventsRaw, withAttributes])).toMatchObject([
    { state: "registered" },
    { state: "changed" },
  ]);
});

test("an id that the registry does not know makes a value unreadable for good", async () => {
  const wire = await openWire([payments], registry);
  const value = wire.encode(payments, payment({ id: "p1", amount_minor: 1n }), null);
  value.writeUInt32BE(4_000_000, 1);
  await wire.learn(4_000_000);
  expect(() => wire.decode(payments, value, read)).toThrow(
    new UnreadableRecord("unknown_schema", "no schema has the id 4000000"),
  );
});

test("a schema that could not read what is in the log is refused", async () => {
  await expect(registry.apply([withoutDefault])).rejects.toThrow(IncompatibleSchema);
});

test("a registry that is away is a transient error, after the deadline", async () => {
  const nowhere = openRegistry({ url: "http://127.0.0.1:1", deadlineMs: 300 });
  const error = await nowhere.idOf(payments).catch((thrown) => thrown);
  expect([error, classify(error)]).toEqual([expect.any(RegistryAway), "transient"]);
});
