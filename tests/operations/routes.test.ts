// Routes of hosts and the table of callers agree: each route has its row with the same credential
// and roles, and each row is served unless it is marked as later.
import { readdirSync, readFileSync } from "node:fs";
import type { Express } from "express";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { fieldsOf } from "../../apps/api/contract/contract.ts";
import { routesOf } from "../../apps/api/routes.ts";
import { apiApp } from "../../apps/api/server.ts";
import { openEdges } from "../../apps/ingest/edges.ts";
import { directRoutes, ingestApp } from "../../apps/ingest/server.ts";
import { visitRoute } from "../../apps/links/visit-route.ts";
import { routesOf as pixelRoutes } from "../../apps/pixel/routes.ts";
import { uploadApp } from "../../apps/upload/server.ts";
import type { DirectRoute } from "../../infra/http/direct/direct-host.ts";
import { roles } from "../../modules/access/users/users.ts";

interface Row {
  readonly host: string;
  readonly method: string;
  readonly path: string;
  readonly auth: string;
  /** True for a route that is decided but not served yet. */
  readonly later?: true;
}
const { routes: specified, extra } = parse(readFileSync("apps/api/routes.yaml", "utf8")) as {
  routes: readonly Row[];
  extra: readonly Row[];
};
const table = [...specified, ...extra];
/** Opens nothing: a route is data and a function. */
const routes = await routesOf({} as never);
const edges = await openEdges({} as never);
const answer = () => undefined as never;

const hosts: Readonly<Record<string, Express>> = {
  api: apiApp(routes, { trustedProxies: [] } as never),
  ingest: ingestApp(
    {
      ...{ edges, receipts: answer, health: answer, backfill: answer, pullTrigger: answer },
      walReplay: { start: answer, show: answer },
    },
    [],
    {} as never,
  ),
  upload: uploadApp({ parts: answer } as never, [], {} as never),
};
/** Routes that are served on node:http directly. */
const direct: Readonly<Record<string, readonly DirectRoute[]>> = {
  ingest: directRoutes(edges),
  links: [visitRoute({} as never)],
  pixel: pixelRoutes({ scripts: {} } as never),
};
/** The segment below a path has a name only in the table. */
const servedDirectly = (routes: readonly DirectRoute[]): readonly string[] =>
  routes.flatMap(({ path, methods }) =>
    Object.keys(methods)
      .filter((method) => method !== "OPTIONS")
      .map((method) => `${method} ${path}`),
  );
const withoutName = (row: string): string => row.replace(/:\w+$/, "");
/**
 * The routes that a host answers with something other than 404 and 405; OPTIONS belongs to every
 * path.
 */
const servedBy = (app: Express): readonly string[] =>
  app.router.stack.flatMap(({ route }) =>
    (route?.stack ?? [])
      .map(({ method }) => method?.toUpperCase())
      .filter((method) => method !== undefined && method !== "OPTIONS")
      .map((method) => `${method} ${route!.path}`),
  );
const rowsOf = (host: string, isLater: boolean): readonly string[] =>
  table
    .filter((row) => row.host === host && (row.later === true) === isLater)
    .map(({ method, path }) => `${method} ${path}`);

describe("every host", () => {
  test.each([...new Set(table.map(({ host }) => host))])("%s serves its rows, and nothing else", (host) => {
    const byExpress = hosts[host] === undefined ? [] : [...new Set(servedBy(hosts[host]))];
    const rows = rowsOf(host, false).map((row) => (byExpress.includes(row) ? row : withoutName(row)));
    expect([...byExpress, ...servedDirectly(direct[host] ?? [])].sort()).toEqual(rows.sort());
  });

  test("has each row once", () => {
    const names = table.map(({ host, method, path }) => `${host} ${method} ${path}`);
    expect(names.filter((name, n) => names.indexOf(name) !== n)).toEqual([]);
  });
});

describe("the platform API", () => {
  test.each([...routes])(
    "$method $path is called by those of its row",
    ({ method, path, auth, roles: allowed = [] }) => {
      const rows = table.filter((row) => row.host === "api" && row.method === method && row.path === path);
      expect(rows).toHaveLength(1);
      const row = rows[0] as Row & Readonly<Record<string, string>>;
      expect(row.auth).toBe(auth);
      expect(roles.filter((role) => (row[role] ?? "-") !== "-")).toEqual(
        roles.filter((role) => allowed.includes(role)),
      );
    },
  );

  test("serves every contract of its folder", () => {
    const folder = "apps/api/contract/";
    const declared = readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .flatMap((file) =>
        [...readFileSync(`${folder}${file}`, "utf8").matchAll(/^ *route: "(.*?)"|contract\(\{ route: "(.*?)"/gm)].map(
          ([, own, inline]) => own ?? inline!,
        ),
      );
    expect(routes.map(({ contract }) => contract.route).sort()).toEqual(declared.sort());
  });

  test("shows no role what its row hides", () => {
    const shown = routes.flatMap(({ contract, row, roles: allowed }) => {
      const isMasked = Object.values(row.access).includes("masked");
      const of = allowed.filter((role) => !isMasked || row.access[role] === "masked");
      return of.flatMap((role) =>
        fieldsOf(contract, role)
          .filter((field) => row.hides.includes(field))
          .map((field) => `${contract.route} ${role} ${field}`),
      );
    });
    expect(shown).toEqual([]);
  });

  test("has no route twice", () => {
    const names = routes.map(({ method, path }) => `${method} ${path}`);
    expect(new Set(names).size).toBe(names.length);
  });
});
