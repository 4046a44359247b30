// Object storage with the S3 protocol: Amazon's, and the many servers that speak it.
import type { S3Client, S3ServiceException } from "@aws-sdk/client-s3";
import { checkKey, ObjectMissing, type Objects, type StoredObject } from "./objects.ts";

// Two tries of 10 s each stay below the session of a consumer (30 s), which waits for a put.
const REQUEST_MS = 10_000;
const CONNECT_MS = 3_000;
const TRIES = 2;
const DEFAULT_REGION = "us-east-1";

export interface S3Address {
  readonly endpoint: string;
  readonly region: string;
  readonly bucket: string;
  /** Empty, or with a slash at its end. */
  readonly prefix: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

/**
 * `s3://key:secret@host:port/bucket?region=eu-west-1&tls=false&prefix=shop-a`; key and secret may
 * be percent-encoded. Without a key the client looks where Amazon's tools look. Throws on anything
 * else, without showing the secret.
 */
export const s3AddressOf = (url: string): S3Address => {
  const { protocol, username, password, host, pathname, searchParams } = new URL(url);
  const [, bucket, ...rest] = pathname.split("/");
  const unknown = [...searchParams.keys()].filter((name) => !["region", "tls", "prefix"].includes(name));
  if (
    protocol !== "s3:" ||
    host === "" ||
    !/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket ?? "") ||
    rest.some((part) => part !== "")
  )
    throw new Error("OBJECT_STORE_URL must be s3://key:secret@host:port/bucket?region=...&tls=false&prefix=...");
  if ((username === "") !== (password === ""))
    throw new Error("OBJECT_STORE_URL: key and secret must be given together");
  if (unknown.length > 0)
    throw new Error(`OBJECT_STORE_URL: ${unknown.join(", ")} is no setting; known are region, tls and prefix`);
  const tls = searchParams.get("tls") ?? "true";
  if (tls !== "true" && tls !== "false") throw new Error("OBJECT_STORE_URL: tls is true or false");
  const prefix = searchParams.get("prefix") ?? "";
  return {
    endpoint: `${tls === "true" ? "https" : "http"}://${host}`,
    region: searchParams.get("region") ?? DEFAULT_REGION,
    bucket: bucket!,
    prefix: prefix === "" ? "" : `${checkKey(prefix.replace(/\/$/, ""))}/`,
    accessKeyId: decodeURIComponent(username),
    secretAccessKey: decodeURIComponent(password),
  };
};

/** The store could not handle the request, or did not answer: another try may succeed. */
class ObjectStoreAway extends Error {
  readonly verdict = "transient";
  constructor(what: string, cause: unknown) {
    super(`${what}: ${(cause as Error).message}`, { cause });
    this.name = "ObjectStoreAway";
  }
}
/** The store refused the request: a key, a bucket or a permission is wrong. */
class ObjectStoreRefuses extends Error {
  readonly verdict = "fatal";
  constructor(what: string, cause: unknown) {
    super(`${what}: ${(cause as Error).name}: ${(cause as Error).message}`, { cause });
    this.name = "ObjectStoreRefuses";
  }
}

const statusOf = (error: unknown): number | undefined => (error as S3ServiceException).$metadata?.httpStatusCode;
/**
 * 409: two concurrent conditional puts, of which none may have won yet. 408 and 429 ask for another
 * try.
 */
const ASKS_AGAIN = [408, 409, 429];

const doing = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
  try {
    return await work();
  } catch (error) {
    const status = statusOf(error);
    if (status !== undefined && status >= 400 && status < 500 && !ASKS_AGAIN.includes(status))
      throw new ObjectStoreRefuses(what, error);
    throw new ObjectStoreAway(what, error);
  }
};

/**
 * Connects to nothing yet. Conditional puts need a server that knows `If-None-Match` (Amazon since
 * 2024-08, MinIO, Ceph, R2).
 */
export const s3Objects = (url: string): Objects => {
  const { bucket, prefix, ...address } = s3AddressOf(url);
  let loaded: ReturnType<typeof load> | undefined;
  const s3 = (): ReturnType<typeof load> => {
    loaded ??= load(address);
    return loaded;
  };
  const at = (key: string) => ({ Bucket: bucket, Key: prefix + checkKey(key) });

  return {
    put: async (key, body) => {
      const place = at(key);
      const { client, PutObjectCommand } = await s3();
      await doing(`put ${key}`, () => client.send(new PutObjectCommand({ ...place, Body: body })));
    },
    putNew: async (key, body) => {
      const place = at(key);
      const { client, PutObjectCommand } = await s3();
      const command = new PutObjectCommand({ ...place, Body: body, IfNoneMatch: "*" });
      return doing(`put ${key}`, () =>
        client.send(command).then(
          () => true,
          (error) => unless(statusOf(error) === 412, false, error),
        ),
      );
    },
    get: async (key) => {
      const place = at(key);
      const { client, GetObjectCommand } = await s3();
      const found = await doing(`get ${key}`, async () => {
        try {
          const { Body } = await client.send(new GetObjectCommand(place));
          return await Body!.transformToByteArray();
        } catch (error) {
          return unless(statusOf(error) === 404 && (error as Error).name === "NoSuchKey", null, error);
        }
      });
      if (found === null) throw new ObjectMissing(key);
      return Buffer.from(found.buffer, found.byteOffset, found.byteLength);
    },
    list: (under, after = "") => listed(s3, { bucket, prefix, under, after }),
    delete: async (key) => {
      const place = at(key);
      const { client, DeleteObjectCommand } = await s3();
      await doing(`delete ${key}`, () => client.send(new DeleteObjectCommand(place)));
    },
    close: async () => (await loaded)?.client.destroy(),
  };
};

/** Returns `answer` for an error that is an answer; throws every other error. */
const unless = <T>(isAnswer: boolean, answer: T, error: unknown): T => {
  if (!isAnswer) throw error;
  return answer;
};

/** The library is large, and objects in a folder need none of it. */
const load = async ({
  endpoint,
  region,
  accessKeyId,
  secretAccessKey,
}: Pick<S3Address, "endpoint" | "region" | "accessKeyId" | "secretAccessKey">) => {
  const sdk = await import("@aws-sdk/client-s3");
  const client: S3Client = new sdk.S3Client({
    endpoint,
    region,
    forcePathStyle: true,
    maxAttempts: TRIES,
    // Other servers than Amazon's refuse the checksums that newer clients add; the archive has
    // checksums of its own.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    requestHandler: { connectionTimeout: CONNECT_MS, requestTimeout: REQUEST_MS, throwOnRequestTimeout: true },
    ...(accessKeyId !== "" && { credentials: { accessKeyId, secretAccessKey } }),
  });
  return { ...sdk, client };
};

interface Listing {
  readonly bucket: string;
  readonly prefix: string;
  readonly under: string;
  readonly after: string;
}

async function* listed(
  s3: () => ReturnType<typeof load>,
  { bucket, prefix, under, after }: Listing,
): AsyncGenerator<StoredObject, void> {
  const { client, ListObjectsV2Command } = await s3();
  let last = after;
  for (;;) {
    const StartAfter = last === "" ? undefined : prefix + last;
    const command = new ListObjectsV2Command({
      Bucket: bucket,
      Prefix: prefix + under,
      ...(StartAfter !== undefined && { StartAfter }),
    });
    const { Contents = [], IsTruncated } = await doing(`list ${under}`, () => client.send(command));
    for (const { Key, Size, LastModified } of Contents)
      yield { key: Key!.slice(prefix.length), bytes: Size ?? 0, storedAt: LastModified?.getTime() ?? Date.now() };
    if (IsTruncated !== true || Contents.length === 0) return;
    last = Contents.at(-1)!.Key!.slice(prefix.length);
  }
}
