// Shows every way of sending events as shell commands that work when pasted: with the addresses of
// the running apps and the tokens of the demonstration.
import type { Demo } from "./seed.ts";

export interface Example {
  readonly name: string;
  /** The kind of event and its sender. */
  readonly says: string;
  readonly command: string;
}
/** The running apps of run.json, by name. */
type Apps = Readonly<Record<string, { readonly url?: string }>>;
/**
 * Makes an example for a base address without a trailing slash; null when the demonstration lacks
 * the credentials for it.
 */
type Make = (host: string, demo: Demo) => Omit<Example, "name"> | null;

const json = `-H 'Content-Type: application/json'`;
/**
 * A shell command that prints an HMAC in hex, of the shell's variable `b` or of the arguments of
 * `printf`.
 */
const hmac = (secret: string, signed = `%s "$b"`): string =>
  `$(printf ${signed} | openssl dgst -sha256 -hmac ${secret} | sed 's/.*= //')`;

/** Returns the examples whose app runs and whose tokens the demonstration has. */
export const examplesOf = (apps: Apps, demo: Demo): readonly Example[] =>
  ways.flatMap(([name, app, make]) => {
    const host = apps[app]?.url;
    const made = host === undefined ? null : make(host.replace(/\/$/, ""), demo);
    return made === null ? [] : [{ name, ...made }];
  });

/** Formats examples for a terminal: the description, then the command on its own line. */
export const printedExamples = (examples: readonly Example[]): string =>
  examples.map(({ name, says, command }) => `# ${name}: ${says}\n${command}\n`).join("\n");

const serverOf = ({ clients }: Demo): Demo["clients"][number] => clients[1] ?? clients[0]!;

const batch: Make = (ingest, demo) => {
  const { id, slug, ingest_token: token } = serverOf(demo);
  const event =
    `{"t":"purchase","ts":'$(date +%s000)',"cid":${id},"did":"my-device","event_id":"first-'$(date +%s)'",` +
    `"props":{"order_id":"'$(date +%s)'","revenue":"499.00","currency":"MXN",` +
    `"product_id":"lamp","quantity":1,"coupon":"VERDE10"}}`;
  return {
    says: `a sale, as the server of ${slug} sends it (docs/send-events.md)`,
    command: `curl -s ${ingest}/ingest/batch -H 'Authorization: Bearer ${token}' ${json} -d '{"events":[${event}]}'`,
  };
};

const pixel: Make = (host, demo) => {
  const { id, slug } = serverOf(demo);
  const event = `{"t":"page_view","ts":'$(date +%s000)',"url":"https://www.${slug}.example/"}`;
  return {
    says: "a page that was seen, as the script of a page sends it; 204 (docs/pixel-host.md)",
    command:
      `curl -s -w '%{http_code}\\n' ${host}/e -H 'Content-Type: text/plain' ` +
      `-d '{"cid":${id},"did":"my-browser","events":[${event}]}'`,
  };
};

/**
 * Sends the user agent of a browser, because clicks of programs are redirected without being
 * recorded as visits.
 */
const link: Make = (host, { links }) => {
  const [first] = links;
  if (first === undefined) return null;
  return {
    says: "a visit to a partner's link; 302 to the shop, with a click id (docs/links.md)",
    command:
      `curl -s -o /dev/null -w '%{http_code} %{redirect_url}\\n' ` +
      `-A 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36' ` +
      `${host}/c/${first.code}`,
  };
};

const stripe: Make = (ingest, { stripe: { client_id, secret } }) => {
  const object =
    `{"id":"pi_'$t'","object":"payment_intent","amount_received":49900,"currency":"mxn",` +
    `"metadata":{"order_id":"stripe-'$t'"}}`;
  return {
    says: "a payment, as Stripe posts it back, signed (docs/sources/stripe.md)",
    command:
      `t=$(date +%s); ` +
      `b='{"id":"evt_'$t'","type":"payment_intent.succeeded","created":'$t',"data":{"object":${object}}}'; ` +
      `curl -s '${ingest}/postback/stripe?client_id=${client_id}' ${json} ` +
      `-H "Stripe-Signature: t=$t,v1=${hmac(secret, `'%s.%s' "$t" "$b"`)}" --data-binary "$b"`,
  };
};

const webhook: Make = (ingest, { webhook: { client_id, slug, secret } }) => ({
  says: `any JSON by the mapping of a source, signed: npx tributary sources list (docs/sources/webhook.md)`,
  command:
    `b='{"event":"conversion","id":"hook-'$(date +%s)'",` +
    `"sub_id":"mercado-jardin","sale":{"amount":"499.00","currency":"MXN","order":"hook-'$(date +%s)'"}}'; ` +
    `curl -s '${ingest}/postback/generic?client_id=${client_id}&source=${slug}' ${json} ` +
    `-H "X-Svc-Signature: ${hmac(secret)}" --data-binary "$b"`,
});

/** A query string is flat, so an install sends all its fields at the top level. */
const external: Make = (ingest, { network: { slug, key } }) =>
  key === ""
    ? null
    : {
        says: "an install, as a network calls the address that it was given, by its key (docs/sources/webhook.md)",
        command:
          `curl -s "${ingest}/postback/external/${slug}?key=${key}` +
          `&event=install&sub_id=mercado-jardin&id=net-$(date +%s)"`,
      };

const upload: Make = (ingest, { links, upload_tokens: [token] }) => {
  const [first] = links;
  if (first === undefined || !token) return null;
  const row = `csv-'$(date +%s)',499.00,lamp,1,'$(date +%s000)'`;
  return {
    says: "a file of sales, as a partner uploads it (docs/import-csv.md)",
    command:
      `printf 'order_id,revenue,product_id,quantity,ts\\n${row}\\n' | curl -s -T - ` +
      `${ingest}/upload/${first.client_id}/${first.partner_id}/sales.csv -H 'Authorization: Bearer ${token}'`,
  };
};

const pull: Make = (ingest, { admin_token: token }) => ({
  says: "asks the sources that are pulled for today again (docs/sources/pulls.md)",
  command:
    `curl -s ${ingest}/pull/trigger -H 'Authorization: Bearer ${token}' ${json} ` +
    `-d '{"from":"'$(date -u +%Y-%m-%dT00:00:00Z)'","to":"'$(date -u +%Y-%m-%dT%H:%M:%S.999Z)'"}'`,
});

const lead: Make = (api, demo) => {
  const { id, slug, hmac_secret: secret } = serverOf(demo);
  return {
    says: `a lead, as the server of ${slug} pushes it, signed (docs/push-leads.md)`,
    command:
      `b='{"client_lead_id":"'$(date +%s)-$$'","email":"ana@example.com","product":"lamp"}'; ` +
      `curl -s '${api}/api/pixel/lead-submission?client_id=${id}' ${json} ` +
      `-H "X-Svc-Signature: ${hmac(secret)}" --data-binary "$b"`,
  };
};

/** Name, receiving app and maker of each example, in the order in which they are shown. */
const ways: readonly (readonly [name: string, app: string, make: Make])[] = [
  ["batch", "ingest", batch],
  ["pixel", "pixel", pixel],
  ["link", "links", link],
  ["stripe", "ingest", stripe],
  ["webhook", "ingest", webhook],
  ["external", "ingest", external],
  ["upload", "ingest", upload],
  ["pull", "ingest", pull],
  ["lead", "api", lead],
];
