// Callers of the platform API, with a sick identity provider and an address that guesses tokens:
// each answer says who is at fault.
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { afterEach, expect, test } from "vitest";
import { AUDIENCE, type IdentityPorts, identify } from "../../apps/api/identity.ts";
import { Problem } from "../../infra/http/problem.ts";
import { Unavailable } from "../../infra/runtime/errors.ts";
import type { User } from "../../modules/access/users/users.ts";

const someone: User = {
  user_id: 1,
  email: "someone@demo.tributary.test",
  name: "Someone",
  role: "admin",
  partner_id: null,
  client_ids: [],
  all_clients: false,
  locale: "es",
};
const { publicKey, privateKey } = await generateKeyPair("RS256");
const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

/** A provider whose keys are the answer of `keys`. */
const provider = async (keys: RequestListener): Promise<string> => {
  const server = createServer((request, response) => {
    if (request.url === "/keys") return keys(request, response);
    response.end(JSON.stringify({ issuer: issuer(), jwks_uri: `${issuer()}/keys` }));
  });
  const issuer = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stops.push(() => {
    server.close();
    server.closeAllConnections();
  });
  return issuer();
};
const goodKeys: RequestListener = async (_, response) =>
  void response.end(JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: "one", alg: "RS256" }] }));
const tokenOf = (issuer: string): Promise<string> =>
  new SignJWT({ email: someone.email, email_verified: true })
    .setProtectedHeader({ alg: "RS256", kid: "one", typ: "at+jwt" })
    .setIssuer(issuer)
    .setAudience(AUDIENCE)
    .setSubject("someone")
    .setExpirationTime("1 minute")
    .sign(privateKey);
const asking = (ports: Partial<IdentityPorts>) => {
  const who = identify({ issuer: undefined, userOf: async () => someone, ...ports });
  return (token: string | undefined, address = "192.0.2.1"): Promise<User | string> => {
    const authorization = `Bearer ${token}`;
    const asked =
      token === undefined
        ? { headers: {}, rawHeaders: [] }
        : { headers: { authorization }, rawHeaders: ["Authorization", authorization] };
    return who(asked as unknown as IncomingMessage, address).catch((error: Error) => {
      if (error instanceof Unavailable) return "unavailable";
      return error instanceof Problem ? error.code : error.message;
    });
  };
};

test("a provider that gives its keys without https is not believed", async () => {
  let asked = 0;
  const server = createServer((_, response) => {
    asked += 1;
    response.end(JSON.stringify({ issuer: issuer(), jwks_uri: `${issuer().replace("127.0.0.1", "0.0.0.0")}/keys` }));
  });
  const issuer = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stops.push(() => void server.close());
  expect(await asking({ issuer: issuer() })(await tokenOf(issuer()))).toBe("unavailable");
  expect(asked, "the keys are not asked for").toBe(1);
});

test.each<[string, RequestListener]>([
  ["whose keys answer 503", (_, response) => void response.writeHead(503).end()],
  ["whose keys are a page", (_, response) => void response.end("<html>")],
  ["whose keys are none", (_, response) => void response.end("{}")],
  ["that hangs up", (request) => void request.socket.destroy()],
])("a provider %s is no fault of the token", async (_, keys) => {
  const issuer = await provider(keys);
  expect(await asking({ issuer })(await tokenOf(issuer))).toBe("unavailable");
});

test("an address that fails too often is limited, another one is not, and a good token still passes", async () => {
  const issuer = await provider(goodKeys);
  const ask = asking({ issuer });
  const answers = await Promise.all(Array.from({ length: 1_001 }, (_, n) => ask(n % 2 === 0 ? undefined : "nonsense")));
  expect(answers.filter((answer) => answer === "unauthorized")).toHaveLength(1_000);
  expect(answers.filter((answer) => answer === "rate_limited")).toHaveLength(1);
  expect(await ask(undefined, "192.0.2.2")).toBe("unauthorized");
  expect(await ask(await tokenOf(issuer))).toEqual(someone);
});

test("an address that shows good tokens of no user too often is limited too", async () => {
  const issuer = await provider(goodKeys);
  const token = await tokenOf(issuer);
  const ask = asking({ issuer, userOf: async () => undefined });
  const answers: (User | string)[] = [];
  for (let n = 0; n < 1_001; n += 100)
    answers.push(...(await Promise.all(Array.from({ length: 100 }, () => ask(token)))));
  expect(answers.slice(0, 1_000)).toEqual(Array.from({ length: 1_000 }, () => "no_account"));
  expect(answers.at(-1)).toBe("rate_limited");
});

test("the addresses of one IPv6 network are one sender, and share their failures", async () => {
  const ask = asking({});
  const failing = (n: number) => ask(undefined, `2001:db8:1:2::${n.toString(16)}`);
  const answers = await Promise.all(Array.from({ length: 1_001 }, (_, n) => failing(n)));
  expect(answers.filter((answer) => answer === "rate_limited")).toHaveLength(1);
  expect(await ask(undefined, "2001:db8:1:3::1")).toBe("unauthorized");
  expect(await ask(undefined, "192.0.2.1")).toBe("unauthorized");
});

test("users that cannot be read now are unavailable, and an unexpected error is thrown as it is", async () => {
  const issuer = await provider(goodKeys);
  const token = await tokenOf(issuer);
  const failing = (error: Error) => asking({ issuer, userOf: () => Promise.reject(error) })(token);
  expect(await failing(Object.assign(new Error("connect"), { code: "ECONNREFUSED" }))).toBe("unavailable");
  expect(await failing(new Error("column users.name does not exist"))).toBe("column users.name does not exist");
});
