// Sales over HTTP while the analytics store accepts queries and answers none.
import { createServer, type Socket } from "node:net";
import { afterAll, expect, test } from "vitest";
import { apiSuite } from "../support/api-suite.ts";
import { freePort } from "../support/ingest.ts";

const port = await freePort();
const asked: Socket[] = [];
const silent = createServer((socket) => void asked.push(socket.on("error", () => undefined))).listen(port, "127.0.0.1");
const { owner, read, send, fresh } = apiSuite({ CLICKHOUSE_URL: `http://127.0.0.1:${port}` });
afterAll(() => {
  for (const socket of asked) socket.destroy();
  silent.close();
});

test("lists and orders lack what it alone knows, files and decisions by event wait for it", async () => {
  const { id } = (await read("/api/clients")).body.data[0];
  const order = fresh("o");
  await owner.query(
    `insert into product_sales (client_id, event_id, version, t, order_id, value_minor, currency, occurred_at, did,
       credit_status, credit_reason, fraud_band)
     values ($1, gen_random_uuid(), 1, 'purchase', $2, 10000, 'MXN', now(), 'd', 'unattributed', 'no_click', 'ok')`,
    [id, order],
  );
  const list = `/api/sales/unattributed?client_id=${id}`;
  const { status, body } = await read(list);
  const listed = body.data.filter(({ order_id }: any) => order_id === order);
  expect([status, listed.map(({ source, value }: any) => [source, value])]).toEqual([200, [[null, "100.00"]]]);
  expect((await read(`/api/orders/${order}/details?client_id=${id}`)).body).toMatchObject({ gross: "100.00" });
  expect(asked.length).toBeGreaterThan(0);
  const file = await read(`${list}&format=csv`);
  expect([file.status, file.headers.get("retry-after")]).toEqual([503, "2"]);
  expect((await read(`/api/events/${order}/explain?client_id=${id}`)).status).toBe(503);
  const decided = await send("POST", "/api/sales/assign", {
    client_id: id,
    event_id: order,
    partner_id: 1,
    reason: "x",
  });
  expect([decided.status, decided.body.code]).toEqual([503, "unavailable"]);
  const audit = await owner.query("select from audit where entity = $1", [`order:${id}:${order}`]);
  expect(audit.rowCount).toBe(0);
}, 30_000);
