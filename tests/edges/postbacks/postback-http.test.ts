// On real servers one command connects a payment provider, and its signed payloads are in the log.
import { afterAll, beforeAll, expect, test } from "vitest";
import { servePayments } from "../../../infra/embedded/servers/payments.ts";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { command } from "../../support/command.ts";
import { addedToLog, freePort, type RunningIngest, startIngest } from "../../support/ingest.ts";
import { mercadopagoHeaders, mercadopagoNotice, mercadopagoPayment } from "../../support/processor-notices.ts";
import { sharedStack } from "../../support/shared-stack.ts";
import { paymentIntent, stripeEvent, stripeHeader } from "../../support/stripe-notices.ts";

const stack = sharedStack();
const client = stack.demo.clients[0].id as number;
const SECRET = `whsec_${Date.now()}`;
const order = `stripe-${Date.now()}`;
let ingest: RunningIngest;
let api: string;
let standIn: Awaited<ReturnType<typeof servePayments>>;
beforeAll(async () => {
  const port = await freePort();
  standIn = await servePayments({ port });
  api = `http://127.0.0.1:${port}`;
  ingest = await startIngest({ ...stack.env, MERCADOPAGO_URL: api });
  await ingest.ready();
});
afterAll(async () => {
  await ingest?.close();
  await standIn?.close();
});

const processors = (args: readonly string[], input?: string) =>
  command(stack.env, ["processors", ...args, "--client", String(client)], input);
const notice = stripeEvent(
  "payment_intent.succeeded",
  paymentIntent({ id: `pi_${order}`, metadata: { order_id: order, product_id: "lamp" } }),
);
const post = async (secret: string) => {
  const answer = await fetch(`${ingest.url}/postback/stripe?client_id=${client}`, {
    method: "POST",
    body: notice,
    headers: { "content-type": "application/json", "stripe-signature": stripeHeader(notice, secret) },
  });
  return { status: answer.status, body: (await answer.json()) as any };
};

test("a notice is one event while its secret is saved, and is refused before and after", async () => {
  expect((await post(SECRET)).status).toBe(401);
  expect((await processors(["save", "stripe"], " \n")).stderr).toContain("stdin: give the signing secret");
  expect((await processors(["save", "stripe"], "whsec_cut")).stderr).toContain("at least 16 characters");
  const saved = await processors(["save", "stripe"], `${SECRET}\n`);
  expect([saved.code, saved.stdout.trim()], saved.stderr).toEqual([0, `/postback/stripe?client_id=${client}`]);
  expect((await processors(["list", "--json"])).stdout).not.toContain(SECRET);

  const added = await addedToLog(stack, async () => {
    await until("the secret is in force", 20_000, async () =>
      expect(await post(SECRET)).toMatchObject({ status: 200, body: { status: "accepted" } }),
    );
    expect(await post(SECRET)).toMatchObject({ status: 200, body: { status: "duplicate" } });
    expect((await post(`${SECRET}x`)).status).toBe(401);
  });
  const mine = added.filter(({ order_id }) => order_id === order);
  expect(mine).toMatchObject([{ t: "purchase", source: "postback:stripe", client_id: client, value_minor: 129_900n }]);

  expect((await processors(["remove", "stripe"])).code).toBe(0);
  await until("it is refused again", 20_000, async () => expect((await post(SECRET)).status).toBe(401));
  const twice = await processors(["remove", "stripe"]);
  expect([twice.code, twice.stderr]).toEqual([2, expect.stringContaining("nothing is saved of stripe")]);
}, 90_000);

test("a processor whose API is asked is saved with an access token, and no one reads either again", async () => {
  const token = `APP_USR-${Date.now()}-of-the-shop`;
  const saved = await processors(["save", "mercadopago", "--metadata", "order_id=orden"], `${SECRET}\n${token}\n`);
  expect([saved.code, saved.stdout.trim()], saved.stderr).toEqual([0, `/postback/mercadopago?client_id=${client}`]);
  expect((await processors(["save", "mercadopago"], `${SECRET}\n${token}\nx`)).code).toBe(2);
  expect((await processors(["save", "mercadopago", "--metadata", "sku=x"], SECRET)).stderr).toContain("give one of");
  expect((await processors(["save", "stripe"], `${SECRET}\n${token}`)).code).toBe(2);
  const listed = (await processors(["list", "--json"])).stdout;
  expect([listed.includes("mercadopago"), listed.includes(token), listed.includes(SECRET)]).toEqual([
    true,
    false,
    false,
  ]);
  const id = Date.now();
  const put = await fetch(`${api}/v1/payments/${id}`, {
    ...{ method: "PUT", headers: { authorization: `Bearer ${token}` } },
    body: JSON.stringify(mercadopagoPayment(id, { metadata: { orden: `mp-${id}` } })),
  });
  expect(put.status).toBe(200);
  const body = mercadopagoNotice(id);
  const added = await addedToLog(stack, () =>
    until("the secret is in force", 20_000, async () => {
      const answer = await fetch(`${ingest.url}/postback/mercadopago?client_id=${client}&data.id=${id}`, {
        ...{ method: "POST", body },
        headers: { "content-type": "application/json", ...mercadopagoHeaders(String(id), SECRET) },
      });
      expect(answer.status, await answer.text()).toBe(200);
    }),
  );
  expect(added.filter(({ order_id }) => order_id === `mp-${id}`)).toMatchObject([
    { t: "purchase", source: "postback:mercadopago", client_id: client, value_minor: 129_950n },
  ]);
  expect((await processors(["remove", "mercadopago"])).code).toBe(0);
}, 90_000);
