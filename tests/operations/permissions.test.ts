// The fields that each role is shown, from which docs/permissions.md is generated.
import { expect, test } from "vitest";
import { z } from "zod";
import { contract } from "../../apps/api/contract/contract.ts";
import { masked, maskedEmail } from "../../apps/api/contract/fields.ts";
import { shownTo } from "../../apps/api/contract/row-shapes.ts";
import { isPersonal, isSecret, permissionsCsv, permissionsOf, permissionsPage } from "../../apps/api/permissions.ts";
import { readRouteTable } from "../../apps/api/route-table.ts";
import { routesOf } from "../../apps/api/routes.ts";

const table = readRouteTable();
/** Opens nothing: a route is data and a function. */
const routes = await routesOf({} as never);

const row = z.object({
  email: z.string(),
  token: z.string().nullable(),
  lines: z.array(z.object({ value: z.string(), by: z.string().optional() })),
  detail: z.looseObject({ kind: z.string() }),
});
const own = contract({
  route: "GET /api/things/:id",
  summary: "A thing.",
  answers: { admin: row, viewer: row.omit({ token: true }).extend({ email: maskedEmail, detail: masked.nullable() }) },
});
const ofThings = (more: object = {}) =>
  permissionsOf(
    [
      {
        ...{
          host: "api",
          method: "GET",
          path: "/api/things/:id",
          auth: "user",
          access: { admin: "all", viewer: "read" },
        },
        ...{ hides: [], isLater: false, ...more },
      },
    ] as never,
    [{ contract: own, method: "GET", path: "/api/things/:id", roles: ["admin", "viewer"] }] as never,
  );

test("fields are found in lists, in what may be null, and in shapes that are open", () => {
  expect(shownTo(own, "admin").map(({ path }) => path)).toEqual([
    ...["email", "token", "lines[].value", "lines[].by", "detail.kind", "detail.*"],
  ]);
  expect(shownTo(own, "viewer")).toContainEqual({ path: "email", isMasked: true });
  expect(shownTo(own, "viewer")).toContainEqual({ path: "detail", isMasked: true });
});

test("a row names who may call, the fields hidden from a role, and who sees personal data and secrets", () => {
  expect(ofThings()).toEqual([
    {
      ...{ method: "GET", path: "/api/things/:id", state: "served", auth: "user" },
      access: { admin: "all", client_manager: "403", partner: "403", client_user: "403", viewer: "read" },
      hidden: "admin: detail; viewer: token detail.kind detail.*",
      personal: "email (admin, viewer masked); lines[].by (admin, viewer)",
      secrets: "token (admin)",
      shared_partner: "",
      credential: "a changed role: next request",
    },
  ]);
});

test("of a planned row nothing is claimed but what it will hide", () => {
  const planned = { path: "/api/others", access: { admin: "all", partner: "masked" }, hides: ["rate"], isLater: true };
  expect(ofThings(planned)).toMatchObject([{ state: "planned", hidden: "partner: rate", personal: "", secrets: "" }]);
});

test("every row of this host has its line, on the page and in the table", () => {
  const permissions = permissionsOf(table, routes);
  expect(permissions).toHaveLength(table.filter(({ host }) => host === "api").length);
  expect(permissions.filter(({ state }) => state === "served")).toHaveLength(routes.length);
  expect(permissionsPage(permissions).match(/^\| (GET|POST|PUT|PATCH|DELETE) \|/gm)).toHaveLength(permissions.length);
  expect(permissionsCsv(permissions).trimEnd().split("\r\n")).toHaveLength(permissions.length + 1);
});

test("a page of another shape has another hash", () => {
  const hashIn = (page: string) => /`([0-9a-f]{64})`/.exec(page)?.[1];
  const [one, other] = [ofThings(), ofThings({ access: { admin: "all" } })].map(permissionsPage).map(hashIn);
  expect(one).toMatch(/^[0-9a-f]{64}$/);
  expect(other).not.toBe(one);
});

test("no viewer is shown a secret, or who a person is, but itself", () => {
  const shown = routes
    .filter(({ row: { access } }) => access.viewer === "read")
    .flatMap(({ contract: one }) =>
      shownTo(one, "viewer")
        .filter((field) => isSecret(field) || (isPersonal(field) && !field.isMasked))
        .map(({ path }) => `${one.route} ${path}`),
    );
  expect(shown).toEqual([]);
});

test("no masked role is shown what its row hides, however deep", () => {
  const shown = routes.flatMap(({ contract: one, row: { access, hides }, roles }) =>
    roles
      .filter((role) => access[role] === "masked")
      .flatMap((role) =>
        shownTo(one, role).filter(({ path }) => path.split(/[.[\]]+/).some((part) => hides.includes(part))),
      )
      .map(({ path }) => `${one.route} ${path}`),
  );
  expect(shown).toEqual([]);
});
