// Which schema versions may follow each other, at each level of the registry.
import { expect, test } from "vitest";
import { incompatibilities } from "../../infra/embedded/servers/compatibility.ts";

const record = (...fields: object[]) => JSON.stringify({ type: "record", name: "R", fields });
const id = { name: "id", type: "string" };
const note = { name: "note", type: "string", default: "" };
const amount = { name: "amount", type: "long" };
const isFine = (candidate: string, earlier: string[], level: Parameters<typeof incompatibilities>[2]) =>
  incompatibilities(candidate, earlier, level).length === 0;

test("a field with a default may be added and a field may be dropped; one without a default may not be added", () => {
  expect(isFine(record(id, note), [record(id)], "BACKWARD_TRANSITIVE")).toBe(true);
  expect(isFine(record(id), [record(id, amount)], "BACKWARD_TRANSITIVE")).toBe(true);
  expect(isFine(record(id, amount), [record(id)], "BACKWARD_TRANSITIVE")).toBe(false);
});

test("transitive levels look at all versions, the others at the last", () => {
  const history = [record(id), record(id, amount)];
  expect(isFine(record(id, amount), history, "BACKWARD")).toBe(true);
  expect(isFine(record(id, amount), history, "BACKWARD_TRANSITIVE")).toBe(false);
});

test("forward asks whether old readers can read new records, full asks both, none asks nothing", () => {
  expect(isFine(record(id, amount), [record(id)], "FORWARD")).toBe(true);
  expect(isFine(record(id), [record(id, amount)], "FORWARD")).toBe(false);
  expect(isFine(record(id), [record(id, amount)], "FULL")).toBe(false);
  expect(isFine(record(id, note), [record(id)], "FULL")).toBe(true);
  expect(isFine(record(amount), [record(id)], "NONE")).toBe(true);
});

test("a number may widen and never narrow; a branch of a union may not disappear", () => {
  const of = (type: unknown) => record({ name: "n", type });
  expect(isFine(of("double"), [of("int")], "BACKWARD")).toBe(true);
  expect(isFine(of("int"), [of("double")], "BACKWARD")).toBe(false);
  expect(isFine(of(["null", "string"]), [of("string")], "BACKWARD")).toBe(true);
  expect(isFine(of("string"), [of(["null", "string"])], "BACKWARD")).toBe(false);
});
