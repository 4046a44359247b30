// What people are shown is absolute where the public addresses of the hosts are configured.
import { describe, expect, test } from "vitest";
import { readMail } from "../../infra/mail/read-mail.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { apiSuite } from "../support/api-suite.ts";
import { command } from "../support/command.ts";

const hosts = {
  TRACKING_URL: "https://go.example",
  PIXEL_URL: "https://px.example/",
  INGEST_URL: "https://in.example:8443",
  UPLOAD_URL: "http://127.0.0.1:8086",
};
const { env, send, read, fresh, running, demo } = apiSuite(hosts);
const seller = demo.links[0] as { readonly client_id: number; readonly partner_id: number };

const made = async (path: string, body: object): Promise<any> => {
  const answer = await send("POST", path, body);
  expect(answer.status, answer.text).toBeLessThan(300);
  return answer.body;
};
const partnerOf = async (client_id: number): Promise<number> =>
  (await made("/api/partners", { name: "Radio", email: `${fresh("p")}@p.example`, client_ids: [client_id] })).id;

describe("a tracking link", () => {
  test("of a launched campaign, in its answer, the campaign, the list and the partner", async () => {
    const { id: client_id } = await made("/api/clients", { name: "A shop", slug: fresh("hosts") });
    const partner = await partnerOf(client_id);
    const { id } = await made("/api/campaigns", {
      ...{ client_id, name: "Summer", destination_url: "https://shop.example/" },
    });
    const { campaign, links } = await made(`/api/campaigns/${id}/launch`, { partners: [partner] });
    const url = `https://go.example/c/${links[0].code}`;
    const listed = (await read(`/api/campaigns?client_id=${client_id}`)).body.data;
    const shown = [campaign, (await read(`/api/campaigns/${id}`)).body, listed[0]];
    for (const one of [{ links }, ...shown, (await read(`/api/partners/${partner}`)).body])
      expect(one.links).toMatchObject([{ code: links[0].code, url }]);
  });

  test("of an onboarded client, with its snippet, and in the mail about the launch", async () => {
    const email = `${fresh("radio")}@p.example`;
    const { campaigns, pixel } = await made("/api/clients/onboard", {
      client: { name: "Casa", slug: fresh("hosts") },
      partners: [{ key: "radio", name: "Radio", email }],
      campaigns: [{ name: "Summer", destination_url: "https://casa.example/", partners: ["radio"], launch: true }],
    });
    const [{ code, url }] = campaigns[0].links;
    expect(url).toBe(`https://go.example/c/${code}`);
    expect(pixel.snippet).toContain('s.src = "https://px.example/r.js";');
    const mail = await until("the mail has come", 20_000, () => {
      const found = running()
        .mails()
        .map(readMail)
        .find(({ to }) => to === email);
      if (found === undefined) throw new Error("not yet");
      return found;
    });
    expect(mail.text).toContain(url);
  });
});

test("the parts of an upload and the key of a source have the address of their hosts", async () => {
  const { client_id, partner_id } = seller;
  const { upload_id, part_urls } = await made("/api/v3/upload/init", {
    ...{ client_id, partner_id, filename: "sales.csv", size: 100 },
  });
  expect(part_urls).toEqual([`http://127.0.0.1:8086/parts/${upload_id}/1`]);
  const source = await made("/api/sources", { client_id, slug: fresh("s"), name: "Net", kind: "postback_network" });
  const { key, url } = await made(`/api/sources/${source.id}/rotate-key`, {});
  expect(url).toBe(`https://in.example:8443/postback/external/${source.id}?key=${key}`);

  const { stdout, stderr } = await command({ ...env, ...hosts }, ["sources", "rotate", source.id]);
  expect(stdout, stderr).toContain(`https://in.example:8443/postback/external/${source.id}?key=`);
});

test("a command shows the address of a payment provider, and refuses a wrong one before it saves", async () => {
  const { id } = await made("/api/clients", { name: "A shop", slug: fresh("hosts") });
  const processors = (INGEST_URL: string, ...args: readonly string[]) =>
    command({ ...env, INGEST_URL }, ["processors", ...args, "--client", String(id)], `whsec_${Date.now()}\n`);
  const refused = await processors("https://in.example/base", "save", "stripe");
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining("INGEST_URL: must be an origin")]);
  expect(JSON.parse((await processors(hosts.INGEST_URL, "list", "--json")).stdout)).toEqual({ data: [] });
  const address = `https://in.example:8443/postback/stripe?client_id=${id}`;
  const saved = await processors(hosts.INGEST_URL, "save", "stripe");
  expect([saved.code, saved.stdout.trim()], saved.stderr).toEqual([0, address]);
  expect(JSON.parse((await processors(hosts.INGEST_URL, "list", "--json")).stdout).data).toMatchObject([
    { path: address },
  ]);
});
