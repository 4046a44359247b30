// The OpenAPI description of routes: recursive schemas can be found at their references.
import { expect, test } from "vitest";
import { z } from "zod";
import { contract } from "../../apps/api/contract/contract.ts";
import { openApiOf } from "../../apps/api/openapi.ts";
import { route } from "../../apps/api/route.ts";
import type { RouteRow } from "../../apps/api/route-table.ts";
import { served } from "../../apps/api/routes.ts";

type Tree = { readonly name: string; readonly parts: readonly Tree[] };
const tree: z.ZodType<Tree> = z.lazy(() => z.object({ name: z.string(), parts: z.array(tree) }));
const row = (path: string): RouteRow => ({
  ...{ host: "api", method: "POST", path, auth: "user", hides: [], isLater: false },
  access: { admin: "all" },
});

test("two routes with the same tree share its schema, and every reference finds one", () => {
  const paths = ["/api/trees", "/api/forests"];
  const routes = paths.map((path) =>
    route(contract({ route: `POST ${path}`, summary: "Trees.", body: tree, answers: tree }), async () => ({})),
  );
  const { components, ...rest } = openApiOf(served(routes, paths.map(row)), "1");
  const text = JSON.stringify([rest, components]);
  const references = new Set([...text.matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name!));
  expect(text).not.toContain("$defs");
  expect([...references].filter((name) => components.schemas[name] === undefined)).toEqual([]);
  expect(references.size).toBeGreaterThan(1);
});
