// Every route with every kind of caller and every kind of row: the caller's own, another tenant's,
// none. The requests are made from the routes and their contracts, so a new route is covered from
// its first day.
import { setTimeout as sleep } from "node:timers/promises";
import type { ServedRoute } from "../../apps/api/route.ts";
import type { Answer, Asked } from "./ask.ts";
import { type CanaryWorld, leaksIn, type Owner, owners, type Person, people } from "./canary-world.ts";
import { bodyFor, firstOf, hintsOf, namesIn, pathOf, pathOfNone, queryTextFor, type Rows } from "./from-contract.ts";

/** The expected kind of answer. */
export type Expected =
  /** No token, or a token for another purpose. */
  | "unauthorized"
  /** Another role's route. */
  | "forbidden"
  /** Exactly the answer for a row that does not exist. */
  | "unknown"
  /** The caller's own row, or no row at all. */
  | "shown"
  /** The caller is allowed to do it, but the body has an error, so nothing happens. */
  | "faulty"
  /** The path has only other methods. */
  | "wrong method"
  /** Anyone may ask. */
  | "public";

export interface Call {
  readonly route: ServedRoute;
  /** Undefined: no user. */
  readonly person: Person | undefined;
  readonly caller: string;
  readonly expected: Expected;
  /** The owner of the row in the request; null if the request names no row. */
  readonly owner: Owner | "unknown" | null;
  /** The difference between requests of one route for the same row, e.g. the order of a list. */
  readonly variant: string;
  readonly path: string;
  readonly asked: Asked;
}
export interface Outcome extends Call {
  readonly answer: Answer;
  /** The answer without names and ids of rows, for comparison with other answers. */
  readonly text: string;
  readonly ms: number;
  readonly leaks: readonly string[];
}

const NONE = 2_000_000_000;
/** An id of the same form that no row has. */
const otherId = (id: string): string =>
  /[0-9a-f]{8}-[0-9a-f-]{27}/.test(id)
    ? id.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, "00000000-0000-4000-8000-000000000000")
    : /\d/.test(id)
      ? id.replace(/\d+/, String(NONE))
      : `${id}x`;
export const unknownRows = ({ ids }: Rows): Rows => ({
  ...{ client: NONE, partner: NONE, campaign: NONE },
  ids: Object.fromEntries(Object.entries(ids).map(([name, id]) => [name, otherId(id)])),
});

const FILE = "format=csv";
const NO_SUCH = "no_such_field";
/** A request of the route for the rows of an owner. The body has an error unless `isGood`. */
const requestAt = (route: ServedRoute, rows: Rows, isGood: boolean) => {
  const path = rows.client === NONE ? pathOfNone(route, rows) : pathOf(route, rows);
  if (path === undefined) return undefined;
  const { method, contract } = route;
  const query = queryTextFor(contract.query, hintsOf(rows)) ?? "";
  const good = method === "GET" ? undefined : bodyFor(contract.body, hintsOf(rows));
  const body = isGood || method === "GET" ? good : { ...(good as object | undefined), [NO_SUCH]: 1 };
  return {
    path: query === "" ? path : `${path}?${query}`,
    asked: { method, ...(body !== undefined && { body }) },
    isRow: path !== route.path || Object.keys(hintsOf(rows)).some((name) => namesIt(name, query, good)),
  };
};
const namesIt = (name: string, query: string, body: unknown): boolean =>
  new URLSearchParams(query).has(name) || (typeof body === "object" && body !== null && name in body);

/** All requests for one route. */
export const callsOf = (route: ServedRoute, world: Pick<CanaryWorld, "rows" | "badTokens">): readonly Call[] => {
  if (route.auth !== "user") return publicCalls(route, world);
  const { rows } = world;
  const base = { route, person: undefined, variant: "token", expected: "unauthorized" as const };
  const strangers = [["a", rows.a] as const, ["b", rows.b] as const, ["unknown", unknownRows(rows.a)] as const].flatMap(
    ([owner, at]) => {
      const request = requestAt(route, at, true);
      return Object.keys(world.badTokens).flatMap((caller) =>
        request ? [{ ...base, caller, owner, ...request }] : [],
      );
    },
  );
  return [...strangers, ...people.flatMap((person) => callsOfPerson(route, person, rows))];
};

const callsOfPerson = (route: ServedRoute, person: Person, rows: CanaryWorld["rows"]): readonly Call[] => {
  const isAllowed = route.roles.includes(person.role);
  const base = { route, person, caller: person.name };
  const some = [...owners, "unknown" as const].flatMap((owner): readonly Call[] => {
    const isSeen = owner !== "unknown" && person.rows.includes(owner);
    const at = owner === "unknown" ? unknownRows(rows.a) : rows[owner];
    const request = requestAt(route, at, isAllowed && !isSeen);
    if (request === undefined) return [];
    const { path, asked, isRow } = request;
    // If the route names no row, one request is enough.
    if (!isRow && owner !== person.rows[0]) return [];
    const expected = !isAllowed ? "forbidden" : !isSeen ? "unknown" : route.method === "GET" ? "shown" : "faulty";
    const call = { ...base, owner, path, asked, expected, variant: "row" } as const;
    const isHeadToo = route.method === "GET" && isAllowed && (!isSeen || owner === person.rows[0]);
    return isHeadToo ? [call, { ...call, asked: { method: "HEAD" }, variant: "head" }] : [call];
  });
  return isAllowed ? [...some, ...crossCalls(route, person, rows), ...listCalls(route, person, rows)] : some;
};

/** The caller's own row in the path, and another tenant's in the body or the query. */
const crossCalls = (route: ServedRoute, person: Person, rows: CanaryWorld["rows"]): readonly Call[] => {
  const [mine] = person.rows;
  const path = firstOf(route) === undefined ? undefined : pathOf(route, rows[mine!]);
  if (path === undefined) return [];
  // A request that only names the caller's own client is not foreign.
  const isForeign = (owner: Owner): boolean =>
    !person.rows.includes(owner) && rows[owner].client !== rows[mine!].client;
  return [...owners.filter(isForeign), "unknown" as const].flatMap((owner) => {
    const at = owner === "unknown" ? unknownRows(rows.a) : rows[owner];
    const request = requestAt(route, at, true);
    if (request === undefined) return [];
    const query = request.path.split("?")[1] ?? "";
    if (!Object.keys(hintsOf(at)).some((name) => namesIt(name, query, request.asked.body))) return [];
    const whole = query === "" ? path : `${path}?${query}`;
    const base = { route, person, caller: person.name, owner, variant: "cross", expected: "unknown" as const };
    return [{ ...base, path: whole, asked: request.asked }];
  });
};

/** A list in each of its orders, with each filter that names a row, and as a file. */
const listCalls = (route: ServedRoute, person: Person, rows: CanaryWorld["rows"]): readonly Call[] => {
  const { list } = route.contract;
  const path = pathOf(route, rows[person.rows[0]!]);
  if (list === undefined || path === undefined) return [];
  const filters = Object.entries(hintsOf(rows[person.rows[0]!])).filter(([name]) =>
    namesIn(route.contract.query).includes(name),
  );
  const queries = [
    ...filters.map(([name, value]) => `${name}=${String(value)}`),
    ...list.sorts.map((sort) => `sort=${sort}&limit=100`),
    ...(list.csv ? [FILE] : []),
  ];
  const base = { route, person, caller: person.name, owner: null, expected: "shown" as const };
  return queries.map((query) => ({ ...base, path: `${path}?${query}`, variant: query, asked: { method: "GET" } }));
};

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/** Each path with each method that it does not have: as an admin, and without a token. */
export const wrongMethodCalls = (routes: readonly ServedRoute[], rows: CanaryWorld["rows"]): readonly Call[] =>
  [...new Map(routes.map((route) => [route.path, route])).values()].flatMap((route) => {
    const taken = new Set(routes.filter(({ path }) => path === route.path).map(({ method }) => method as string));
    const path = pathOf(route, rows.a) ?? pathOfNone(route, rows.a);
    const base = { route, owner: null, path, expected: "wrong method" as const };
    return METHODS.filter((method) => !taken.has(method)).flatMap((method) => [
      { ...base, person: people[0], caller: people[0]!.name, variant: method, asked: { method } },
      { ...base, person: undefined, caller: "none", variant: method, asked: { method } },
    ]);
  });

/**
 * Adds the ids that lists show for each tenant, so that routes with new kinds of ids are tested
 * too. Ids that the world already has stay unchanged.
 */
export const withListed = async (world: CanaryWorld, routes: readonly ServedRoute[]): Promise<CanaryWorld> => {
  const rows = { ...world.rows };
  const named = new Set(routes.flatMap((route) => firstOf(route) ?? []));
  for (const { path, contract } of routes) {
    const name = /^\/api\/([\w-]+)$/.exec(path)?.[1];
    const isList = contract.list !== undefined && namesIn(contract.query).includes("client_id");
    if (name === undefined || !isList || !named.has(name) || rows.a.ids[name] !== undefined) continue;
    for (const owner of owners) {
      const query = `client_id=${rows[owner].client}&limit=1`;
      const { body } = await world.ask(`${path}?${query}`, { token: world.tokens.admin![0] });
      const id = body?.data?.[0]?.id;
      if (id !== undefined) rows[owner] = { ...rows[owner], ids: { ...rows[owner].ids, [name]: String(id) } };
    }
  }
  return { ...world, rows };
};

const publicCalls = (route: ServedRoute, { rows, badTokens }: Pick<CanaryWorld, "rows" | "badTokens">) => {
  const { path, asked } = requestAt(route, rows.a, true)!;
  const base = { route, person: undefined, owner: null, variant: "public", path, asked };
  // A signed route refuses this body, because no client has signed it.
  const isClosed = route.auth === "service-token" || route.auth === "hmac";
  return Object.keys(badTokens)
    .filter((caller) => route.auth !== "service-token" || caller !== "of a service")
    .map((caller): Call => ({ ...base, caller, expected: isClosed ? "unauthorized" : "public" }));
};

/** The older form of the pixel's configuration shows an admin the signing secret of a client. */
const secretsIn = ({ secrets }: CanaryWorld, { person, path }: Call, { text }: Answer): readonly string[] =>
  person?.role === "admin" && path.endsWith("/pixel-config")
    ? []
    : secrets.filter((secret) => text.includes(secret)).map(() => "a secret");

/** Sends all requests, some in parallel, and looks for values that must not be in the answers. */
export const askAll = async (world: CanaryWorld, calls: readonly Call[], atOnce = 6): Promise<readonly Outcome[]> => {
  const names = [...owners.map((owner) => world.rows[owner]), unknownRows(world.rows.a)].flatMap((rows) => [
    ...[rows.client, rows.partner, rows.campaign].map(String),
    ...Object.values(rows.ids),
  ]);
  // The longest name first, because one may be a prefix of another.
  names.sort((one, other) => other.length - one.length);
  const found: Outcome[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let n = next++; n < calls.length; n = next++) {
      const call = calls[n]!;
      const tokens = call.person && world.tokens[call.person.name]!;
      const token = tokens === undefined ? world.badTokens[call.caller] : tokens[n % tokens.length];
      // Requests without a user are limited by address, so each has its own.
      const headers = { "x-request-id": "same", "x-forwarded-for": `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}` };
      let began = performance.now();
      let answer = await world.ask(call.path, { ...call.asked, token, headers });
      // Only a few files may be written at once, and a busy machine answers 503 too.
      for (let again = 0; answer.status === 503 && again < 20; again += 1) {
        await sleep(200);
        began = performance.now();
        answer = await world.ask(call.path, { ...call.asked, token, headers });
      }
      const ms = performance.now() - began;
      const text = names.reduce((left, name) => left.replaceAll(name, "ID"), answer.text);
      found.push({
        ...call,
        answer,
        text,
        ms,
        leaks: [...leaksIn(call.person, answer), ...secretsIn(world, call, answer)],
      });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return found;
};

/** One line for the person who reads the failure. */
export const described = ({ route, caller, owner, variant, path, answer, leaks }: Outcome): string =>
  [
    `${caller}: ${route.method} ${path} (${variant}, ${owner}) ${answer.status}`,
    ...leaks,
    answer.text.slice(0, 200),
  ].join(" ");
