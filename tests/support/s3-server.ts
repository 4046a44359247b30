// The part of the S3 protocol that the product uses, in this process. It recomputes and checks
// signatures.
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface S3Server {
  /** An OBJECT_STORE_URL; `over` replaces the secret or adds to the query. */
  readonly url: (over?: { readonly secret?: string; readonly query?: string }) => string;
  readonly held: Map<string, Buffer>;
  /** Requests so far, e.g. `PUT /bucket/key`. */
  readonly requests: string[];
  /** The next requests get these statuses and have no effect. */
  readonly failWith: (...statuses: readonly number[]) => void;
  readonly close: () => Promise<void>;
}

const KEY = "AKIDEXAMPLE";
const SECRET = "wJalr/XUtnFEMI+K7MDENG";
const REGION = "eu-west-1";
const BUCKET = "tributary";
const PAGE = 3;

const sha256 = (bytes: Buffer | string): string => createHash("sha256").update(bytes).digest("hex");
const hmac = (key: Buffer | string, text: string): Buffer => createHmac("sha256", key).update(text).digest();
const encoded = (text: string): string =>
  encodeURIComponent(text).replace(/[!'()*]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`);

/**
 * https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html. Returns null if
 * the signature fits the request.
 */
const signatureProblem = ({ method, url, headers }: IncomingMessage, body: Buffer): string | null => {
  const given = /^AWS4-HMAC-SHA256 Credential=([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(
    headers.authorization ?? "",
  );
  if (given === null) return "AccessDenied";
  const [, credential, signedHeaders, signature] = given as unknown as [string, string, string, string];
  const [key, day, region, service, end] = credential.split("/");
  const at = String(headers["x-amz-date"]);
  if (key !== KEY || region !== REGION || service !== "s3" || end !== "aws4_request" || !at.startsWith(day!))
    return "AuthorizationHeaderMalformed";
  const payload = String(headers["x-amz-content-sha256"]);
  if (payload !== "UNSIGNED-PAYLOAD" && payload !== sha256(body)) return "XAmzContentSHA256Mismatch";
  const { pathname, searchParams } = new URL(url!, "http://x");
  const names = signedHeaders.split(";");
  for (const needed of ["host", "x-amz-content-sha256", "x-amz-date"])
    if (!names.includes(needed)) return "AccessDenied";
  const canonical = [
    method,
    pathname
      .split("/")
      .map((part) => encoded(decodeURIComponent(part)))
      .join("/"),
    [...searchParams]
      .map(([name, value]) => `${encoded(name)}=${encoded(value)}`)
      .sort()
      .join("&"),
    ...names.map((name) => `${name}:${String(headers[name]).trim().replace(/ +/g, " ")}`),
    "",
    signedHeaders,
    payload,
  ].join("\n");
  const signed = ["AWS4-HMAC-SHA256", at, `${day}/${region}/s3/aws4_request`, sha256(canonical)].join("\n");
  const signing = [day!, region, "s3", "aws4_request"].reduce<Buffer | string>(
    (secret, part) => hmac(secret, part),
    `AWS4${SECRET}`,
  );
  const right = hmac(signing, signed);
  return timingSafeEqual(right, Buffer.from(signature, "hex")) ? null : "SignatureDoesNotMatch";
};

export const startS3 = async (): Promise<S3Server> => {
  const held = new Map<string, Buffer>();
  const storedAt = new Map<string, Date>();
  const requests: string[] = [];
  const failures: number[] = [];
  const refuse = (response: ServerResponse, status: number, code: string): void => {
    response.writeHead(status, { "content-type": "application/xml" });
    response.end(`<?xml version="1.0"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`);
  };
  const list = (searchParams: URLSearchParams): string => {
    const [prefix, after] = [searchParams.get("prefix") ?? "", searchParams.get("start-after") ?? ""];
    const all = [...held.keys()].sort().filter((key) => key.startsWith(prefix) && key > after);
    const entries = all.slice(0, PAGE).map((key) => {
      const changed = storedAt.get(key)!.toISOString();
      const size = held.get(key)!.length;
      return `<Contents><Key>${key}</Key><Size>${size}</Size><LastModified>${changed}</LastModified></Contents>`;
    });
    return (
      `<?xml version="1.0"?><ListBucketResult><Name>${BUCKET}</Name><KeyCount>${entries.length}</KeyCount>` +
      `<IsTruncated>${all.length > PAGE}</IsTruncated>${entries.join("")}</ListBucketResult>`
    );
  };
  const answer = (request: IncomingMessage, response: ServerResponse, body: Buffer): void => {
    requests.push(`${request.method} ${request.url}`);
    const failure = failures.shift();
    const problem = signatureProblem(request, body);
    if (failure !== undefined) refuse(response, failure, failure === 503 ? "SlowDown" : "InternalError");
    else if (problem !== null) refuse(response, 403, problem);
    else serve(request, response, body);
  };
  const serve = (request: IncomingMessage, response: ServerResponse, body: Buffer): void => {
    const { pathname, searchParams } = new URL(request.url!, "http://x");
    const [, bucket, ...parts] = pathname.split("/").map(decodeURIComponent);
    const key = parts.join("/");
    const found = held.get(key);
    if (bucket !== BUCKET) refuse(response, 404, "NoSuchBucket");
    else if (request.method === "GET" && key === "") {
      response.writeHead(200, { "content-type": "application/xml" });
      response.end(list(searchParams));
    } else if (request.method === "GET") {
      if (found === undefined) refuse(response, 404, "NoSuchKey");
      else response.end(found);
    } else if (request.method === "PUT" && request.headers["if-none-match"] === "*" && found !== undefined)
      refuse(response, 412, "PreconditionFailed");
    else if (request.method === "PUT") {
      held.set(key, body);
      storedAt.set(key, new Date());
      response.writeHead(200, { etag: `"${createHash("md5").update(body).digest("hex")}"` });
      response.end();
    } else if (request.method === "DELETE") {
      held.delete(key);
      response.writeHead(204);
      response.end();
    } else refuse(response, 405, "MethodNotAllowed");
  };
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => answer(request, response, Buffer.concat(parts)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: ({ secret = SECRET, query = "" } = {}) =>
      `s3://${KEY}:${encodeURIComponent(secret)}@127.0.0.1:${port}/${BUCKET}?region=${REGION}&tls=false${query}`,
    held,
    requests,
    failWith: (...statuses) => void failures.push(...statuses),
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
};
