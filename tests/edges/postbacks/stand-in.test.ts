// The stand-in for the API of Mercado Pago that `npm start` brings: it answers what was put there.
import { request } from "node:http";
import { afterAll, expect, test } from "vitest";
import { servePayments } from "../../../infra/embedded/servers/payments.ts";
import { openLookUp } from "../../../modules/intake/payment-notices/look-up.ts";
import { freePort } from "../../support/ingest.ts";
import { mercadopagoPayment } from "../../support/processor-notices.ts";

const port = await freePort();
const server = await servePayments({ port });
afterAll(() => server.close());
const base = `http://127.0.0.1:${port}`;
const lookUp = openLookUp({ warn: () => undefined }, base);

/** `fetch` does not let us name another host. */
const ask = (
  method: string,
  path: string,
  headers: Readonly<Record<string, string>> = { authorization: "Bearer shop" },
  body = "",
): Promise<number> =>
  new Promise((resolve, reject) => {
    const asked = request(`${base}${path}`, { method, headers, agent: false }, (answer) => {
      answer.resume().once("end", () => resolve(answer.statusCode!));
    });
    asked.once("error", reject);
    asked.end(body);
  });
const put = (id: number, payment: object, token = "shop") =>
  ask("PUT", `/v1/payments/${id}`, { authorization: `Bearer ${token}` }, JSON.stringify(payment));

test("a look-up finds the payment that was put there with its token, as it is by then", async () => {
  await expect(lookUp("/v1/payments/77", "shop")).rejects.toThrow(/answered 404/);
  for (const status of ["pending", "approved"]) {
    expect(await put(77, mercadopagoPayment(77, { status }))).toBe(200);
    expect(await lookUp("/v1/payments/77", "shop")).toEqual(mercadopagoPayment(77, { status }));
  }
  await expect(lookUp("/v1/payments/77", "another")).rejects.toThrow(/answered 404/);
});

test("a request without a token, of a page, for another host or of another form is refused", async () => {
  const payment = "/v1/payments/77";
  const account = { authorization: "Bearer shop" };
  for (const [method, body] of [
    ["GET", ""],
    ["PUT", "{}"],
  ] as const) {
    expect(await ask(method, payment, {}, body)).toBe(401);
    expect(await ask(method, payment, { authorization: "Basic c2hvcDo=" }, body)).toBe(401);
    expect(await ask(method, payment, { ...account, origin: "https://pages.example" }, body)).toBe(403);
    expect(await ask(method, payment, { ...account, host: "pages.example" }, body)).toBe(403);
    for (const path of ["/", "/v1/payments/", "/v1/payments/a", "/v1/payments/77?a", "/v1/payments/77/refunds"])
      expect(await ask(method, path, account, body), path).toBe(404);
  }
  expect(await ask("DELETE", payment)).toBe(405);
  for (const body of ["", "[]", "null", "{", '"text"']) expect(await ask("PUT", payment, account, body)).toBe(400);
  expect(await put(78, { text: "x".repeat(64 * 1024) })).toBe(413);
  expect(await ask("GET", "/v1/payments/78")).toBe(404);
  expect(await put(78, { text: "x".repeat(60 * 1024) })).toBe(200);
});

test("the newest thousand are kept", async () => {
  await put(1, {});
  await put(2, {});
  for (let id = 3; id <= 1_000; id += 1) await put(id, {});
  await put(1, { status: "approved" });
  await put(1_001, {});
  expect([await ask("GET", "/v1/payments/2"), await ask("GET", "/v1/payments/3")]).toEqual([404, 200]);
  expect(await lookUp("/v1/payments/1", "shop")).toEqual({ status: "approved" });
});
