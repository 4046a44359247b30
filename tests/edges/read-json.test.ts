// The platform API answers 400 with the place, never 500, to bodies, queries and cursors that a
// store could not take or that two readers would read differently.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { z } from "zod";
import { contract } from "../../apps/api/contract/contract.ts";
import { readCursor } from "../../apps/api/request/cursor.ts";
import { route } from "../../apps/api/route.ts";
import type { RouteRow } from "../../apps/api/route-table.ts";
import { served } from "../../apps/api/routes.ts";
import { apiApp, type ServerPorts } from "../../apps/api/server.ts";
import type { Problem } from "../../infra/http/problem.ts";
import { parseJson } from "../../infra/http/read-json.ts";

const refused = (body: string): unknown => {
  try {
    return { taken: parseJson(Buffer.from(body)) };
  } catch (problem) {
    return (problem as Problem).errors;
  }
};

test.each([
  ['{"a":1,"a":2}', "/a"],
  ['{"a":{"b":[0,{"c":1,"\\u0063":2}]}}', "/a/b/1/c"],
  ['{"a/b":{"":1,"x":"\\",\\"\\":","":2}}', "/a~1b/"],
])("a key that stands twice in one object is named: %s", (body, pointer) => {
  expect(refused(body)).toMatchObject([{ pointer, code: "repeated_key" }]);
});

test("the same key in other objects, in texts and in lists is no repetition", () => {
  const body = '{"a":{"a":["a","a",{"a":1},{"a":1}]},"b":"{\\"a\\":1,\\"a\\":2}","\\"a":"a\\\\","c":[[],{},"x"]}';
  expect(refused(body)).toEqual({ taken: JSON.parse(body) });
});

test.each(["\\u0000", "\\ud800", "x\\udc00"])("a key that no store takes is refused with its place: %s", (key) => {
  expect(refused(`{"a":{"${key}":1}}`)).toMatchObject([{ pointer: expect.stringMatching(/^\/a\/x?\ufffd$/u) }]);
  expect(refused(`{"a":{"${key}":1}}`)).toMatchObject([{ code: "bad_key" }]);
});

test.each(["__proto__", "constructor", "prototype"])("a key that is not taken is refused at its place: %s", (key) => {
  const known = [{ pointer: `/a/0/${key}`, code: "bad_key" }];
  expect(refused(`{"a":[{"${key}":{"role":"admin"}}]}`)).toMatchObject(known);
});

test("a path or a query with NUL is 400 with its place, before a store is asked", async () => {
  let asked = 0;
  const things = contract({
    route: "GET /api/things/:id",
    summary: "Things.",
    params: z.strictObject({ id: z.string() }),
    query: z.strictObject({ kind: z.string().optional() }),
    answers: z.object({}),
  });
  const answer = async () => {
    asked += 1;
    return { body: {} };
  };
  const row: RouteRow = {
    host: "api",
    method: "GET",
    path: "/api/things/:id",
    auth: "none",
    access: {},
    hides: [],
    isLater: false,
  };
  const routes = served([route(things, answer, { isUnlimited: true })], [row]);
  const ports = { count: () => undefined, trustedProxies: [], log: { error: () => undefined } };
  const server = createServer(apiApp(routes, ports as unknown as ServerPorts)).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const ask = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/api/things/${path}`);
    return [
      response.status,
      ((await response.json()) as { errors?: readonly { pointer: string }[] }).errors?.[0]?.pointer,
    ];
  };
  expect(await ask("1?kind=x")).toEqual([200, undefined]);
  expect(await ask("a%00b")).toEqual([400, "/id"]);
  expect(await ask("1?kind=a%00")).toEqual([400, "/kind"]);
  expect(asked).toBe(1);
  await new Promise((resolve) => server.close(resolve));
});

test.each([
  [8_640_000_000_000_001, "dl_1"],
  [-1, "dl_1"],
  [253_402_300_800_000, "dl_1"],
  [0, "dl_\0"],
])("a cursor that was made elsewhere is none of ours: %s %j", (at, id) => {
  const cursor = Buffer.from(JSON.stringify([at, id])).toString("base64url");
  const reading = () => readCursor([Buffer.alloc(32)], "GET /api/dead-letters", cursor);
  expect(reading).toThrow(
    expect.objectContaining({ code: "bad_cursor", errors: [expect.objectContaining({ pointer: "/cursor" })] }),
  );
});
