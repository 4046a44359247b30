// The query that each role may send: without filters and sorts by fields that it is not shown.
import { expect, test } from "vitest";
import { z } from "zod";
import { listAudit } from "../../apps/api/contract/access/audit.ts";
import { listContract, queryFor } from "../../apps/api/contract/contract.ts";
import { id, idText } from "../../apps/api/contract/fields.ts";
import { roles } from "../../modules/access/users/users.ts";

const thing = z.object({ id, owner_id: id, name: z.string() });
const listThings = listContract({
  route: "GET /api/things",
  summary: "Things.",
  filters: { owner_id: idText.optional() },
  rows: { admin: thing, viewer: thing.omit({ owner_id: true }) },
  sorts: ["-owner_id", "name", "-name"],
});
const parse = (role: "admin" | "viewer", query: object) => queryFor(listThings, role).safeParse(query);

test("a role neither filters nor sorts by a field that it is not shown", () => {
  for (const query of [{ owner_id: "7" }, { sort: "-owner_id" }]) {
    expect(parse("admin", query).success).toBe(true);
    expect(parse("viewer", query).success).toBe(false);
  }
  expect(parse("viewer", { sort: "-name" }).success).toBe(true);
});

test("the sort of a request without one is the first that the role may use", () => {
  expect(parse("admin", {}).data).toMatchObject({ sort: "-owner_id" });
  expect(parse("viewer", {}).data).toMatchObject({ sort: "name" });
});

test("the query of a role is made once for each contract", () => {
  for (const contract of [listThings, listAudit])
    for (const role of [...roles, undefined]) expect(queryFor(contract, role)).toBe(queryFor(contract, role));
  expect(queryFor(listAudit, "viewer")).not.toBe(queryFor(listAudit, "admin"));
});
